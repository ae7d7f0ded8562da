"""`replicas_per_broker` binds every candidate: no plan brings a broker beyond it, or one that is beyond it further."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.bounds.targets import band
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.problem.arrays import replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.replica_limits import held_replicas
from kafka_rebalance.planning.search.frame import frame_of, placement_of
from kafka_rebalance.planning.search.greedy import Effort, greedy
from kafka_rebalance.planning.search.leaders import with_kept_leaders
from kafka_rebalance.planning.search.placement import budget_of
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}
# Broker 3 has half of all disks, so without a limit half of the replicas go there.
LARGE = broker_rows([1, 2, 3], disk_capacity_bytes={1: 100_000, 2: 100_000, 3: 200_000})
ALL_ON_TWO = partition_rows([[1], [2]] * 6, size_bytes=[4000] * 3 + [1000] * 9)


def held_after(plan: DescribedCandidate, partitions: Rows) -> Counter[int]:
    return Counter(broker for held in lists_after(plan, partitions).values() for broker in held)


def planned(name: str, **asked: Any) -> tuple[DescribedCandidate, Counter[int]]:
    plan = plan_of(LARGE, ALL_ON_TWO, name, **asked)
    assert plan.candidate.status in OFFERED, plan.note
    return plan, held_after(plan, ALL_ON_TWO)


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_a_balance_and_an_expansion_stop_at_the_limit(name: str) -> None:
    assert planned(name)[1][3] > 3
    assert planned(name, replicas_per_broker=3)[1][3] == 3


def test_a_plan_that_ends_less_even_because_of_the_limit_names_it() -> None:
    """Three replicas of equal size are no half of the bytes."""
    partitions = partition_rows([[1], [2]] * 6)
    assert "replicas_per_broker" not in plan_of(LARGE, partitions, "balanced").note
    plan = plan_of(LARGE, partitions, "balanced", replicas_per_broker=3)
    assert plan.candidate.status == "partial"
    assert "broker 3 may hold no more replicas (replicas_per_broker 3)" in plan.note


def test_a_limit_that_nobody_reaches_changes_nothing_but_the_digest() -> None:
    free, limited = planned("balanced")[0].candidate, planned("balanced", replicas_per_broker=12)[0].candidate
    assert limited.moves == free.moves
    assert limited.digest != free.digest


@pytest.mark.parametrize("name", ["balanced", "optimal"])
def test_a_broker_beyond_the_limit_exchanges_replicas_and_does_not_grow(name: str) -> None:
    sizes = [100] * 8 + [4000] * 4
    partitions = partition_rows([[1]] * 8 + [[2]] * 4, size_bytes=sizes)
    brokers = broker_rows([1, 2])
    assert held_after(plan_of(brokers, partitions, name), partitions)[2] > 4
    plan = plan_of(brokers, partitions, name, replicas_per_broker=4)
    held = held_after(plan, partitions)
    assert plan.candidate.moves
    assert held[1] <= 8
    assert held[2] <= 4


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_a_drain_fills_the_other_brokers_up_to_the_limit(name: str) -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4]), partition_rows([[1], [2], [3], [4]] * 3)
    plan = plan_of(brokers, partitions, name, job="drain", drain=[4], replicas_per_broker=4)
    assert held_after(plan, partitions) == {1: 4, 2: 4, 3: 4}
    with pytest.raises(
        PlanningError, match=r"12 replicas do not fit the 3 brokers that stay\. These may hold 9 in all"
    ):
        plan_of(brokers, partitions, name, job="drain", drain=[4], replicas_per_broker=3)


def test_a_drain_for_which_the_rack_has_no_place_names_the_limit() -> None:
    brokers, partitions = broker_rows(RACKS, RACKS), partition_rows([[1, 2], [3, 4]] * 3)
    plan = plan_of(brokers, partitions, "light", job="drain", drain=[4], replicas_per_broker=4)
    assert plan.candidate.status == "infeasible"
    assert "2 replicas find no place" in plan.note
    assert "Some have all that replicas_per_broker 4 allows" in plan.note


def test_a_replacement_that_would_hold_too_many_is_refused_with_figures() -> None:
    brokers, partitions = broker_rows([1, 2, 3]), partition_rows([[1], [1], [1], [2], [3]])
    asked: dict[str, Any] = {"job": "replace", "replace": {"1": 3}}
    with pytest.raises(
        PlanningError, match=r"Broker 3 cannot replace broker 1, which holds 3 replicas\. Broker 3 already"
    ):
        plan_of(brokers, partitions, "light", replicas_per_broker=3, **asked)
    plan = plan_of(brokers, partitions, "light", replicas_per_broker=4, **asked)
    assert held_after(plan, partitions) == {2: 1, 3: 4}


def test_a_larger_factor_stays_within_the_limit_or_is_refused() -> None:
    """Broker 3 has by far the largest disk."""
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 50_000, 2: 50_000, 3: 900_000})
    partitions = partition_rows([[1]] * 3 + [[2]] * 2 + [[3]])
    asked: dict[str, Any] = {"job": "replication_factor", "replication_factor": 2}
    assert held_after(plan_of(brokers, partitions, "light", **asked), partitions)[3] == 6
    plan = plan_of(brokers, partitions, "light", replicas_per_broker=5, **asked)
    held = held_after(plan, partitions)
    assert (held.total(), held[3]) == (12, 5)
    with pytest.raises(PlanningError, match="12 replicas do not fit the 3 brokers"):
        plan_of(brokers, partitions, "light", replicas_per_broker=3, **asked)


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_a_repair_of_racks_stops_at_the_limit(name: str) -> None:
    """Both brokers of rack b hold all that they may, and one of its replicas has to stay apart from its like."""
    racks = {1: "a", 2: "b", 3: "a"}
    partitions = partition_rows([[1, 3], [1, 3], [2, 1], [2, 3]])
    plan = plan_of(broker_rows(racks, racks), partitions, name, job="repair_racks", replicas_per_broker=3)
    assert held_after(plan, partitions)[2] <= 3


def test_a_given_plan_and_that_of_kafkas_tool_are_not_offered_beyond_the_limit() -> None:
    brokers, partitions = broker_rows([1, 2, 3]), partition_rows([[1], [1], [1], [2], [2], [2]])
    text = json.dumps(
        {"version": 1, "partitions": [{"topic": "orders", "partition": p, "replicas": [3]} for p in (0, 1, 3)]}
    )
    offered = plan_of(brokers, partitions, "given", plan=text, replicas_per_broker=3)
    assert offered.candidate.status in OFFERED
    refused = plan_of(brokers, partitions, "given", plan=text, replicas_per_broker=2)
    assert refused.candidate.status == "infeasible"
    assert refused.candidate.moves == ()
    assert "broker 3 would hold more replicas than replicas_per_broker 2 allows: broker 3 would hold 3" in (
        refused.note
    )
    by_tool = plan_of(brokers, partitions, "as_kafka", replicas_per_broker=1)
    assert by_tool.candidate.status == "infeasible"
    assert "replicas_per_broker 1 allows" in by_tool.note


def test_moves_that_are_chosen_together_stop_at_the_limit_together() -> None:
    """A search of many replicas gives a broker that lacks much several at once."""
    problem = problem_of(broker_rows([1, 2]), partition_rows([[1]] * 100), replicas_per_broker=45)
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    nowhere = np.zeros(problem.replicas.shape, dtype=bool)
    placement = placement_of(frame, problem.replicas, problem.replicas, nowhere, budget_of(problem))
    aims = frame.targets.sum(axis=0) * np.array([[0.1], [0.9]])
    greedy(placement, band(aims, 0.02), problem.evened, Effort(several=8), np.random.default_rng(0))
    assert held_replicas(placement.replicas, 2).tolist() == [55, 45]


@pytest.mark.parametrize(("limit", "expected"), [(None, [1, 2, 3]), (5, [1, 2, 3]), (4, [2, 4, 3])])
def test_a_leader_that_left_comes_home_only_within_the_limit(limit: int | None, expected: list[int]) -> None:
    """Broker 1 lacks bytes and broker 4 has too many, and broker 1 has got four small replicas meanwhile."""
    racks = {1: "a", 4: "a", 2: "b", 3: "c"}
    rows = [[1, 4, 3]] + [[4]] * 8 + [[2]] * 4
    brokers = broker_rows(racks, racks, disk_capacity_bytes=dict.fromkeys(racks, 10**6))
    partitions = partition_rows(rows, size_bytes=[4000] * 9 + [10] * 4)
    problem = problem_of(brokers, partitions, job="repair_racks", replicas_per_broker=limit)
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    column = {broker: place for place, broker in enumerate(problem.brokers.tolist())}
    lists = problem.replicas.copy()
    lists[0] = [column[broker] for broker in (2, 4, 3)]
    lists[9:, 0] = column[1]
    assert problem.brokers[with_kept_leaders(frame, lists)[0]].tolist() == expected


def test_replicas_of_other_pools_count_on_a_broker() -> None:
    """Three replicas of topic b may stay on broker 3, so it takes one of a at most."""
    brokers = broker_rows([1, 3, 4])
    partitions = partition_rows([[1]] * 8, topic="a") + partition_rows([[3]] * 3, topic="b")
    pools = [{"topics": ["a"], "brokers": [1, 3]}, {"topics": ["b"], "brokers": [4]}]
    free = plan_of(brokers, partitions, "balanced", broker_pools=pools)
    assert held_after(free, partitions)[3] > 3
    plan = plan_of(brokers, partitions, "balanced", broker_pools=pools, replicas_per_broker=4, topics_out=["b"])
    assert held_after(plan, partitions)[3] == 4


def test_the_policys_limit_binds_the_plan_and_a_request_only_tightens_it() -> None:
    policy = Policy.from_mapping({"approvers": ["uma"], "replicas_per_broker": 3}, "test")

    def most(**asked: Any) -> int | None:
        settings = Settings.from_mapping(asked)
        return policy.tighten(settings, cluster_bytes=10**9, brokers=3).replicas_per_broker

    assert [most(), most(replicas_per_broker=2), most(replicas_per_broker=9)] == [3, 2, 3]
    tightened = policy.tighten(Settings(), cluster_bytes=10**9, brokers=3)
    plan = plan_of(LARGE, ALL_ON_TWO, "balanced", **tightened.to_mapping())
    assert held_after(plan, ALL_ON_TWO)[3] == 3
