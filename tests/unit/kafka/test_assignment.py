"""Replica assignment: the published rules row by row, and worked examples."""

from __future__ import annotations

import random
from collections import Counter
from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import InputError, KafkaRuleError
from kafka_rebalance.kafka.assignment import add_partitions, assign_replicas, brokers_with_racks, rack_alternated
from support.kafka.refusals import message_of

SIX_RACKED = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
WORKED = {0: (2, 1, 0), 1: (0, 2, 1), 2: (1, 0, 2), 3: (2, 0, 1), 4: (0, 1, 2), 5: (1, 2, 0)}


class Draws(random.Random):
    """Draws that are known beforehand, and how large each was allowed to be."""

    def __init__(self, *values: int) -> None:
        super().__init__()
        self.values = list(values)
        self.limits: list[int] = []

    def randrange(self, limit: int) -> int:  # type: ignore[override]
        self.limits.append(limit)
        return self.values.pop(0)


# Replica assignment without racks, as published for 2.0.0


def test_assignment_takes_partitions_factor_brokers_start_and_first_partition() -> None:
    """Seed 000, row 1: the five parameters; without fixedStartIndex and startPartitionId both are as Kafka's -1."""
    defaults = {name: p.default for name, p in signature(assign_replicas).parameters.items()}
    assert list(defaults)[:3] == ["brokers", "partitions", "replication_factor"]
    assert defaults["start_index"] is None
    assert defaults["start_partition_id"] == 0
    kafkas = assign_replicas([0, 1, 2], 4, 2, start_index=-1, start_partition_id=-1, rng=random.Random(5))
    assert kafkas == assign_replicas([0, 1, 2], 4, 2, rng=random.Random(5))


def test_assignment_maps_each_partition_to_broker_ids() -> None:
    """Seed 000, row 2: the result is a map partition -> broker ids."""
    assert assign_replicas([7, 8], 2, 2, start_index=0) == {0: (7, 8), 1: (8, 7)}


def test_assignment_start_is_random_unless_fixed() -> None:
    """Seed 000, row 3: the start index is random unless fixed."""
    starts = {assign_replicas([0, 1, 2], 1, 1, rng=random.Random(seed))[0] for seed in range(50)}
    assert starts == {(0,), (1,), (2,)}
    assert assign_replicas([0, 1, 2], 1, 1, start_index=2) == {0: (2,)}


@pytest.mark.parametrize(("start", "ids"), [(-1, [0, 1]), (0, [0, 1]), (7, [7, 8])])
def test_assignment_partition_ids_start_at_the_first_partition_or_0(start: int, ids: Any) -> None:
    """Seed 000, row 4: partition ids start at max(0, start)."""
    assert list(assign_replicas([0, 1, 2], 2, 1, start_index=0, start_partition_id=start)) == ids


def test_assignment_shift_is_random_unless_fixed_and_drawn_after_the_start() -> None:
    """Seed 000, row 5: the shift is the followers' offset from the first replica, random unless fixed."""
    draws = Draws(2, 1)
    assert assign_replicas([0, 1, 2], 6, 3, rng=draws) == WORKED
    assert draws.limits == [3, 3]
    assert assign_replicas([0, 1, 2], 6, 3, replica_shift=1, rng=Draws(2)) == WORKED
    assert assign_replicas([0, 1, 2], 6, 3, start_index=2, replica_shift=1, rng=Draws()) == WORKED


def test_assignment_shift_grows_at_each_multiple_of_the_brokers() -> None:
    """Seed 000, row 6: the shift grows by one whenever p > 0 and p mod B = 0."""
    followers = [held[1] for held in assign_replicas([0, 1, 2, 3], 12, 2, start_index=0).values()]
    assert followers == [1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]
    at_once = assign_replicas([0, 1, 2, 3], 1, 2, start_index=0, start_partition_id=4)
    assert at_once == {4: (0, 2)}


def test_assignment_first_replica_is_partition_plus_start_mod_brokers() -> None:
    """Seed 000, row 7: first = (p + start) mod B, a place in the list and not a broker id."""
    brokers = [30, 10, 20]
    leaders = [held[0] for held in assign_replicas(brokers, 7, 1, start_index=2).values()]
    assert leaders == [brokers[(p + 2) % 3] for p in range(7)]


def test_assignment_followers_follow_the_formula() -> None:
    """Seed 000, row 8: follower j sits at (first + 1 + (shift + j) mod (B - 1)) mod B."""
    assignment = assign_replicas(range(7), 7, 5, start_index=3, replica_shift=4)
    for partition, replicas in assignment.items():
        first = (partition + 3) % 7
        assert replicas == (first, *((first + 1 + (4 + j) % 6) % 7 for j in range(4)))


def test_assignment_of_a_new_topic_starts_at_partition_0() -> None:
    """Seed 000, row 9: by default creation starts at partition 0."""
    assert list(assign_replicas([0, 1], 3, 1)) == [0, 1, 2]


def test_assignment_worked_example_of_3_brokers_and_6_partitions() -> None:
    """Seed 000, row 10: 3 brokers, 6 partitions, RF 3, start 2, shift 1."""
    assert assign_replicas([0, 1, 2], 6, 3, start_index=2, replica_shift=1) == WORKED


def test_assignment_intermediate_places_of_the_worked_example() -> None:
    """Seed 000, row 11: replicaIndex(2,1,0,3) = 1 and replicaIndex(2,1,1,3) = 0, so p0 = [2,1,0]."""
    assert assign_replicas([0, 1, 2], 1, 2, start_index=2, replica_shift=1)[0] == (2, 1)
    assert assign_replicas([0, 1, 2], 1, 3, start_index=2, replica_shift=1)[0] == (2, 1, 0)


@pytest.mark.parametrize("shift", range(6))
def test_assignment_offset_of_3_brokers_is_1_or_2(shift: Any) -> None:
    """Seed 000, row 12: for B = 3 the offset can only be 1 or 2, never 0."""
    leader, follower = assign_replicas([0, 1, 2], 1, 2, start_index=0, replica_shift=shift)[0]
    assert follower - leader == 1 + shift % 2


def test_assignment_heads_go_round_the_brokers() -> None:
    """Leaders go round the brokers. That the head leads is row 13, in test_acceptance_controller."""
    assigned = assign_replicas([0, 1, 2], 6, 3, start_index=2, replica_shift=1)
    assert [held[0] for held in assigned.values()] == [2, 0, 1, 2, 0, 1]


# Key principles


def test_assignment_two_draws_place_the_first_leader_and_its_follower() -> None:
    """Seed 002, row 9: first leader and first follower's offset; both then advance by one with each partition."""
    assignment = assign_replicas(range(10), 5, 3, rng=Draws(4, 2))
    assert assignment == {p: (4 + p, (4 + p + 3) % 10, (4 + p + 4) % 10) for p in range(5)}


def test_assignment_twenty_brokers_with_draws_19_and_0() -> None:
    """Seed 002, row 10: 20 brokers, 20 partitions, RF 10: ten consecutive ids from (19 + p) mod 20."""
    assignment = assign_replicas(range(20), 20, 10, rng=Draws(19, 0))
    assert assignment == {p: tuple((19 + p + j) % 20 for j in range(10)) for p in range(20)}
    assert assignment[0] == (19, 0, 1, 2, 3, 4, 5, 6, 7, 8)
    assert assignment[12] == (11, 12, 13, 14, 15, 16, 17, 18, 19, 0)


def test_assignment_refuses_more_replicas_than_brokers() -> None:
    """Seed 002, row 11: the text of RF 4 on 3 brokers."""
    refused = message_of(assign_replicas, [0, 1, 2], 1, 4)
    assert refused == "Replication factor: 4 larger than available brokers: 3."


def test_assignment_leader_walk_over_five_brokers() -> None:
    """Seed 002, row 12: 5 brokers, 5 partitions, first leader on broker 4: 4, 5, 1, 2, 3."""
    assignment = assign_replicas([1, 2, 3, 4, 5], 5, 1, start_index=3)
    assert [held[0] for held in assignment.values()] == [4, 5, 1, 2, 3]


# Topic creation


def test_assignment_sample_topic_has_two_partitions_of_two_replicas() -> None:
    """Seed 004, row 5: RF 2, 2 partitions."""
    assignment = assign_replicas([0, 1, 2], 2, 2)
    assert {p: len(set(held)) for p, held in assignment.items()} == {0: 2, 1: 2}


def test_assignment_spreads_over_all_brokers_and_a_partition_over_different_ones() -> None:
    """Seed 004, row 10: replicas spread over all brokers, each partition's on different brokers."""
    assignment = assign_replicas(range(5), 10, 3)
    assert Counter(broker for held in assignment.values() for broker in held) == dict.fromkeys(range(5), 6)
    assert all(len(set(held)) == 3 for held in assignment.values())


def test_assignment_leaders_go_round_from_a_random_start() -> None:
    """Seed 004, row 11: first replicas round-robin from a random start, followers shifted."""
    assignment = assign_replicas(range(4), 8, 2, rng=Draws(3, 1))
    assert [held[0] for held in assignment.values()] == [3, 0, 1, 2, 3, 0, 1, 2]
    assert [held[1] for held in assignment.values()] == [1, 2, 3, 0, 2, 3, 0, 1]


def test_assignment_of_three_partitions_on_three_brokers() -> None:
    """Seed 004, row 12: 3 brokers, 3 partitions, RF 2, first replica on broker 1."""
    assert assign_replicas([0, 1, 2], 3, 2, rng=Draws(1, 0)) == {0: (1, 2), 1: (2, 0), 2: (0, 1)}


def test_assignment_takes_brokers_sorted_by_id() -> None:
    """Seed 004, row 13: brokers are sorted before the assignment; the caller's order is kept by the algorithm."""
    assert add_partitions("t", {0: [1]}, 3, {3, 1, 2}) == {1: (2,), 2: (3,)}
    assert list(brokers_with_racks({3: "a", 1: "b", 2: "c"}, "enforced")) == [1, 2, 3]
    assert assign_replicas([3, 1, 2], 3, 1, start_index=0) == {0: (3,), 1: (1,), 2: (2,)}


@pytest.mark.parametrize(
    ("partitions", "factor", "brokers", "racks", "refused"),
    [
        (0, 0, [], {}, "Number of partitions must be larger than 0."),
        (-1, 1, [0], {}, "Number of partitions must be larger than 0."),
        (1, 0, [], {}, "Replication factor must be larger than 0."),
        (1, -2, [0], {}, "Replication factor must be larger than 0."),
        (1, 1, [], {}, "Replication factor: 1 larger than available brokers: 0."),
        (1, 3, [0, 1], {0: "a"}, "Replication factor: 3 larger than available brokers: 2."),
        (1, 2, [0, 1], {0: "a"}, "Not all brokers have rack information for replica rack aware assignment."),
        (1, 2, [0, 1], {0: "a", 1: None}, "Not all brokers have rack information for replica rack aware assignment."),
    ],
)
def test_assignment_refuses_in_kafkas_order(
    partitions: int, factor: int, brokers: Any, racks: Any, refused: str
) -> None:
    """Seed 004, row 14: partitions > 0, RF > 0, RF <= brokers; then the racks. Texts are those of 2.0."""
    assert message_of(assign_replicas, brokers, partitions, factor, racks=racks) == refused


def test_assignment_shifts_followers_at_multiples_of_the_brokers() -> None:
    """Seed 004, row 15: shift + 1 at multiples of B, counted by the partition's own id."""
    assert assign_replicas([0, 1, 2], 4, 2, start_index=0, start_partition_id=2) == {
        2: (2, 0),
        3: (0, 2),
        4: (1, 0),
        5: (2, 1),
    }


# Worked examples


def test_assignment_of_the_documentation() -> None:
    """5 brokers, 10 partitions, RF 3, fixedStartIndex 0."""
    assert assign_replicas(range(5), 10, 3, start_index=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


@pytest.mark.parametrize(
    ("racks", "expected"),
    [
        (SIX_RACKED, (0, 3, 1, 5, 4, 2)),
        ({broker: rack for broker, rack in SIX_RACKED.items() if broker != 5}, (0, 3, 1, 4, 2)),
        ({broker: f"rack{1 + broker // 3}" for broker in range(9)}, (0, 3, 6, 1, 4, 7, 2, 5, 8)),
        ({1: "rack2", 2: "rack10"}, (2, 1)),  # racks sort as strings
        ({9: "a", 10: "a", 2: "b"}, (9, 2, 10)),  # brokers as numbers
        ({1: "\uffff", 2: "\U0001f600"}, (2, 1)),  # Java compares UTF-16 units
        ({}, ()),
    ],
)
def test_racks_alternate_until_they_are_used_up(racks: Any, expected: Any) -> None:
    assert rack_alternated(racks) == expected


def test_rack_aware_assignment_of_six_brokers_shifts_in_the_second_round() -> None:
    expected = {0: (0, 3, 1), 1: (3, 1, 5), 2: (1, 5, 4), 3: (5, 4, 2), 4: (4, 2, 0), 5: (2, 0, 3), 6: (0, 4, 2)}
    assert assign_replicas(range(6), 7, 3, racks=SIX_RACKED, start_index=0) == expected


def test_rack_aware_assignment_looks_only_at_the_brokers_given() -> None:
    without_5 = [0, 1, 2, 3, 4]
    known = {broker: SIX_RACKED[broker] for broker in without_5}
    assert assign_replicas(without_5, 20, 3, racks=SIX_RACKED, start_index=1) == assign_replicas(
        without_5, 20, 3, racks=known, start_index=1
    )


def test_racks_that_no_broker_has_are_no_racks() -> None:
    expected = assign_replicas([2, 0, 1], 5, 2, start_index=1)
    assert assign_replicas([2, 0, 1], 5, 2, racks=dict.fromkeys(range(3)), start_index=1) == expected
    assert assign_replicas([2, 0, 1], 5, 2, racks={8: "a"}, start_index=1) == expected


@pytest.mark.parametrize("racks", [None, {4: "a"}])
def test_a_single_broker_takes_every_partition(racks: Any) -> None:
    assert assign_replicas([4], 3, 1, racks=racks) == {0: (4,), 1: (4,), 2: (4,)}


def test_a_start_beyond_the_brokers_sets_leader_and_shift() -> None:
    assert assign_replicas([0, 1, 2, 3], 2, 3, start_index=6) == {0: (2, 3, 0), 1: (3, 0, 1)}
    assert assign_replicas([0, 1, 2, 3], 1, 3, start_index=7) == {0: (3, 1, 2)}


# Adding partitions


@pytest.mark.parametrize(
    ("existing", "total", "brokers", "expected"),
    [
        ({0: [1, 2]}, 3, range(4), {1: (2, 0), 2: (3, 1)}),
        ({0: [0, 1]}, 3, range(4), {1: (1, 2), 2: (2, 3)}),
        ({0: [2], 7: [9]}, 4, [1, 2, 3], {2: (1,), 3: (2,)}),  # ids go on from the count, not from the last
        ({0: [5]}, 3, [1, 4, 8, 9], {1: (9,), 2: (1,)}),  # broker 5 has left: the next higher id
        ({0: [9]}, 3, [1, 4, 8], {1: (4,), 2: (8,)}),  # none is higher: the first
    ],
)
def test_added_partitions_start_at_the_place_of_partition_0s_leader(
    existing: Any, total: int, brokers: Any, expected: Any
) -> None:
    assert add_partitions("t", existing, total, brokers) == expected


def test_added_partitions_of_four_replicas_go_on_round_the_brokers() -> None:
    added = add_partitions("t", {0: [2, 3, 0, 1]}, 7, range(4))
    assert [2, *(held[0] for held in added.values())] == [2, 3, 0, 1, 2, 3, 0]


def test_added_partitions_take_the_place_by_id_into_the_rack_alternated_list() -> None:
    # broker 1 is second by id, and broker 3 second in 0, 3, 1, 5, 4, 2
    added = add_partitions("t", {0: [1, 3]}, 3, SIX_RACKED, racks=SIX_RACKED)
    assert added == assign_replicas(range(6), 2, 2, racks=SIX_RACKED, start_index=1, start_partition_id=1)
    assert [held[0] for held in added.values()] == [1, 5]


@pytest.mark.parametrize(
    ("existing", "total", "refused"),
    [
        (
            {2: [1, 2], 1: [2]},
            5,
            "Unexpected existing replica assignment for topic 't', partition id 0 is missing. "
            "Assignment: Map(1 -> List(2), 2 -> List(1, 2))",
        ),
        (
            {0: [1], 1: [1]},
            2,
            "The number of partitions for a topic can only be increased. Topic t currently has 2 partitions, "
            "2 would not be an increase.",
        ),
        ({0: [1, 2, 3, 4]}, 2, "Replication factor: 4 larger than available brokers: 3."),
        ({0: []}, 2, "Replication factor must be larger than 0."),
    ],
)
def test_adding_partitions_refuses_with_kafkas_texts(existing: Any, total: int, refused: str) -> None:
    assert message_of(add_partitions, "t", existing, total, [1, 2, 3]) == refused


# Rack modes


@pytest.mark.parametrize(
    ("racks", "mode", "expected"),
    [
        ({2: "b", 1: "a"}, "enforced", {1: "a", 2: "b"}),
        ({2: "b", 1: "a"}, "safe", {1: "a", 2: "b"}),
        ({2: "b", 1: "a"}, "disabled", None),
        ({1: None, 2: None}, "enforced", None),
        ({1: None, 2: "b"}, "safe", None),
        ({1: None, 2: "b"}, "disabled", None),
        ({}, "enforced", None),
    ],
)
def test_racks_count_where_every_broker_has_one(racks: Any, mode: Any, expected: Any) -> None:
    assert brokers_with_racks(racks, mode) == expected


def test_enforced_racks_refuse_brokers_without_and_name_them() -> None:
    with pytest.raises(KafkaRuleError, match=r"broker\.rack on broker 1, 3") as refused:
        brokers_with_racks({3: None, 2: "b", 1: None}, "enforced")
    assert refused.value.kafka_message == (
        "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
        "without rack information."
    )


def test_another_rack_mode_is_an_input_error() -> None:
    with pytest.raises(InputError, match="'loose' is none of"):
        brokers_with_racks({1: "a"}, "loose")  # type: ignore[arg-type]


# --- what it promises for any brokers, racks, starts and sizes ---


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
