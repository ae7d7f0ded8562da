"""What Kafka's replica assignment promises, for any brokers, racks, starts and sizes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.kafka.assignment import add_partitions, assign_replicas


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], dict[int, str] | None]:
    brokers = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
    rack = st.sampled_from(["a", "b", "c", "d", "e"])
    return brokers, draw(st.none() | st.fixed_dictionaries(dict.fromkeys(brokers, rack)))


@given(clusters(), st.data(), st.integers(1, 60), st.integers(0, 50), st.integers(0, 30) | st.none(), st.integers())
def test_replicas_of_a_partition_are_distinct_and_on_as_many_racks_as_possible(
    cluster: Any, data: Any, partitions: Any, first: Any, start: Any, seed: Any
) -> None:
    brokers, racks = cluster
    factor = data.draw(st.integers(1, len(brokers)))
    assignment = assign_replicas(
        brokers,
        partitions,
        factor,
        racks=racks,
        start_index=start,
        start_partition_id=first,
        rng=random.Random(seed),
    )
    assert list(assignment) == list(range(first, first + partitions))
    for replicas in assignment.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(brokers)
        if racks:
            used = Counter(racks[broker] for broker in replicas)
            everywhere = len(set(racks.values()))
            assert len(used) == min(factor, everywhere)  # distinct racks, or at least one on each


@given(st.integers(1, 9), st.integers(1, 6), st.data(), st.integers())
def test_leaders_and_replicas_are_even_without_racks_in_whole_rounds(
    brokers: Any, rounds: Any, data: Any, seed: Any
) -> None:
    factor = data.draw(st.integers(1, brokers))
    assert_even(range(brokers), assign_replicas(range(brokers), brokers * rounds, factor, rng=random.Random(seed)))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.data(), st.integers())
def test_leaders_and_replicas_are_even_with_equal_racks_in_whole_rounds(
    racks: Any, in_each: Any, rounds: Any, data: Any, seed: Any
) -> None:
    ids = data.draw(st.permutations(range(racks * in_each)))
    rack_of = {broker: f"rack{place % racks}" for place, broker in enumerate(ids)}
    factor = data.draw(st.integers(1, len(ids)))
    assert_even(ids, assign_replicas(ids, len(ids) * rounds, factor, racks=rack_of, rng=random.Random(seed)))


def assert_even(brokers: Any, assignment: Any) -> None:
    leaders = Counter(replicas[0] for replicas in assignment.values())
    held = Counter(broker for replicas in assignment.values() for broker in replicas)
    assert {leaders[broker] for broker in brokers} == {len(assignment) // len(brokers)}
    assert len({held[broker] for broker in brokers}) == 1


@given(clusters(), st.data(), st.integers(1, 20), st.integers(1, 20))
def test_adding_partitions_is_deterministic_and_touches_no_existing_partition(
    cluster: Any, data: Any, before: Any, more: Any
) -> None:
    brokers, racks = cluster
    factor = data.draw(st.integers(1, len(brokers)))
    existing = assign_replicas(sorted(brokers), before, factor, racks=racks)
    added = add_partitions("t", existing, before + more, brokers, racks=racks)
    assert list(added) == list(range(before, before + more))
    assert added == add_partitions("t", existing, before + more, sorted(brokers, reverse=True), racks=racks)
    assert {len(set(replicas)) for replicas in added.values()} == {factor}
