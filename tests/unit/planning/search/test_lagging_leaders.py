"""Who is out of the ISR in the snapshot is not made a leader where another will do, and is named where none will."""

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
    assert "out of the ISR" not in plan.candidate.note


def test_a_new_replica_may_lead_it_is_in_sync_when_its_copy_ends() -> None:
    partitions = partition_rows([[1, 3]] * 12, isr=[[1]] * 12)
    plan = plan_of(broker_rows([1, 2, 3]), partitions, job="drain", drain=[1])
    assert made_leaders(plan, partitions) == []
    assert {first for first, *_ in lists_after(plan, partitions).values()} == {2}


def test_a_leader_that_lags_and_led_before_is_no_new_one() -> None:
    partitions = partition_rows([[1, 2]] * 4 + [[2, 1]] * 4, isr=[[2]] * 4 + [[2, 1]] * 4)
    plan = plan_of(broker_rows([1, 2]), partitions, "leaders_only")
    assert plan.candidate.moves == ()


def test_where_no_other_may_lead_it_is_named() -> None:
    partitions = partition_rows([[1, 3]] * 3, isr=[[1]] * 3)
    plan = plan_of(broker_rows([1, 3]), partitions, "leaders_only", job="leaders", drain=[1])
    assert len(made_leaders(plan, partitions)) == 3
    assert (
        "3 partitions get a preferred leader that is out of the ISR in the snapshot, first orders-0 (broker 3)"
        in plan.candidate.note
    )


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


def test_of_a_given_plan_it_is_told_and_nothing_is_changed() -> None:
    lists = [{"topic": "orders", "partition": 0, "replicas": [3, 1, 2]}]
    text = json.dumps({"version": 1, "partitions": lists})
    plan = plan_of(broker_rows([1, 2, 3]), BEHIND, "given", plan=text)
    assert [move.after for move in plan.candidate.moves] == [(3, 1, 2)]
    assert "1 partitions get a preferred leader that is out of the ISR in the snapshot, first orders-0 (broker 3)" in (
        plan.candidate.note
    )


_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@settings(max_examples=40, deadline=None, suppress_health_check=_SLOW)
@given(st.data(), clusters(), st.sampled_from(["balance", "leaders", "drain", "replication_factor"]))
def test_a_lagging_replica_leads_only_where_nobody_else_may(data: st.DataObject, cluster: Any, job: str) -> None:
    brokers, partitions = cluster
    asked = data.draw(settings_for(cluster, job))
    try:
        problem = problem_of(brokers, partitions, **asked)
        plan = propose(problem, data.draw(st.sampled_from(CANDIDATES[:3])))
    except PlanningError:
        assume(False)
    before = {(row["topic"], row["partition"]): row for row in partitions}
    may_lead = set(problem.brokers[problem.receivers].tolist())
    leaving = set(problem.brokers[problem.leaving].tolist())
    for topic, partition, first in made_leaders(plan, partitions):
        row, after = before[topic, partition], lists_after(plan, partitions)[topic, partition]
        others = [broker for broker in after[1:] if broker in row["isr"] or broker not in row["replicas"]]
        assert row["replicas"][0] not in after or row["replicas"][0] in leaving, (row, after)
        assert not may_lead & set(others), (row, after)
        assert f"(broker {first})" in plan.candidate.note or "partitions get a preferred leader" in plan.candidate.note
    assert np.isfinite(plan.loads_after).all()
