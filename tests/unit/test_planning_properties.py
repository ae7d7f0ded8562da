"""What holds for every plan of every cluster, and the fast masks against the rule they speed up."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.rules import rack_rule_problem
from kafka_rebalance.model.settings import JOBS, Settings
from kafka_rebalance.planning import controller
from kafka_rebalance.planning.constraints import allowed, domains_of, rack_rule, violations
from kafka_rebalance.planning.planner import propose
from plan_verifier import verify
from snapshots import Rows, problem_of
from strategies import clusters, settings_for

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=12, deadline=None, suppress_health_check=_SLOW)
@given(data=st.data(), cluster=clusters())
def test_every_candidate_keeps_every_promise(job: str, data: st.DataObject, cluster: tuple[Rows, Rows]) -> None:
    brokers, partitions = cluster
    asked = data.draw(settings_for(cluster, job))
    with pytest.MonkeyPatch.context() as patch:
        # So small that a few partitions of these small topics are as much as a batch bears, or one.
        patch.setattr(controller, "CONTROLLER_BYTES_PER_BATCH", data.draw(st.sampled_from([10**9, 3000, 1000, 1])))
        patch.setattr(controller, "ZNODE_BYTES", data.draw(st.sampled_from([10**9, 10**9, 300])))
        try:
            problem = problem_of(brokers, partitions, **asked)
            plans = [propose(problem, name) for name in ("leaders_only", "light", "balanced")]
        except PlanningError as wrong:
            refused = str(wrong)
            plans = []
        assert plans or "Nothing was planned" in refused
        for plan in plans:
            verify(plan, problem.snapshot_digest, brokers, partitions, Settings.from_mapping(asked))


@settings(max_examples=15, deadline=None, suppress_health_check=_SLOW)
@given(st.data(), st.sampled_from(JOBS), clusters())
def test_the_order_of_the_rows_changes_no_move(data: st.DataObject, job: str, cluster: tuple[Rows, Rows]) -> None:
    brokers, partitions = cluster
    asked = data.draw(settings_for(cluster, job))
    shuffled = random.Random(7)
    try:
        one = propose(problem_of(brokers, partitions, **asked), "balanced")
    except PlanningError:
        assume(False)
    brokers, partitions = brokers.copy(), partitions.copy()
    shuffled.shuffle(brokers)
    shuffled.shuffle(partitions)
    other = propose(problem_of(brokers, partitions, **asked), "balanced")
    assert one.candidate == other.candidate
    assert one.scores_after == other.scores_after


@settings(max_examples=60, deadline=None, suppress_health_check=_SLOW)
@given(clusters())
def test_the_masks_allow_exactly_what_keeps_the_rack_rule(cluster: tuple[Rows, Rows]) -> None:
    brokers, partitions = [row | {"state": None} for row in cluster[0]], cluster[1]
    problem = problem_of(brokers, partitions)
    rule = rack_rule(problem)
    racks = {row["broker"]: row.get("rack") for row in brokers}
    ids = problem.brokers.tolist()
    domains = domains_of(rule, problem.replicas)
    broken = violations(rule, problem.replicas)
    targets = np.arange(len(ids))
    for row in range(len(problem.partition)):
        held = [ids[broker] for broker in problem.replicas[row] if broker >= 0]
        assert broken[row] == (rack_rule_problem(held, racks) is not None)
        for column in range(len(held)):
            mask = allowed(rule, problem.replicas, domains, np.array([row]), np.array([column]), targets)[0]
            for target in ids:
                after = [*held[:column], target, *held[column + 1 :]]
                distinct = len(set(after)) == len(after) and target != held[column]
                keeps = rack_rule_problem(after, racks) is None
                if mask[ids.index(target)]:
                    assert distinct
                    assert keeps or broken[row]
                elif not broken[row]:
                    assert not (distinct and keeps), (held, column, target)
