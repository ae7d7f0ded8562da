"""The nightly check measures the resources that a plan evens, and proposes a run only where a plan helps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.verdict import Measured
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.candidate import Metric
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.nightly import proposed_job
from kafka_rebalance.nightly.proposed_job import skew
from kafka_rebalance.nightly.why_not_propose import cannot_help, within
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.shortfall import outside_pools
from kafka_rebalance.planning.evenness import scores_now
from kafka_rebalance.planning.planner import offered
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.rules.rack_rule import broken_now
from kafka_rebalance.run.ledger import TABLES
from support.plans.drawn_clusters import Rows, clusters
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def measured(problem: Problem, limit: float = 0.2) -> Measured:
    outside = outside_pools(problem, problem.replicas)
    policy = Policy(approvers=(), imbalance_limit=limit)
    return proposed_job.measured(scores_now(problem), broken_now(problem), policy, outside)


def is_proposed(problem: Problem, limit: float = 0.2) -> bool:
    found = measured(problem, limit)
    return found.past_limit and cannot_help(problem, found) is None


def recommended(problem: Problem) -> DescribedCandidate | None:
    plans = [propose(problem, name) for name in offered(problem)]
    name = recommend(problem.settings, plans).candidate
    return next((plan for plan in plans if plan.candidate.name == name), None)


def read_unevenly() -> Problem:
    """Two brokers with the same in all but what consumers read from their leaders. Each partition is a topic."""
    rows = [
        {
            **partition_rows([[2, 1] if number % 2 else [1, 2]], topic=f"topic-{number}")[0],
            "bytes_in_per_second": 100.0,
            "bytes_out_per_second": 1000.0 if number % 2 else 3000.0,
        }
        for number in range(80)
    ]
    return problem_of(broker_rows([1, 2]), rows)


def test_a_cluster_that_is_off_in_leader_bytes_out_alone_is_proposed() -> None:
    problem = read_unevenly()
    found = measured(problem)
    assert found.past_limit
    assert found.resource == Metric.LEADER_BYTES_OUT
    assert {metric for metric, off in found.skew.items() if off > found.limit} == {Metric.LEADER_BYTES_OUT}
    assert found.text.startswith("bytes out of leaders are 48 % off their share on the worst broker")
    assert is_proposed(problem)
    plan = recommended(problem)
    assert plan is not None
    assert plan.scores_after[Metric.LEADER_BYTES_OUT].max_over_mean < 1.1


def test_the_check_measures_every_load_that_a_plan_evens() -> None:
    assert set(skew(scores_now(read_unevenly()))) == set(Metric)


def test_the_ledger_keeps_the_skew_of_every_load_that_a_plan_evens() -> None:
    kept = {name for name in TABLES["balance"].names if name.startswith("skew_")}
    assert kept == {f"skew_{metric}" for metric in Metric}


@st.composite
def policies(draw: st.DrawFn, brokers: Rows) -> dict[str, Any]:
    """What a policy keeps in place; mostly nothing."""
    ids = [row["broker"] for row in brokers]
    keys = draw(
        st.sampled_from([(), (), ("brokers_out",), ("pinned_topics",), ("topics_out",), ("rack_pinned_topics",)])
    )
    out = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True))
    return {key: out if key == "brokers_out" else ["orders"] for key in keys} | {"rackless_brokers": "one_rack"}


@pytest.mark.slow
@settings(max_examples=8)
@given(st.data(), clusters(), st.sampled_from([0.1, 0.2, 0.2, 0.4]))
def test_where_the_check_proposes_a_run_a_plan_that_brings_brokers_nearer_is_recommended(
    data: st.DataObject, cluster: tuple[Rows, Rows], limit: float
) -> None:
    brokers = [row | {"state": None if row["state"] == "drain" else row["state"]} for row in cluster[0]]  # as it reads
    policy = Policy.from_mapping({"approvers": ["uma"], **data.draw(policies(brokers))}, "test")
    try:
        problem = problem_of(brokers, cluster[1], **{**policy.measured_by(Settings()).to_mapping(), **within(limit)})
    except PlanningError:
        assume(False)
    assume(is_proposed(problem, limit))
    plan = recommended(problem)
    assert plan is not None
    assert plan.shortfall_after.distance < plan.shortfall_before.distance
