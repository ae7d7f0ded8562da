"""What `optimal` calls proven, no other candidate undercuts: it is the least distance first, then the fewest bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.bounds.targets import Bands, band
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.problem.arrays import Problem, replication
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search import optimal
from kafka_rebalance.planning.search.frame import frame_of
from kafka_rebalance.planning.search.optimal import GAP, ListProgram
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
FIVE = broker_rows([1, 2, 3, 4, 5])  # 5 is new
SIX = partition_rows([[3, 4, 2], [1, 2, 4], [1, 4, 3], [3, 2, 1], [4, 3, 1], [2, 1, 3]])


def check_no_candidate_undercuts(problem: Problem, names: tuple[str, ...] = ("balanced", "light")) -> bool:
    """Whether anything is proven. Fails if another candidate that is as good copies fewer bytes than proven."""
    optimum = propose(problem, "optimal")
    claimed, note = bool(optimum.consequences.get("is_proven")), optimum.note.lower()
    denied = "not proven" in note or "copies fewer and is" in note  # with pools, of one of them
    if problem.pools is not None and len(parts_of(problem)) > 1:
        denied |= "or one replica" in note  # which is a claim of each pool alone
    assert claimed == ("proven: no plan" in note and not denied), note
    within = "or one replica" not in optimum.note  # which is better than beyond it, and may cost more
    for other in (propose(problem, name) for name in names):
        as_near = other.shortfall_after.is_as_good_as(optimum.shortfall_after)
        as_good = as_near or (other.shortfall_after.is_met and other.candidate.name == "balanced")
        if claimed and as_good and not within:
            assert optimum.copied_bytes <= other.copied_bytes * (1 + 2 * GAP) + 2, optimum.note
    return claimed


def test_where_nobody_can_be_within_the_tolerance_the_sum_is_least_and_then_the_bytes() -> None:
    """Each broker's own end was fixed before bytes counted: 4 copies where 3 end as even in sum."""
    problem = problem_of(FIVE, SIX)
    optimum, balanced = propose(problem, "optimal"), propose(problem, "balanced")
    assert optimum.note.startswith("Proven: no plan within 10 % or one replica and as near to it in all but")
    assert optimum.copied_bytes <= balanced.copied_bytes
    assert optimum.shortfall_after.furthest <= balanced.shortfall_after.furthest


def test_an_optimum_of_pools_is_proven_as_a_whole_only_if_all_of_them_are_within_the_tolerance() -> None:
    """Plans are compared as a whole: a little farther in one pool and nearer in the other is as near."""
    even = partition_rows([[6], [7]], topic="even")
    pools = [{"topics": ["even"], "brokers": [6, 7]}]
    apart = problem_of(broker_rows([1, 2, 3, 4, 5, 6, 7]), [*SIX, *even], broker_pools=pools)
    optimum = propose(apart, "optimal")
    assert "proven: no plan within 10 % or one replica" in optimum.note.lower()
    assert "is_proven" not in optimum.consequences
    within = partition_rows([[1], [1]])
    both = problem_of(broker_rows([1, 2, 6, 7]), [*within, *even], broker_pools=pools)
    assert propose(both, "optimal").consequences["is_proven"]
    alone = problem_of(broker_rows([1, 2, 3, 4, 5, 6, 7]), SIX, broker_pools=pools)
    assert propose(alone, "optimal").consequences["is_proven"], "a pool without topics is no other pool"


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [False, pytest.param(True, marks=pytest.mark.long)])
def test_no_candidate_undercuts_a_proven_one_on_drawn_clusters(sizes: bool) -> None:
    drawn, claims = random.Random(26), 0
    for _ in range(8):
        brokers, factor = drawn.randint(4, 9), drawn.randint(2, 3)
        old = range(1, max(factor, brokers - drawn.randint(0, 2)) + 1)
        rows = partition_rows([drawn.sample(old, factor) for _ in range(drawn.randint(6, 30))])
        for row in rows:
            row["size_bytes"] = int(1000 * drawn.lognormvariate(0, 1)) if sizes else 1000
        claims += check_no_candidate_undercuts(problem_of(broker_rows(range(1, brokers + 1)), rows))
    assert claims >= 4


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=_SLOW)
@given(st.data(), st.sampled_from(["balance", "drain", "repair_racks"]), clusters())
def test_no_candidate_undercuts_a_proven_one(data: st.DataObject, job: str, cluster: tuple[Rows, Rows]) -> None:
    asked = data.draw(settings_for(cluster, job))
    try:
        check_no_candidate_undercuts(problem_of(*cluster, **asked))
    except PlanningError:
        return


@pytest.mark.slow
def test_the_search_begins_with_the_best_known_lists() -> None:
    """With no node to search, the solver still has the lists of `balanced`, and never ends with dearer ones."""
    rows = partition_rows([[1 + number % 2] for number in range(40)])
    for row, size in zip(rows, np.random.default_rng(3).lognormal(8, 1, 40), strict=True):
        row["size_bytes"] = int(size)
    problem = problem_of(broker_rows([1, 2, 3, 4]), rows, tolerance=0.02)
    frame = frame_of(problem, goal_of(problem.settings, "optimal"), replication(problem.replicas))
    program = ListProgram(frame)
    slack = np.maximum(frame.targets * 0.02, frame.weights.max(axis=0))
    asked, widest = band(frame.targets, 0.02), Bands(frame.targets - slack, frame.targets + slack)
    nearest = program.nearest(asked, widest)
    assert nearest.found.x is not None
    known = program.lists(nearest.found.x > 0.5)
    again = program.nearest(asked, widest, known)
    assert again.found.cost <= nearest.found.cost * (1 + 1e-6)
    assert again.found.x is not None
    assert problem.replicas.shape == program.lists(again.found.x > 0.5).shape


@pytest.mark.slow
def test_an_unproven_optimum_is_titled_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = partition_rows([[1 + number % 2] for number in range(60)])
    for row, size in zip(rows, np.random.default_rng(3).lognormal(8, 1, 60), strict=True):
        row["size_bytes"] = int(size)
    asked: dict[str, Any] = {"tolerance": 0.005}
    monkeypatch.setattr(optimal, "EFFORT", {**optimal.EFFORT, "mip_rel_gap": 0.0})
    monkeypatch.setattr(optimal, "_WORK", 0)
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, "optimal", **asked)
    assert "is_proven" not in plan.consequences
    assert "not proven" in plan.note
