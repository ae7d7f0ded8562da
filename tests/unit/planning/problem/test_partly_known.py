"""What is known binds although something else is not: disks of single brokers, single log dirs, most racks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.evenness import outlook
from kafka_rebalance.planning.problem.arrays import METRICS
from kafka_rebalance.topics.new_partitions import place_partitions
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

DISK = METRICS.index("disk")


def peaks(plan: Any) -> dict[int, int]:
    """{broker: bytes at most}."""
    found: dict[int, int] = {}
    for broker, most in zip(plan.disks.broker.tolist(), plan.disks.peak_bytes.tolist(), strict=True):
        found[broker] = max(most, found.get(broker, 0))
    return found


# --- disks ---------------------------------------------------------------------------------------------------------

CROWDED = partition_rows([[1 + number % 5] for number in range(60)])


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_the_capacity_of_one_broker_binds_though_anothers_is_unknown(name: str) -> None:
    brokers = broker_rows(range(1, 7), disk_capacity_bytes=dict.fromkeys(range(2, 6), 10**6) | {6: 8_000})
    plan = plan_of(brokers, CROWDED, name)
    assert 0 < plan.loads_after[5, DISK] <= 7_200
    assert plan.shortfall_after.is_met or name == "light"  # which has a wider band
    assert peaks(plan)[6] <= 7_200
    assert "(unknown: broker 1)" in plan.note


def test_the_fullest_disk_is_told_of_those_that_are_known() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 40_000, 2: 200_000})
    problem = problem_of(brokers, partition_rows([[1]] * 30))
    plan = propose(problem, "balanced")
    assert plan.candidate.summary["peak_disk_fraction"] == 0.75
    assert in_json(outlook(problem))["fullest_disk"] == {"broker": 1, "used_bytes": 30_000, "capacity_bytes": 40_000}


def test_what_lies_beside_the_replicas_on_one_disk_counts_though_it_is_unknown_of_another() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys([1, 2, 3], 30_000), disk_used_bytes={2: 20_000})
    plan = plan_of(brokers, partition_rows([[1]] * 24))
    assert plan.loads_after[1, DISK] <= 7_000
    assert plan.loads_after[2, DISK] > 7_000


def test_a_given_plan_beyond_the_one_disk_that_is_known_is_not_offered() -> None:
    lists = {number: [2] for number in range(10)}
    entries = [{"topic": "orders", "partition": number, "replicas": brokers} for number, brokers in lists.items()]
    brokers = broker_rows([1, 2], disk_capacity_bytes={2: 5_000})
    text = json.dumps({"version": 1, "partitions": entries})
    plan = plan_of(brokers, partition_rows([[1]] * 10), "given", plan=text)
    assert plan.candidate.status == "infeasible"
    assert "the disk of broker 2 would be 200 % full" in plan.note


def test_batches_wait_for_the_room_of_the_one_disk_that_is_known() -> None:
    """Broker 1 gives to 2 what fits only once 2 has given to 3, which has room without end as far as is known."""
    lists = [[1]] * 10 + [[2]] * 10
    after = {number: [2] for number in range(8)} | {number: [3] for number in range(10, 18)}
    entries = [{"topic": "orders", "partition": number, "replicas": brokers} for number, brokers in after.items()]
    text = json.dumps({"version": 1, "partitions": entries})
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={2: 12_000})
    plan = plan_of(brokers, partition_rows(lists), "given", plan=text, disk_headroom=0, partitions_per_batch=4)
    assert plan.candidate.status == "ok", plan.note
    assert peaks(plan)[2] <= 12_000


def test_a_replica_that_must_leave_does_not_go_to_a_known_full_disk_where_another_is_unknown() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={2: 3_000})
    plan = plan_of(brokers, partition_rows([[1]] * 10), "light", job="drain", drain=[1])
    assert plan.candidate.status == "ok", plan.note
    assert plan.loads_after[1, DISK] <= 2_700


def test_new_partitions_go_where_a_known_disk_has_room() -> None:
    problem = problem_of(broker_rows([1, 2], disk_capacity_bytes={1: 3_000}), partition_rows([[1], [2]]))
    placed = place_partitions(problem, "new", range(6), 1, size_bytes=1_000)
    assert sum(held == (1,) for held in placed.values()) <= 1


def test_the_log_dirs_that_are_online_bind_though_one_is_not() -> None:
    dirs = [
        {"path": "/a", "total_bytes": 10_000, "usable_bytes": 3_000},
        {"path": "/b", "total_bytes": 10_000, "usable_bytes": 9_000},
        {"path": "/failed", "total_bytes": None, "usable_bytes": None},
    ]
    problem = problem_of(broker_rows([1, 2], log_dirs={2: dirs}), partition_rows([[1]] * 10))
    assert problem.log_dirs.count.tolist() == [0, 2]
    assert problem.log_dirs.room.tolist() == [np.inf, 2_000.0]
    assert not problem.log_dirs.unknown.any()
    assert propose(problem, "balanced").loads_after[1, DISK] <= 4_000


@st.composite
def half_known(draw: st.DrawFn) -> tuple[Rows, Rows, dict[int, int]]:
    count = draw(st.integers(2, 6))
    lists = draw(
        st.lists(st.lists(st.integers(1, count), min_size=1, max_size=3, unique=True), min_size=1, max_size=25)
    )
    size = draw(st.lists(st.integers(0, 5_000), min_size=len(lists), max_size=len(lists)))
    known = draw(st.dictionaries(st.integers(1, count), st.integers(1_000, 60_000), max_size=count))
    used = draw(st.dictionaries(st.integers(1, count), st.integers(0, 60_000), max_size=count))
    return (
        broker_rows(range(1, count + 1), disk_capacity_bytes=known, disk_used_bytes=used),
        [row | {"size_bytes": amount} for row, amount in zip(partition_rows(lists), size, strict=True)],
        known,
    )


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(half_known(), st.sampled_from(["light", "balanced"]))
def test_no_disk_that_is_known_is_filled_beyond_its_headroom_by_what_it_receives(
    drawn: tuple[Rows, Rows, dict[int, int]], name: str
) -> None:
    brokers, partitions, known = drawn
    plan = plan_of(brokers, partitions, name)
    for broker, capacity in known.items():
        before, after = plan.loads_before[broker - 1, DISK], plan.loads_after[broker - 1, DISK]
        assert after <= before or after <= capacity * 0.9 * (1 + 1e-9), (broker, capacity)


# --- racks ---------------------------------------------------------------------------------------------------------

RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}
LISTS = [[1, 2], [3, 4], [1, 4], [3, 2]] * 5


@pytest.mark.parametrize("job", ["balance", "repair_racks"])
def test_a_broker_without_a_rack_among_racks_is_refused_by_name(job: str) -> None:
    with pytest.raises(PlanningError, match=r"brokers 5, 6 have no rack") as refused:
        problem_of(broker_rows(range(1, 7), RACKS), partition_rows(LISTS), job=job)
    assert "broker.rack" in str(refused.value)
    assert "rackless_brokers: one_rack" in str(refused.value)
    assert problem_of(broker_rows(range(1, 7)), partition_rows(LISTS), job=job), "no broker has one: no rule"
    assert problem_of(broker_rows(range(1, 7), RACKS), partition_rows(LISTS), job="leaders"), "nothing changes place"


def test_a_broker_that_is_emptied_needs_no_rack() -> None:
    lists = [*LISTS, [5, 1]]
    problem = problem_of(broker_rows(range(1, 6), RACKS), partition_rows(lists), job="drain", drain=[5])
    assert propose(problem, "light").candidate.summary["rack_violations"] == 0


def test_brokers_without_a_rack_count_as_one_rack_together_where_that_is_allowed() -> None:
    brokers = broker_rows(range(1, 7), RACKS)
    plan = plan_of(brokers, partition_rows(LISTS), "balanced", rackless_brokers="one_rack", tolerance=0.2)
    assert plan.candidate.summary["rack_violations"] == 0
    gained = [move.after for move in plan.candidate.moves if {5, 6} & set(move.after)]
    assert gained
    assert not [after for after in gained if {5, 6} <= set(after)], "both replicas in what may be one rack"
    assert "rokers 5, 6 without a rack count as one rack together" in plan.note
