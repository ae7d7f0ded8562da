"""Who is out of the ISR in the snapshot is not made a leader, nor is a broker of brokers_out, by no plan at all."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

CANDIDATES = ["leaders_only", "light", "balanced", "optimal"]
LISTS = [[1, 2, 3], [1, 3, 2]] * 15
BEHIND = partition_rows(LISTS, isr=[[1, 2]] * 30)  # broker 3 lags everywhere


def made_leaders(plan: DescribedCandidate, partitions: Rows) -> list[tuple[str, int, int]]:
    """(topic, partition, broker) where a replica becomes the first that was there and out of the ISR."""
    found = []
    after = lists_after(plan, partitions)
    for row in partitions:
        key, isr, first = (row["topic"], row["partition"]), row.get("isr"), after[row["topic"], row["partition"]][0]
        if isr and first != row["replicas"][0] and first in row["replicas"] and first not in isr:
            found.append((*key, first))
    return found


@pytest.mark.parametrize("name", CANDIDATES)
def test_leaders_are_not_given_to_replicas_that_are_out_of_the_isr(name: str) -> None:
    plan = plan_of(broker_rows([1, 2, 3]), BEHIND, name)
    assert plan.candidate.moves
    assert made_leaders(plan, BEHIND) == []
    assert "out of the ISR" not in plan.note


def test_a_new_replica_may_lead_it_is_in_sync_when_its_copy_ends() -> None:
    partitions = partition_rows([[1, 3]] * 12, isr=[[1]] * 12)
    plan = plan_of(broker_rows([1, 2, 3]), partitions, job="drain", drain=[1])
    assert made_leaders(plan, partitions) == []
    assert {first for first, *_ in lists_after(plan, partitions).values()} == {2}


def test_a_leader_that_lags_and_led_before_is_no_new_one() -> None:
    partitions = partition_rows([[1, 2]] * 4 + [[2, 1]] * 4, isr=[[2]] * 4 + [[2, 1]] * 4)
    plan = plan_of(broker_rows([1, 2]), partitions, "leaders_only")
    assert plan.candidate.moves == ()


def test_where_no_other_may_lead_the_leader_stays_and_the_plan_says_so() -> None:
    partitions = partition_rows([[1, 3]] * 3 + [[1, 2]], isr=[[1]] * 3 + [[1, 2]])
    plan = plan_of(broker_rows([1, 2, 3]), partitions, "leaders_only", job="leaders", drain=[1])
    assert [move.after for move in plan.candidate.moves] == [(2, 1)]
    assert made_leaders(plan, partitions) == []
    assert plan.candidate.status == "partial"
    assert "3 leaders stay on brokers that are to lead nothing" in plan.note
    assert plan.shortfall_after.undone == 3


def test_a_list_of_which_no_replica_may_lead_is_left_out() -> None:
    """The factor falls to 1, broker 1 leaves, and broker 4 of brokers_out keeps its replica: nobody may lead."""
    rows = partition_rows([[1, 4], [1, 4], [2, 3], [2, 1]])
    asked = {"job": "replication_factor", "replication_factor": 1, "drain": [1], "brokers_out": [4]}
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, "light", **asked)
    after = lists_after(plan, rows)
    assert after["orders", 0] == after["orders", 1] == (1, 4)
    assert all(move.after[0] != 4 for move in plan.candidate.moves)
    assert plan.candidate.status == "partial"
    assert "2 lists stay as they are: each replica that could lead instead is out of the ISR" in plan.note


def test_a_smaller_factor_that_drops_the_leader_leaves_one_that_is_in_sync() -> None:
    partitions = partition_rows([[4, 3, 2, 1]] * 4, isr=[[4, 2, 1]] * 4)
    plan = plan_of(
        broker_rows([1, 2, 3, 4]),
        partitions,
        "light",
        job="replication_factor",
        replication_factor=2,
        brokers_out=[3],
        tolerance=0.9,
    )
    assert made_leaders(plan, partitions) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {},
            "a first replica that is out of the ISR in the snapshot, first orders-0 (broker 3)",
        ),
        (
            {"brokers_out": [2]},
            "a first replica that is in brokers_out, first orders-1 (broker 2)",
        ),
    ],
)
def test_a_given_plan_that_elects_one_who_may_not_lead_is_not_offered(settings: dict[str, Any], words: str) -> None:
    lists = {0: [3, 1, 2]} if not settings else {1: [2, 1, 4]}
    plan = given_plan(lists, partition_rows(LISTS, isr=[[1, 2], [1, 2, 3]] * 15, leader=[1] * 30), **settings)
    assert (plan.candidate.status, plan.candidate.moves) == ("infeasible", ())
    assert words in plan.note


def given_plan(lists: dict[int, list[int]], partitions: Rows, **settings: Any) -> DescribedCandidate:
    entries = [{"topic": "orders", "partition": number, "replicas": those} for number, those in lists.items()]
    text = json.dumps({"version": 1, "partitions": entries})
    return plan_of(broker_rows([1, 2, 3, 4]), partitions, "given", plan=text, **settings)


def test_a_list_that_keeps_todays_leader_first_may_be_given_whoever_leads() -> None:
    rows = partition_rows([[2, 1]] * 2, leader=[2] * 2)
    plan = given_plan({0: [2, 3]}, rows, brokers_out=[2], topics_in=["*"])
    assert [move.after for move in plan.candidate.moves] == [(2, 3)]


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_followers_move_and_todays_leader_comes_first_where_the_preferred_one_must_not_lead(name: str) -> None:
    """Broker 4 is in brokers_out, and first in lists that broker 1 leads: no changed list may elect it."""
    rows = partition_rows([[4, 1, 2]] * 8, leader=[1] * 8)
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, name, brokers_out=[4])
    assert any(move.added for move in plan.candidate.moves)
    assert all(move.after[0] != 4 for move in plan.candidate.moves)
    # The loads count who leads in the end.
    assert plan.loads_after[3, 3] == 0


@pytest.mark.parametrize(
    "job", [{"job": "balance"}, {"job": "drain", "drain": [3]}, {"job": "replace", "replace": {"3": 4}}]
)
@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_a_preferred_leader_out_of_the_isr_is_not_elected_because_a_follower_moves(name: str, job: Any) -> None:
    rows = partition_rows([[1, 2, 3]] * 12, leader=[2] * 12, isr=[[2, 3]] * 12)
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, name, **job)
    assert name == "optimal" or plan.candidate.moves
    for move in plan.candidate.moves:
        assert move.after[0] != 1, move


_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=_SLOW)
@given(st.data(), clusters(), st.sampled_from(["balance", "leaders", "drain", "replication_factor"]))
def test_no_list_elects_a_first_replica_that_must_not_lead(data: st.DataObject, cluster: Any, job: str) -> None:
    brokers, partitions = cluster
    asked = data.draw(settings_for(cluster, job))
    try:
        problem = problem_of(brokers, partitions, **asked)
        plan = propose(problem, data.draw(st.sampled_from([*CANDIDATES, "as_kafka"])))
    except PlanningError:
        assume(False)
    before = {(row["topic"], row["partition"]): row for row in partitions}
    for move in plan.candidate.moves:
        row, first = before[move.topic_partition], move.after[0]
        if first != move.source:
            assert first not in asked.get("brokers_out", ()), (row, move)
            assert not row["isr"] or first in row["isr"] or first not in row["replicas"], (row, move)
    assert np.isfinite(plan.loads_after).all()
