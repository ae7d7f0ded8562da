"""Broker pools: topics that only the brokers of their pool hold, which hold nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.settings import JOBS, Settings
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.sharper_bound import bound_of, with_sharper_bound
from kafka_rebalance.planning.planner import can_be_more_even, offered
from kafka_rebalance.topics.new_partitions import place_partitions
from support.plans.drawn_clusters import settings_for
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

PAYMENTS, AUDIT, OTHERS = (1, 2, 3), (11, 12, 13), (21, 22, 23)
POOLS: dict[str, Any] = {
    "broker_pools": [{"topics": ["pay*"], "brokers": [*PAYMENTS]}, {"topics": ["audit"], "brokers": [*AUDIT]}]
}
HOME = {"payments": PAYMENTS, "audit": AUDIT, "orders": OTHERS}
IDS = (*PAYMENTS, *AUDIT, *OTHERS)
BROKERS = broker_rows(IDS)
BY_RACK = broker_rows(IDS, {broker: "abc"[broker % 10 - 1] for broker in IDS})
STRAYS = partition_rows([[1, 11], [2, 21], [3, 1]], topic="payments") + partition_rows([[21, 1], [22, 23]])
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def outside(plan: DescribedCandidate, rows: Rows) -> int:
    after = lists_after(plan, rows)
    return sum(broker not in HOME[topic] for (topic, _), lists in after.items() for broker in lists)


def held(plan: DescribedCandidate, rows: Rows, brokers: Iterable[int]) -> list[int]:
    after = lists_after(plan, rows).values()
    return [sum(broker in lists for lists in after) for broker in brokers]


@st.composite
def pooled_clusters(draw: st.DrawFn) -> tuple[Rows, Rows]:
    """Three pools of three brokers each, with racks or without, and some strays."""
    racks = draw(st.sampled_from([None, "abc", "aab"]))
    columns: dict[str, Any] = {"state": {broker: draw(st.sampled_from([None] * 8 + ["drain"])) for broker in IDS}}
    capacity = draw(st.sampled_from([None, None, 10**7, 3 * 10**6]))
    if capacity is not None:
        columns["disk_capacity_bytes"] = dict.fromkeys(IDS, capacity)
    brokers = broker_rows(IDS, {broker: racks[broker % 10 - 1] for broker in IDS} if racks else None, **columns)
    rates, of_ten = draw(st.booleans()), draw(st.sampled_from([0, 0, 1, 3]))
    rows: Rows = []
    for topic in draw(st.lists(st.sampled_from(sorted(HOME)), min_size=1, unique=True)):
        for number in range(draw(st.integers(1, 12))):
            count = draw(st.integers(1, 2 if racks == "aab" else 3))
            replicas = draw(st.permutations(HOME[topic]))[:count]
            if draw(st.integers(0, 9)) < of_ten:
                replicas = list(dict.fromkeys([draw(st.sampled_from(IDS)), *replicas]))[:count]
            row: dict[str, Any] = {"topic": topic, "partition": number, "replicas": list(replicas)}
            row["size_bytes"] = draw(st.integers(0, 10**6))
            if rates:
                row |= {"bytes_in_per_second": draw(st.floats(0, 1e6)), "bytes_out_per_second": draw(st.floats(0, 1e6))}
            rows.append(row)
    return brokers, rows


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=8, deadline=None, suppress_health_check=_SLOW)
@given(data=st.data(), cluster=pooled_clusters())
def test_every_candidate_keeps_every_promise_and_its_bound_with_pools(
    job: str, data: st.DataObject, cluster: tuple[Rows, Rows]
) -> None:
    asked = data.draw(settings_for(cluster, job)) | POOLS
    asked["candidates"] = ["leaders_only", "light", "balanced", "optimal", "as_kafka"]
    try:
        problem = problem_of(*cluster, **asked)
        plans = [propose(problem, name) for name in offered(problem)]
    except PlanningError as wrong:
        refused = str(wrong)
        plans = []
    assert plans or "Nothing was planned" in refused
    for plan in plans:
        verify(plan, problem.snapshot_digest, *cluster, Settings.from_mapping(asked))
        figures = with_sharper_bound(problem, plan).candidate.summary
        assert figures["moved_bytes_bound"] <= figures["moved_bytes"]


def test_a_balance_evens_each_pool_among_its_own_brokers() -> None:
    rows = partition_rows([[1, 2]] * 9, topic="payments") + partition_rows([[21, 22]] * 3)
    plan = plan_of(BROKERS, rows, **POOLS)
    assert held(plan, rows, IDS) == [6, 6, 6, 0, 0, 0, 2, 2, 2]
    assert plan.candidate.status == "ok"
    assert plan.scores_before["disk"].max_over_mean == 1.5
    assert plan.scores_after["disk"].max_over_mean == plan.scores_after["disk"].min_over_mean == 1.0


def test_the_bounds_are_the_sums_of_the_bounds_of_each_pool_alone() -> None:
    payments = partition_rows([[1, 2], [1, 3], [1, 2]] * 3, topic="payments", size=7000)
    orders = partition_rows([[21, 22], [22, 21], [23, 21]] * 2, size=3000)
    alone = []
    for brokers, rows in ((PAYMENTS, payments), (OTHERS, orders)):
        problem = problem_of(broker_rows(brokers), rows)
        plan = propose(problem, "balanced")
        alone.append((plan.candidate.summary["moved_bytes_bound"], bound_of(problem, plan).bytes))
    problem = problem_of(BROKERS, payments + orders, **POOLS)
    plan = propose(problem, "balanced")
    bounds = plan.candidate.summary["moved_bytes_bound"], bound_of(problem, plan).bytes
    assert bounds == tuple(map(sum, zip(*alone, strict=True)))


def test_a_balance_brings_strays_into_their_pool_and_says_so() -> None:
    plan = plan_of(BROKERS, STRAYS, **POOLS)
    assert outside(plan, STRAYS) == 0
    reasons = {str(move.topic_partition): move.reason for move in plan.candidate.moves}
    assert reasons["payments-0"] == "broker 11 is not in the pool of payments"
    assert reasons["orders-0"] == "broker 1 is not in the pool of orders"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("balanced", {"job": "relieve"}),
        ("light", {"job": "drain", "drain": [3]}),
        ("leaders_only", {"job": "leaders"}),
        ("balanced", {"job": "balance", "pinned_topics": ["*"]}),
    ],
)
def test_candidates_that_repair_no_racks_leave_strays_where_they_are(name: str, asked: dict[str, Any]) -> None:
    rows = [row for row in STRAYS if row["replicas"] != [3, 1]]
    assert outside(plan_of(BROKERS, rows, name, **asked, **POOLS), rows) == 3


def test_a_broker_that_is_emptied_loses_its_strays_into_their_pool() -> None:
    plan = plan_of(BROKERS, STRAYS, "light", job="drain", drain=[21], **POOLS)
    assert held(plan, STRAYS, [21]) == [0]
    assert set(lists_after(plan, STRAYS)["payments", 1]) <= set(PAYMENTS)


def test_a_replacement_takes_what_is_of_its_pool_and_strays_go_home() -> None:
    plan = plan_of(BROKERS, STRAYS[:2] + STRAYS[3:], "light", job="replace", replace={"21": 23}, **POOLS)
    after = lists_after(plan, STRAYS)
    assert after["orders", 0] == (23, 1)
    assert set(after["payments", 1]) <= set(PAYMENTS)


@pytest.mark.slow
def test_a_limit_that_is_too_small_is_shared_by_the_pools_and_leaves_strays() -> None:
    rows = partition_rows([[1, 11]] * 10, topic="payments") + partition_rows([[21, 1]] * 10)
    plan = plan_of(BROKERS, rows, max_bytes=10_000, **POOLS)
    assert plan.candidate.summary["moved_bytes"] == 10_000
    assert plan.candidate.status == "partial"
    assert "10 replicas stay outside the pools of their topics" in plan.note
    assert {move.topic_partition.topic for move in plan.candidate.moves if move.added} == {"payments", "orders"}


def test_strays_on_a_disk_take_its_room_until_they_have_left() -> None:
    brokers = broker_rows(IDS, disk_capacity_bytes=dict.fromkeys(IDS, 10_000))
    rows = partition_rows([[1], [1], [2], [2], [3], [3], [11]], topic="payments", size=2000)
    rows += [row | {"partition": 10 + number} for number, row in enumerate(partition_rows([[1], [2], [3]], size=4000))]
    plan = plan_of(brokers, rows, **POOLS)
    assert lists_after(plan, rows)["payments", 6] == (11,), "each disk of its pool would be 10,000 of 9,000 bytes full"
    assert plan.candidate.status == "partial"
    assert lists_after(plan_of(brokers, rows[:7], **POOLS), rows[:7])["payments", 6][0] in PAYMENTS


def test_a_given_plan_that_leaves_a_pool_is_not_offered() -> None:
    rows = partition_rows([[1, 2]], topic="payments") + partition_rows([[21, 22]])
    text = '{"version": 1, "partitions": [{"topic": "payments", "partition": 0, "replicas": [1, 21]}]}'
    plan = plan_of(BROKERS, rows, "given", plan=text, **POOLS)
    assert plan.candidate.status == "infeasible"
    assert "first payments-0: broker 21 is not in the pool of payments" in plan.note
    inside = plan_of(BROKERS, rows, "given", plan=text.replace("21", "3"), **POOLS)
    assert [move.after for move in inside.candidate.moves] == [(1, 3)]


def test_new_partitions_go_to_the_pool_of_their_topic_whether_it_has_any_or_not() -> None:
    problem = problem_of(BROKERS, partition_rows([[21, 22]]), **POOLS)
    for topic, brokers in (("payments", PAYMENTS), ("audit", AUDIT), ("orders", OTHERS), ("new", OTHERS)):
        placed = place_partitions(problem, topic, [5, 6, 7], 2)
        assert {broker for replicas in placed.values() for broker in replicas} == set(brokers)


def test_a_rebalance_can_help_a_pool_but_no_broker_can_help_another_pool() -> None:
    even = partition_rows([[1], [2], [3]] * 4, topic="payments") + partition_rows([[21], [22], [23]])
    assert not can_be_more_even(problem_of(BROKERS, even, **POOLS), ["disk"], 0.2)["disk"].can_help
    uneven = partition_rows([[1], [1], [3]] * 4, topic="payments") + partition_rows([[21], [22], [23]])
    assert can_be_more_even(problem_of(BROKERS, uneven, **POOLS), ["disk"], 0.2)["disk"].can_help


def pool(*brokers: int, topic: str = "pay*") -> dict[str, Any]:
    return {"topics": [topic], "brokers": [*brokers]}


@pytest.mark.parametrize(
    ("pools", "asked", "said"),
    [
        ([pool(1, 99)], {}, "broker_pools: broker 99 does not exist"),
        ([pool(1, 2), pool(3, 11, topic="*ments")], {}, "topic payments is in the pools of 'pay*' and '*ments'"),
        ([pool(1)], {}, "the pool of pay* has 1 brokers, but 2 partitions, first payments-0, have more replicas"),
        ([pool(1, 11, 21)], {}, "the pool of pay* has brokers in 1 racks, but 2 partitions, first payments-0"),
        ([pool(*IDS)], {}, "the pool of all other topics has 0 brokers, but 1 partitions, first orders-0"),
        (
            [pool(*PAYMENTS)],
            {"job": "replace", "replace": {"1": 11}},
            "broker 1 is in the pool of pay*, and broker 11 in that of all other topics",
        ),
        ([pool(1, 2)], {"job": "drain", "drain": [2]}, "In the pool of pay*: Emptying broker 2 leaves 1 brokers"),
    ],
)
def test_pools_that_do_not_fit_the_cluster_are_refused(pools: list[Any], asked: dict[str, Any], said: str) -> None:
    rows = partition_rows([[1, 2], [2, 1]], topic="payments") + partition_rows([[22, 23]])
    with pytest.raises(PlanningError) as refused:
        problem_of(BY_RACK, rows, broker_pools=pools, **asked)
    assert said in str(refused.value)
    assert "Nothing was planned" in str(refused.value)
