"""Replicas that stay on their brokers, or in their racks."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kafka_rebalance.errors import PlanningError
from support.plans.small_snapshots import as_written, broker_rows, lists_after, partition_rows, plan_of

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
SIX = broker_rows(RACKS, RACKS)
CROWDED = partition_rows([[1, 2, 3]] * 6, topic="ledger") + partition_rows([[1, 2, 3]] * 6)


def test_pinned_replicas_stay_where_they_are_and_only_change_their_order() -> None:
    after = lists_after(plan_of(SIX, CROWDED, pinned_topics=["led*"]), CROWDED)
    ledger = [replicas for (topic, _), replicas in after.items() if topic == "ledger"]
    assert {frozenset(replicas) for replicas in ledger} == {frozenset({1, 2, 3})}
    assert len({replicas[0] for replicas in ledger}) > 1
    held = Counter(broker for replicas in after.values() for broker in replicas)
    assert all(held[broker] >= 4 for broker in (4, 5, 6)), "the others make room for what is pinned"


def test_a_pinned_topic_keeps_its_replication_factor() -> None:
    plan = plan_of(
        SIX, CROWDED, "light", job="replication_factor", replication_factor=2, pinned_topics=["ledger"], tolerance=0.9
    )
    after = lists_after(plan, CROWDED)
    assert {(topic, len(replicas)) for (topic, _), replicas in after.items()} == {("ledger", 3), ("orders", 2)}
    assert "6 partitions of pinned_topics keep their replication factor" in plan.note


def test_a_drain_that_needs_a_pinned_replica_to_go_is_refused_with_how_many_there_are() -> None:
    with pytest.raises(PlanningError) as refused:
        plan_of(SIX, CROWDED, job="drain", drain=[2, 4], pinned_topics=["ledger"])
    assert "Emptying broker 2 would move 6 replicas of pinned_topics" in str(refused.value)
    assert "first ledger-0" in str(refused.value)
    plan_of(SIX, CROWDED, job="drain", drain=[4], pinned_topics=["ledger"])
    plan_of(SIX, CROWDED, job="leaders", drain=[2], pinned_topics=["ledger"])


@pytest.mark.parametrize("job", [{}, {"job": "drain", "drain": [1]}])
def test_rack_pinned_replicas_move_within_their_rack_only(job: dict[str, Any]) -> None:
    partitions = partition_rows([[1, 2]] * 12)
    plan = plan_of(SIX, partitions, rack_pinned_topics=["*"], **job)
    after = lists_after(plan, partitions).values()
    assert {frozenset(RACKS[broker] for broker in replicas) for replicas in after} == {frozenset("ab")}
    assert {broker for replicas in after for broker in replicas} >= {4, 5}
    free = lists_after(plan_of(SIX, partitions, **job), partitions).values()
    assert any(RACKS[broker] == "c" for replicas in free for broker in replicas)


def test_replicas_that_a_higher_factor_adds_go_to_any_rack() -> None:
    partitions = partition_rows([[1, 2]] * 4)
    plan = plan_of(
        SIX, partitions, "light", job="replication_factor", replication_factor=3, rack_pinned_topics=["orders"]
    )
    after = lists_after(plan, partitions).values()
    assert all({RACKS[broker] for broker in replicas} == {"a", "b", "c"} for replicas in after)


@pytest.mark.parametrize("pinned", [[], ["orders"]])
def test_a_lower_factor_leaves_replicas_in_as_many_racks_though_another_is_on_a_broker_that_leaves(
    pinned: list[str],
) -> None:
    brokers = [{"broker": 1, "rack": "a", "state": "drain"}, *broker_rows([2, 4, 5], RACKS)]
    partitions = partition_rows([[1, 2, 5]] * 4)
    plan = plan_of(
        brokers, partitions, "light", job="replication_factor", replication_factor=2, rack_pinned_topics=pinned
    )
    after = lists_after(plan, partitions).values()
    assert all({RACKS[broker] for broker in replicas} == {"a", "b"} for replicas in after)
    assert all(1 not in replicas for replicas in after)


def test_a_replica_of_a_broker_whose_rack_nobody_knows_any_more_goes_to_a_rack_that_is_free() -> None:
    brokers = [*broker_rows([2, 3, 4], RACKS), {"broker": 1, "rack": None, "state": "drain"}]
    partitions = partition_rows([[1, 2, 3], [2, 1, 3]])
    for pinned in ([], ["orders"]):
        after = lists_after(plan_of(brokers, partitions, "light", rack_pinned_topics=pinned), partitions)
        assert [set(replicas) for replicas in after.values()] == [{4, 2, 3}] * 2


def test_with_more_replicas_than_racks_a_dead_brokers_replica_still_goes_to_the_rack_that_has_none() -> None:
    racks = {2: "a", 3: "a", 4: "b", 5: "a"}
    brokers = [*broker_rows(racks, racks), {"broker": 1, "rack": None, "state": "drain"}]
    partitions = partition_rows([[1, 2, 3]]) + partition_rows([[4]] * 5, topic="full")
    after = lists_after(plan_of(brokers, partitions, "light", job="drain", drain=[1]), partitions)
    assert set(after["orders", 0]) == {2, 3, 4}


@pytest.mark.parametrize(
    ("asked", "texts"),
    [
        (
            {"job": "drain", "drain": [3, 6]},
            ["Emptying broker 3 would move 12 replicas of rack_pinned_topics", "orders-0"],
        ),
        (
            {"job": "drain", "drain": [3], "brokers_out": [6]},
            ["Emptying broker 3 would", "no other broker of its rack may receive"],
        ),
        ({"job": "replace", "replace": {"3": 4}}, ["4 (rack a)", "3 (rack c)", "12 of its partitions", "orders-0"]),
    ],
)
def test_what_would_move_rack_pinned_replicas_off_their_rack_is_refused(
    asked: dict[str, Any], texts: list[str]
) -> None:
    with pytest.raises(PlanningError) as refused:
        plan_of(SIX, partition_rows([[2, 3]] * 12), rack_pinned_topics=["orders"], **asked)
    assert "Nothing was planned" in str(refused.value)
    for text in texts:
        assert text in str(refused.value)


def test_topics_are_not_pinned_to_racks_that_are_unknown() -> None:
    with pytest.raises(PlanningError) as refused:
        plan_of(broker_rows([1, 2, 3]), partition_rows([[1, 2]]), rack_pinned_topics=["orders"])
    assert "rack_pinned_topics names 1 partitions, first orders-0, but the rack of brokers 1, 2, 3 is unknown" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("setting", "lists", "offered"),
    [
        ("pinned_topics", {0: [2, 1, 3]}, True),
        ("pinned_topics", {0: [4, 2, 3]}, False),
        ("rack_pinned_topics", {0: [4, 3, 2]}, True),
        ("rack_pinned_topics", {0: [1, 2]}, True),
        ("rack_pinned_topics", {0: [1, 2, 4]}, False),
    ],
)
def test_a_given_plan_moves_no_pinned_replica(setting: str, lists: dict[int, list[int]], offered: bool) -> None:
    entries = [{"topic": "orders", "partition": number, "replicas": replicas} for number, replicas in lists.items()]
    text = json.dumps({"version": 1, "partitions": entries})
    plan = as_written(plan_of(SIX, partition_rows([[1, 2, 3]] * 2), "given", plan=text, **{setting: ["orders"]}))
    assert bool(plan.moves) == offered
    assert offered or f"1 partitions of {setting} would be moved off theirs, first orders-0" in plan.note


ZONES = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c", 7: "a", 8: "b", 9: "c", 10: "a", 11: "b", 12: "c"}
TWELVE = broker_rows(ZONES, ZONES)


def test_rack_pinned_lists_that_share_a_rack_fill_the_empty_brokers_of_their_rack() -> None:
    partitions = partition_rows([[1, 4, 7], [2, 5, 8], [3, 6, 9], [4, 7, 1], [5, 8, 2], [6, 9, 3]])
    for name in ("light", "balanced"):
        plan = plan_of(TWELVE, partitions, name, rack_pinned_topics=["*"])
        after = lists_after(plan, partitions).values()
        assert plan.candidate.status == "ok"
        assert {broker for replicas in after for broker in replicas} == set(ZONES)
        assert all(len({ZONES[broker] for broker in replicas}) == 1 for replicas in after)
        assert plan.candidate.summary["moved_replicas"] == 3


@pytest.mark.parametrize("further", [{}, {"brokers_in": [10]}])
def test_a_drain_leaves_rack_pinned_lists_that_share_a_rack_in_it(further: dict[str, Any]) -> None:
    partitions = partition_rows([[1, 4, 7]] * 3 + [[2, 5]])
    plan = plan_of(TWELVE, partitions, "light", job="drain", drain=[1], rack_pinned_topics=["*"], **further)
    assert [set(replicas) for replicas in lists_after(plan, partitions).values()] == [{4, 7, 10}] * 3 + [{2, 5}]
    assert plan.candidate.status == "ok"


def test_a_list_that_shares_a_rack_leaves_it_where_a_rack_is_free_and_stays_where_none_may_receive() -> None:
    partitions = partition_rows([[1, 4]] * 2)
    asked: dict[str, Any] = {"job": "drain", "drain": [1]}
    mended = lists_after(plan_of(TWELVE, partitions, "light", **asked), partitions).values()
    assert all(len({ZONES[broker] for broker in replicas}) == 2 for replicas in mended)
    same = lists_after(plan_of(TWELVE, partitions, "light", **asked, brokers_in=[10]), partitions).values()
    assert [set(replicas) for replicas in same] == [{4, 10}] * 2


def test_shares_go_by_what_the_racks_of_rack_pinned_lists_hold() -> None:
    partitions = partition_rows([[1, 4, 7, 10]] * 6 + [[2, 3]] * 8)
    plan = plan_of(TWELVE, partitions, rack_pinned_topics=["*"], tolerance=0.1)
    held = Counter(broker for replicas in lists_after(plan, partitions).values() for broker in replicas)
    assert {held[broker] for broker in (1, 4, 7, 10)} == {6}
    assert {held[broker] for broker in (2, 5, 8, 11, 3, 6, 9, 12)} == {2}
    assert "replicas" not in plan.note


def test_a_drain_of_a_whole_rack_is_refused_for_rack_pinned_topics_also_with_more_replicas_than_racks() -> None:
    with pytest.raises(PlanningError, match=r"rack_pinned_topics, and no other broker of its rack"):
        plan_of(
            SIX,
            partition_rows([[1, 2, 3]] * 3),
            job="drain",
            drain=[3, 6],
            rack_pinned_topics=["*"],
            more_replicas_than_racks=True,
        )


def test_a_rack_pinned_replica_outside_its_pool_stays_if_the_pool_has_no_broker_in_its_rack() -> None:
    pools = [{"topics": ["orders"], "brokers": [1, 4, 2, 5]}]
    partitions = partition_rows([[1, 3]]) + partition_rows([[3, 6]], topic="other")
    asked: dict[str, Any] = {"broker_pools": pools, "more_replicas_than_racks": True, "rack_pinned_topics": ["orders"]}
    plan = plan_of(SIX, partitions, "light", **asked)
    assert 3 in lists_after(plan, partitions)["orders", 0]
    assert "1 replicas stay outside the pools of their topics" in plan.note
