"""Replication factors up and down: which replicas stay, where new ones go."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import PlanningError
from support.plans.small_snapshots import broker_rows, lists_after, partition_rows, plan_of, problem_of

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


def test_a_lower_factor_keeps_the_replicas_that_are_in_the_isr() -> None:
    partitions = partition_rows([[1, 2, 3]] * 3, isr=[[1, 2], [2, 3], [3, 1]])
    plan = plan_of(
        broker_rows([1, 2, 3]), partitions, "light", job="replication_factor", replication_factor=2, tolerance=0.9
    )
    after = lists_after(plan, partitions)
    assert [set(after["orders", number]) for number in range(3)] == [{1, 2}, {2, 3}, {3, 1}]


@pytest.mark.parametrize("min_insync", [1, 2])
@pytest.mark.parametrize("name", ["light", "balanced"])
def test_a_lower_factor_keeps_no_replica_that_is_out_of_the_isr_to_spread_racks(name: str, min_insync: int) -> None:
    partitions = partition_rows([[1, 4, 2]] * 3, isr=[[1, 4]] * 3, min_insync_replicas=[min_insync] * 3)
    plan = plan_of(broker_rows([1, 2, 4], RACKS), partitions, name, job="replication_factor", replication_factor=2)
    assert {frozenset(held) for held in lists_after(plan, partitions).values()} == {frozenset({1, 4})}
    assert "3 partitions still break the rack rule" in plan.note
    assert plan.candidate.summary["moved_bytes"] == 0


def test_a_lower_factor_mends_racks_by_a_copy_and_never_by_a_replica_that_it_has_dropped_out_of_sync() -> None:
    partitions = partition_rows([[1, 4, 2]], isr=[[1, 4]])
    plan = plan_of(
        broker_rows([1, 2, 4, 5], RACKS), partitions, "light", job="replication_factor", replication_factor=2
    )
    after = lists_after(plan, partitions)["orders", 0]
    assert set(after) in ({1, 5}, {4, 5})
    assert plan.candidate.summary["moved_replicas"] == 1


def test_a_lower_factor_keeps_the_only_replica_in_sync_though_its_broker_leaves() -> None:
    brokers = [{"broker": 1, "rack": None, "state": "drain"}, *broker_rows([2, 3, 4])]
    partitions = partition_rows([[1, 2, 3]], isr=[[1]])
    plan = plan_of(brokers, partitions, "light", job="replication_factor", replication_factor=1, tolerance=0.9)
    assert lists_after(plan, partitions)["orders", 0] == (4,)  # a copy of broker 1, not one that is out of sync


def test_an_isr_that_is_missing_empty_or_null_says_nothing() -> None:
    brokers = broker_rows([1, 2, 3])
    partitions = partition_rows([[1, 2], [2, 3, 1], [3]], isr=[None, [], [3, 9]])
    assert problem_of(brokers, partitions).in_sync.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert problem_of(brokers, partition_rows([[1, 2]])).in_sync.tolist() == [[True, True]]
    lags = partition_rows([[1, 2, 3]], isr=[[3]])
    assert problem_of(brokers, lags).in_sync.tolist() == [[False, False, True]]


def test_replicas_on_brokers_that_are_out_keep_another_where_alone_they_would_share_a_rack() -> None:
    partitions = partition_rows([[1, 2, 4], [1, 5, 4], [1, 5, 2]])
    plan = plan_of(
        broker_rows([1, 2, 4, 5], RACKS),
        partitions,
        "light",
        job="replication_factor",
        replication_factor=1,
        brokers_out=[1, 4],
    )
    after = lists_after(plan, partitions)
    assert [set(after["orders", number]) for number in range(3)] == [{1, 2, 4}, {1, 4, 5}, {1}]
    assert "2 partitions keep more than 1 replicas, because replicas on brokers_out stay" in plan.note


MIN_ISR = partition_rows([[1, 2, 3], [2, 3, 1], [3, 1]], min_insync_replicas=[2, 2, 2])


@pytest.mark.parametrize("factor", [1, 2])
def test_a_factor_below_min_insync_replicas_is_refused_with_topics_and_figures(factor: int) -> None:
    asked: dict[str, Any] = {"job": "replication_factor", "replication_factor": factor}
    audit = partition_rows([[1, 2, 3]], topic="audit", min_insync_replicas=[3])
    with pytest.raises(PlanningError) as refused:
        problem_of(broker_rows([1, 2, 3]), MIN_ISR + audit, **asked)
    said = str(refused.value)
    assert "audit (3)" in said
    assert ("orders (2)" in said) == (factor == 1)
    assert f"replication factor {factor}" in said.lower()
    assert "Nothing was planned." in said


def test_a_list_that_is_below_min_insync_replicas_already_may_move_and_grow() -> None:
    partitions = partition_rows([[1], [1, 2], [2]], min_insync_replicas=[3, 3, 0])
    plan = plan_of(
        broker_rows([1, 2, 3]), partitions, "light", job="replication_factor", replication_factor=2, tolerance=0.9
    )
    assert plan.candidate.status == "ok"
    assert [len(lists_after(plan, partitions)["orders", number]) for number in range(3)] == [2, 2, 2]


def test_a_factor_of_min_insync_replicas_is_a_plan_with_a_warning() -> None:
    plan = plan_of(
        broker_rows([1, 2, 3]), MIN_ISR, "light", job="replication_factor", replication_factor=2, tolerance=0.9
    )
    assert plan.candidate.status == "ok"
    assert (
        "2 partitions of orders would have exactly as many replicas as min.insync.replicas asks for: the failure of "
        "any one of their brokers stops producers with acks=all" in plan.note
    )


def test_what_is_pinned_or_left_out_is_not_held_against_a_factor() -> None:
    audit = partition_rows([[1, 2, 3]], topic="audit", min_insync_replicas=[3])
    asked: dict[str, Any] = {"job": "replication_factor", "replication_factor": 2, "tolerance": 0.9}
    assert problem_of(broker_rows([1, 2, 3]), MIN_ISR + audit, pinned_topics=["audit"], **asked)
    assert problem_of(broker_rows([1, 2, 3]), MIN_ISR + audit, topics_out=["audit"], **asked)
