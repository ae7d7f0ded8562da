"""Brokers and log dirs that Kafka gives no new replica: offline, or cordoned (KIP-1066)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.kafka.who_may_receive import Shut
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.planner import offered
from kafka_rebalance.planning.rules.disk_limits import disk_limits_in_the_end
from kafka_rebalance.topics.new_partitions import place_partitions
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

LISTS = partition_rows([[1, 2], [2, 3], [3, 1], [2, 1]] * 3)


def log_dirs(*paths: str, total: int | None = 100_000, usable: int | None = 90_000) -> list[dict[str, Any]]:
    return [{"path": path, "total_bytes": total, "usable_bytes": usable} for path in paths]


def brokers(*ids: int, **columns: dict[int, Any]) -> Rows:
    """Each has the log dirs /a and /b."""
    return broker_rows(ids, None, log_dirs={broker: log_dirs("/a", "/b") for broker in ids}, **columns)


def received(plan: DescribedCandidate) -> set[int]:
    return {broker for move in plan.candidate.moves for broker in move.added}


@pytest.mark.parametrize("name", ["light", "balanced", "optimal", "as_kafka"])
@pytest.mark.parametrize("column", ["cordoned_log_dirs", "offline_log_dirs"])
def test_no_candidate_puts_a_replica_on_a_broker_whose_log_dirs_take_none(name: str, column: str) -> None:
    plan = plan_of(brokers(1, 2, 3, 4, **{column: {4: ["/a", "/b"]}}), LISTS, name)
    assert 4 not in received(plan)
    assert 4 in received(plan_of(brokers(1, 2, 3, 4), LISTS, "balanced"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_search_gives_anything_to_a_cordoned_broker_that_holds_replicas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(10, 2, 40).astype(int).tolist()
    lists = [rng.choice([1, 2, 3, 4], size=2, replace=False).tolist() for _ in sizes]
    rows = partition_rows(lists, size_bytes=sizes)
    shut = broker_rows([1, 2, 3, 4, 5], log_dirs={3: log_dirs("/a", total=None)}, cordoned_log_dirs={3: ["/a"]})
    problem = problem_of(shut, rows, tolerance=0.02)
    for name in offered(problem):
        plan = propose(problem, name)
        assert 3 not in received(plan)
        assert "broker 3 is cordoned (cordoned.log.dirs)" in plan.note.lower()


def test_a_cordoned_broker_may_be_emptied_and_may_lead() -> None:
    shut = brokers(1, 2, 3, 4, cordoned_log_dirs={3: ["/a", "/b"]})
    plan = plan_of(shut, LISTS, "balanced", job="drain", drain=[3])
    assert plan.candidate.status == "ok"
    assert received(plan) <= {1, 2, 4}
    assert all(3 not in move.after for move in plan.candidate.moves)


@pytest.mark.parametrize("asked", [{"job": "leaders"}, {"job": "leaders", "drain": [3]}, {"max_leader_changes": 2}, {}])
def test_no_new_list_names_a_cordoned_broker_not_even_where_a_replica_lies_there(asked: dict[str, Any]) -> None:
    # Kafka refuses every new list with such a broker.
    shut = brokers(1, 2, 3, 4, cordoned_log_dirs={3: ["/a", "/b"]})
    problem = problem_of(shut, partition_rows([[1, 3], [1, 3], [1, 2], [1, 2], [1, 2], [3, 1]]), **asked)
    for name in offered(problem):
        assert all(3 not in move.after for move in propose(problem, name).candidate.moves)


def test_a_given_plan_onto_a_cordoned_broker_is_not_offered() -> None:
    plan = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[4,2]}]}'
    found = plan_of(brokers(1, 2, 3, 4, cordoned_log_dirs={4: ["/a", "/b"]}), LISTS, "given", plan=plan)
    assert found.candidate.status == "infeasible"
    assert "broker 4 would receive replicas, but it is cordoned (cordoned.log.dirs)" in found.note


def test_a_given_plan_that_leaves_a_replica_on_a_cordoned_broker_is_not_offered() -> None:
    plan = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,1]}]}'
    found = plan_of(brokers(1, 2, 3, cordoned_log_dirs={1: ["/a", "/b"]}), LISTS, "given", plan=plan)
    assert found.candidate.status == "infeasible"
    assert "1 new lists name broker 1, which is cordoned" in found.note


def test_a_given_plan_may_take_replicas_off_a_cordoned_broker() -> None:
    plan = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,3]}]}'
    found = plan_of(brokers(1, 2, 3, cordoned_log_dirs={1: ["/a", "/b"]}), LISTS, "given", plan=plan)
    assert found.candidate.status == "ok"


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"job": "replace", "replace": {"3": 4}}, "replace: the new: broker 4 is cordoned"),
        ({"brokers_in": [4]}, "brokers_in: broker 4 is cordoned"),
        ({"brokers_in": "new"}, "broker 4 is cordoned"),
    ],
)
def test_naming_a_cordoned_broker_as_a_receiver_is_refused_in_words(asked: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanningError) as refused:
        problem_of(brokers(1, 2, 3, 4, cordoned_log_dirs={4: ["/a", "/b"]}), LISTS, **asked)
    assert named in str(refused.value)


@pytest.mark.parametrize("asked", [{}, {"job": "leaders"}, {"job": "elect"}, {"job": "repair_racks"}])
def test_a_cluster_whose_brokers_are_all_cordoned_gets_no_copy(asked: dict[str, Any]) -> None:
    shut = brokers(1, 2, 3, 4, cordoned_log_dirs={broker: ["/a", "/b"] for broker in (1, 2, 3, 4)})
    problem = problem_of(shut, LISTS, **asked)
    for name in offered(problem):
        assert received(propose(problem, name)) == set()


def test_emptying_a_broker_while_all_others_are_cordoned_is_refused_in_words() -> None:
    shut = brokers(1, 2, 3, 4, cordoned_log_dirs={broker: ["/a", "/b"] for broker in (1, 2, 4)})
    with pytest.raises(PlanningError, match=r"No broker may receive what broker 3 holds: broker 1 is cordoned"):
        problem_of(shut, LISTS, job="drain", drain=[3])


def test_a_larger_factor_goes_to_open_brokers_only() -> None:
    shut = brokers(1, 2, 3, 4, cordoned_log_dirs={4: ["/a", "/b"]})
    plan = plan_of(shut, LISTS, "balanced", job="replication_factor", replication_factor=3)
    assert received(plan) == {1, 2, 3}
    assert plan.candidate.status == "ok"
    three = brokers(1, 2, 3, cordoned_log_dirs={3: ["/a", "/b"]})
    none = plan_of(three, LISTS, "balanced", job="replication_factor", replication_factor=3)
    assert 3 not in received(none)
    assert none.candidate.status != "ok"


def test_only_the_room_of_open_log_dirs_counts() -> None:
    sizes = {4: log_dirs("/a", total=100_000, usable=3_500) + log_dirs("/b", total=900_000, usable=900_000)}
    rows = broker_rows([1, 2, 3, 4], log_dirs=sizes, disk_capacity_bytes={4: 1_000_000}, disk_used_bytes={4: 96_500})
    settings: dict[str, Any] = {"disk_headroom": 0.0}
    both = problem_of(rows, LISTS, **settings)
    assert disk_limits_in_the_end(both)[3] == 7_000
    rows[3]["cordoned_log_dirs"] = ["/b"]
    problem = problem_of(rows, LISTS, **settings)
    assert problem.shut == {}
    assert disk_limits_in_the_end(problem)[3] == 3_500
    plan = propose(problem, "balanced")
    assert sum(4 in move.added for move in plan.candidate.moves) == 3
    assert "/b of broker 4 is cordoned: its room does not count" in plan.note
    assert [peak.path for peak in plan.consequences["log_dirs"].listed if peak.broker == 4] == ["/a"]


def test_new_partitions_go_past_cordoned_brokers_and_into_the_room_of_open_log_dirs() -> None:
    shut = problem_of(brokers(1, 2, 3, 4, cordoned_log_dirs={4: ["/a", "/b"]}), LISTS)
    placed = place_partitions(shut, "fresh", range(10), 3)
    assert {broker for lists in placed.values() for broker in lists} == {1, 2, 3}
    with pytest.raises(PlanningError, match="only 3 of 4 may"):
        place_partitions(shut, "fresh", range(10), 4)
    partly = brokers(
        1, 2, 3, 4, cordoned_log_dirs={4: ["/b"]}, disk_capacity_bytes=dict.fromkeys((1, 2, 3, 4), 200_000)
    )
    some = place_partitions(problem_of(partly, LISTS, disk_headroom=0.0), "fresh", range(7), 2, size_bytes=40_000)
    assert sum(4 in lists for lists in some.values()) == 2  # 90,000 bytes are free in its one open log dir


def test_a_snapshot_says_why_a_broker_is_shut() -> None:
    rows = brokers(
        1, 2, 3, 4, cordoned_log_dirs={2: ["/a", "/b"], 3: ["/a"]}, offline_log_dirs={3: ["/b"], 4: ["/a", "/b"]}
    )
    assert problem_of(rows, LISTS).shut == {1: Shut.CORDONED, 2: Shut.CORDONED, 3: Shut.OFFLINE}
