"""Where the replicas of new partitions go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.partition import replica_list_problem
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.read_problem import read_problem, write_snapshot
from kafka_rebalance.topics.new_partitions import place_partitions
from support.plans.drawn_clusters import clusters
from support.plans.rack_rule import rack_rule_problem
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, problem_of

THREE_RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


Placement = dict[int, tuple[int, ...]]


def most_in_log_dirs(log_dirs: list[dict[str, Any]], size: int) -> float:
    """How many new replicas a broker's log dirs take, which get equally many, with a tenth of each kept free."""
    told = [(one["total_bytes"], one["usable_bytes"]) for one in log_dirs]
    room = [max(0, usable - 0.1 * total) // max(1, size) for total, usable in told if None not in (total, usable)]
    return len(room) * min(room) if size and len(log_dirs) > 1 and room else float("inf")


def replicas_of(placed: Placement) -> Counter[int]:
    return Counter(broker for replicas in placed.values() for broker in replicas)


def leaders_of(placed: Placement) -> Counter[int]:
    return Counter(replicas[0] for replicas in placed.values())


def bytes_after(rows: Rows, placed: Placement, size: int) -> Counter[int]:
    """What each broker holds with the new partitions."""
    held = Counter({broker: count * size for broker, count in replicas_of(placed).items()})
    for row in rows:
        for broker in row["replicas"]:
            held[broker] += row.get("size_bytes") or 0
    return held


def test_a_small_topic_goes_to_the_brokers_with_the_smallest_loads() -> None:
    problem = problem_of(broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 1], [1, 3]]))
    placed = place_partitions(problem, "payments", [0, 1], 1)
    assert replicas_of(placed) == {3: 1, 4: 1}


def test_the_topics_own_replicas_are_spread_even_where_a_broker_is_fuller_than_others() -> None:
    problem = problem_of(broker_rows([1, 2, 3]), partition_rows([[1]] * 20))
    placed = place_partitions(problem, "payments", range(6), 2)
    assert replicas_of(placed) == {1: 4, 2: 4, 3: 4}
    assert leaders_of(placed) == {1: 2, 2: 2, 3: 2}


def test_partitions_that_the_topic_has_already_count() -> None:
    problem = problem_of(broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [1, 2], [2, 1]]))
    placed = place_partitions(problem, "orders", [3, 4, 5], 2)
    assert replicas_of(placed) == {3: 3, 4: 3}
    assert leaders_of(placed) in ({3: 2, 4: 1}, {3: 1, 4: 2})


def test_what_is_bigger_takes_more_before_it_counts_as_full() -> None:
    brokers = broker_rows([1, 2], disk_capacity_bytes={1: 10_000, 2: 40_000})
    problem = problem_of(brokers, partition_rows([[1], [2], [2]], size=1000))
    assert place_partitions(problem, "payments", [0], 1, size_bytes=1000) == {0: (2,)}


def test_bytes_in_count_where_they_are_known() -> None:
    rates = [9e6, 1e6, 9e6]
    problem = problem_of(broker_rows([1, 2, 3]), partition_rows([[1], [2], [3]], bytes_in_per_second=rates))
    assert place_partitions(problem, "payments", [0], 1, bytes_in_per_second=1e6) == {0: (2,)}


def test_every_replica_lies_in_another_rack() -> None:
    problem = problem_of(broker_rows(THREE_RACKS, THREE_RACKS), partition_rows([[1, 2, 3]]))
    placed = place_partitions(problem, "payments", range(8), 3)
    assert all({THREE_RACKS[broker] for broker in replicas} == set("abc") for replicas in placed.values())
    assert set(replicas_of(placed).values()) == {4}


def test_with_more_replicas_than_racks_every_rack_holds_one() -> None:
    racks = {1: "a", 2: "a", 3: "a", 4: "b"}
    problem = problem_of(broker_rows(racks, racks), partition_rows([[1, 4]]))
    placed = place_partitions(problem, "payments", range(6), 3)
    assert all(4 in replicas for replicas in placed.values())
    assert replicas_of(placed) == {1: 4, 2: 4, 3: 4, 4: 6}


def test_brokers_that_leave_that_are_not_registered_or_out_get_nothing() -> None:
    brokers = broker_rows([1, 2, 3, 4, 5], state={5: "drain"})
    problem = problem_of(brokers, partition_rows([[1, 9]] * 9), drain=[5, 9], brokers_out=[4])
    placed = place_partitions(problem, "payments", range(9), 2)
    assert replicas_of(placed) == {1: 6, 2: 6, 3: 6}


def test_brokers_share_few_partitions_so_that_many_take_over_from_one() -> None:
    problem = problem_of(broker_rows(range(1, 8)), partition_rows([[1]]))
    placed = place_partitions(problem, "payments", range(21), 2)
    pairs = Counter(frozenset(replicas) for replicas in placed.values())
    assert len(pairs) == 21  # every pair of seven brokers, once


def test_a_disk_is_filled_up_to_its_headroom_and_no_further() -> None:
    capacity, used = dict.fromkeys([1, 2, 3], 10_000), {1: 0, 2: 6_000, 3: 8_900}
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=capacity, disk_used_bytes=used)
    problem = problem_of(brokers, partition_rows([[1]], size=1000), disk_headroom=0.1)
    placed = place_partitions(problem, "payments", range(9), 1, size_bytes=1_000)
    assert replicas_of(placed) == {1: 6, 2: 3}
    with pytest.raises(PlanningError, match="12 new partitions with 1 replicas of 1,000 bytes do not fit") as refused:
        place_partitions(problem, "payments", range(12), 1, size_bytes=1_000)
    assert "take 11 replicas" in str(refused.value)


def test_a_disk_of_known_size_that_takes_no_replica_gets_none_where_the_other_sizes_are_unknown() -> None:
    brokers = broker_rows(range(7), disk_capacity_bytes={6: 3_333_333})
    placed = place_partitions(problem_of(brokers, partition_rows([[0]])), "orders", [1, 2], 3, size_bytes=10**8)
    assert replicas_of(placed) == dict.fromkeys(range(1, 6), 1) | {0: 1}
    with_room = place_partitions(problem_of(brokers, partition_rows([[0]])), "orders", [1, 2], 3, size_bytes=10**6)
    assert replicas_of(with_room) == dict.fromkeys(range(1, 7), 1)


def test_a_disk_past_its_headroom_gets_nothing_even_where_the_size_is_not_known() -> None:
    brokers = broker_rows([1, 2], disk_capacity_bytes={1: 10_000, 2: 10_000}, disk_used_bytes={1: 9_100, 2: 5_000})
    problem = problem_of(brokers, partition_rows([[1]], size=10))
    assert place_partitions(problem, "payments", range(3), 1) == {0: (2,), 1: (2,), 2: (2,)}


def test_the_first_topic_of_a_cluster_finds_its_place(tmp_path: Path) -> None:
    write_snapshot(tmp_path, broker_rows([1, 2, 3]), [])
    placed = place_partitions(read_problem(tmp_path, Settings()), "orders", range(3), 2, size_bytes=5)
    assert replicas_of(placed) == {1: 2, 2: 2, 3: 2}


def test_more_replicas_than_open_brokers_are_refused_with_figures() -> None:
    problem = problem_of(broker_rows([1, 2, 3]), partition_rows([[1]]), brokers_out=[3])
    with pytest.raises(PlanningError, match=r"replication factor 3 .* only 2 of 3 may"):
        place_partitions(problem, "payments", [0], 3)


def test_a_rack_without_an_open_broker_is_refused_where_a_replica_belongs_there() -> None:
    problem = problem_of(broker_rows(THREE_RACKS, THREE_RACKS), partition_rows([[1, 2, 3]]), brokers_out=[3, 6])
    with pytest.raises(PlanningError, match=r"3 replicas must lie on 3 of the 3 racks, but the 4 brokers .* in 2"):
        place_partitions(problem, "payments", [0], 3)
    assert len(place_partitions(problem, "payments", [0], 2)) == 1


@pytest.mark.parametrize("partitions", [[], [0], [1, 2, 1]])
def test_only_partitions_that_are_new_are_placed(partitions: Sequence[int]) -> None:
    problem = problem_of(broker_rows([1, 2, 3]), partition_rows([[1]]))
    with pytest.raises(PlanningError, match=r"Topic 'orders'.* Name each new partition once"):
        place_partitions(problem, "orders", partitions, 1)


_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=_SLOW)
@given(
    clusters(),
    st.sampled_from(["orders", "payments", "new"]),
    st.integers(1, 30),
    st.integers(1, 5),
    st.sampled_from([0, 10**6, 10**8]),
)
@example(  # a broker whose disk is known and takes none of them, beside brokers whose disks are unknown
    (
        [{"broker": 6, "disk_capacity_bytes": 3_333_333, "state": None}]
        + [{"broker": b, "state": None} for b in range(6)],
        [{"topic": "orders", "partition": 0, "replicas": [0], "size_bytes": None}],
    ),
    "orders",
    2,
    3,
    10**8,
)
@example(  # the only rack has none but brokers that are emptied
    (
        [{"broker": b, "state": None} for b in (0, 2, 4)]
        + [{"broker": b, "rack": "a", "state": "drain"} for b in (1, 3)],
        [{"topic": "orders", "partition": 0, "replicas": [0], "size_bytes": None}],
    ),
    "orders",
    1,
    2,
    10**6,
)
def test_every_placement_keeps_every_promise(
    cluster: tuple[Rows, Rows], topic: str, count: int, factor: int, size: int
) -> None:
    brokers, partitions = cluster
    try:
        problem = problem_of(brokers, partitions)
    except PlanningError:
        assume(False)
    held = [row["replicas"] for row in partitions if row["topic"] == topic]
    new = range(len(held), len(held) + count)
    try:
        placed = place_partitions(problem, topic, new, factor, size_bytes=size)
    except PlanningError as wrong:
        refused = str(wrong)
        placed = None
    if placed is None:
        assert "Nothing was planned" in refused
        return
    assert placed == place_partitions(problem, topic, list(reversed(new)), factor, size_bytes=size)
    racks = {row["broker"]: row.get("rack") for row in brokers if row["state"] != "drain"}  # others take nothing
    open_brokers = list(racks)
    assert sorted(placed) == list(new)
    for replicas in placed.values():
        assert len(replicas) == factor
        assert replica_list_problem(replicas, open_brokers) is None
        assert rack_rule_problem(replicas, racks) is None
    capacity = {row["broker"]: row.get("disk_capacity_bytes", float("inf")) for row in brokers}
    limit = {broker: 0.9 * capacity[broker] for broker in open_brokers}
    held_bytes = bytes_after(partitions, placed, size)
    assert all(held_bytes[b] <= limit[b] for b in replicas_of(placed))
    most = {row["broker"]: most_in_log_dirs(row.get("log_dirs") or [], size) for row in brokers}
    assert all(count <= most[b] for b, count in replicas_of(placed).items())
    of_topic = replicas_of(placed) + Counter(broker for replicas in held for broker in replicas)
    led = leaders_of(placed) + Counter(replicas[0] for replicas in held)
    for replicas, target in product(placed.values(), open_brokers):
        for position, source in enumerate(replicas):
            moved = [*replicas[:position], target, *replicas[position + 1 :]]
            legal = target not in replicas and rack_rule_problem(moved, racks) is None
            legal &= held_bytes[target] + size <= limit[target]
            legal &= replicas_of(placed)[target] < most[target]
            assert not legal or of_topic[source] - of_topic[target] < 2, "another broker has two less of the topic"
        assert target not in replicas or led[replicas[0]] - led[target] < 2, "another replica leads two less"


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.integers(1, 60), st.randoms(use_true_random=False))
def test_replicas_and_leaders_of_a_topic_differ_by_at_most_one_where_racks_are_equal(
    racks: int, in_each: int, factor: int, count: int, random: object
) -> None:
    ids = range(1, racks * in_each + 1)
    assume(factor <= len(ids))
    full = [[random.choice(ids)] for _ in range(20)]  # type: ignore[attr-defined]
    problem = problem_of(broker_rows(ids, {b: f"rack {b % racks}" for b in ids}), partition_rows(full))
    placed = place_partitions(problem, "payments", range(count), factor)
    for figures in (replicas_of(placed), leaders_of(placed)):
        amounts = [figures[broker] for broker in ids]
        assert max(amounts) - min(amounts) <= 1, figures


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=3),
    st.integers(1, 8),
    st.integers(1, 30),
    st.lists(st.integers(1, 40), max_size=4),
)
def test_with_the_policys_key_every_new_list_is_as_even_over_the_racks_as_these_allow(
    sizes: list[int], factor: int, count: int, full: list[int]
) -> None:
    zones = [name for name, size in zip("abc", sizes, strict=False) for _ in range(size)]
    racks: dict[int, str | None] = dict(enumerate(zones, 1))
    assume(factor <= len(racks))
    rows = partition_rows([[1 + broker % len(racks)] for broker in full] or [[1]], size=1000)
    brokers = broker_rows(racks, racks, disk_capacity_bytes=dict.fromkeys(racks, 100_000))  # type: ignore[arg-type]
    problem = problem_of(brokers, rows, more_replicas_than_racks=True)
    placed = place_partitions(problem, "payments", range(count), factor, size_bytes=100)
    assert len(placed) == count
    for replicas in placed.values():
        assert replica_list_problem(replicas, list(racks)) is None
        assert rack_rule_problem(replicas, racks, share=list(racks)) is None


def test_where_a_disk_has_no_room_for_its_racks_part_nothing_is_placed() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    brokers = broker_rows(racks, racks, disk_capacity_bytes={1: 10, 2: 10**6, 3: 10**6, 4: 10**6})
    problem = problem_of(brokers, partition_rows([[2, 3]], size=1), more_replicas_than_racks=True)
    with pytest.raises(PlanningError, match="do not fit the disks"):
        place_partitions(problem, "payments", range(2), 4, size_bytes=100)
