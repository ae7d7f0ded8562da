"""A plan cut after parts of its bytes: from now to the whole plan, with lists that could stand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.proposals import CutPlan
from kafka_rebalance.planning.bounds.targets import band
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.evenness_by_bytes import evenness_by_bytes
from kafka_rebalance.planning.problem.arrays import Problem, all_loads, loads_now
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

RACKS = {broker: "abc"[broker % 3] for broker in range(1, 10)}
# 9 brokers, of which the last 3 are empty.
LISTS = [[1 + n % 6, 1 + (n + 1) % 6, 1 + (n + 2) % 6] for n in range(90)]


def uneven(**settings: object) -> Problem:
    rows = partition_rows(LISTS, bytes_in_per_second=[10.0 + n % 7 for n in range(90)])
    for number, row in enumerate(rows):
        row["size_bytes"] = 1000 + 137 * (number % 11)
    return problem_of(broker_rows(range(1, 10), RACKS), rows, **settings)


def off(scores: dict[str, object]) -> float:
    return max(max(1 - one.min_over_mean, one.max_over_mean - 1) for one in scores.values())  # type: ignore[attr-defined]


def curve_of(plan: DescribedCandidate) -> tuple[CutPlan, ...]:
    curve = plan.consequences.get("evenness_by_bytes", ())
    assert isinstance(curve, tuple)
    return curve


def test_the_curve_rises_in_bytes_from_now_to_the_plan_with_6_to_10_points() -> None:
    plan = propose(uneven(), "balanced")
    curve = curve_of(plan)
    assert 6 <= len(curve) <= 10
    assert all(one.bytes < other.bytes for one, other in pairwise(curve))
    assert curve[0] == CutPlan(0, pytest.approx(off(plan.scores_before), abs=2e-6))  # type: ignore[arg-type]
    assert curve[-1] == CutPlan(plan.copied_bytes, pytest.approx(off(plan.scores_after), abs=2e-6))  # type: ignore[arg-type]
    assert curve[len(curve) // 2].off < curve[0].off, "half the bytes already even out"


def test_the_worst_broker_gives_first() -> None:
    # Broker 1 has eight partitions, 2 has six, 3 and 4 have three. The plan makes it five each.
    lists = [[1]] * 8 + [[2]] * 6 + [[3]] * 3 + [[4]] * 3
    problem = problem_of(broker_rows(range(1, 5)), partition_rows(lists, size=100))
    after = problem.replicas.copy()
    after[[0, 1], 0], after[[2, 8], 0] = 2, 3
    level = all_loads(problem, after, after[:, 0])
    curve = evenness_by_bytes(problem, after, after[:, 0], band(level, 0.0))
    assert [(one.bytes, one.off) for one in curve] == [(0, 0.6), (100, 0.4), (200, 0.2), (300, 0.2), (400, 0.0)]


def test_a_plan_that_copies_nothing_and_another_candidate_have_no_curve() -> None:
    assert curve_of(propose(uneven(), "leaders_only")) == ()
    assert curve_of(propose(uneven(), "light")) == ()


def test_a_cut_that_would_overfill_a_disk_is_left_out() -> None:
    # Broker 2 takes 900 bytes from broker 1, and gives 800 to broker 3. Its disk holds 1,000.
    rows = partition_rows([[1]] * 9 + [[2]] * 8, size=100)
    disks = {1: 2000, 2: 1000, 3: 2000}
    problem = problem_of(broker_rows(range(1, 4), disk_capacity_bytes=disks), rows, disk_headroom=0.0)
    after = problem.replicas.copy()
    after[:9, 0], after[9:, 0] = 1, 2
    targets = all_loads(problem, after, after[:, 0])
    targets[:, 1] = [0.0, 5000.0, 0.0]  # as if it were best to fill broker 2 first
    curve = evenness_by_bytes(problem, after, after[:, 0], band(targets, 0.0))
    assert curve[-1].bytes == 1700
    assert len(curve) < 9
    assert len(evenness_by_bytes(roomy(problem), after, after[:, 0], band(targets, 0.0))) == 9


def roomy(problem: Problem) -> Problem:
    return replace(problem, disk_capacity=np.full(3, 10_000.0))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_any_plan_has_a_rising_curve_that_ends_where_it_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = [(1 + rng.permutation(6)[: rng.integers(1, 4)]).tolist() for _ in range(20)]
    sizes = rng.integers(0, 1000, 20).tolist()
    problem = problem_of(broker_rows(range(1, 7)), partition_rows(lists, size_bytes=sizes))
    after = problem.replicas.copy()
    for row in np.flatnonzero(rng.random(20) < 0.7):
        count = int((after[row] >= 0).sum())
        after[row, :count] = rng.permutation(6)[:count]
    loads = all_loads(problem, after, after[:, 0])
    curve = evenness_by_bytes(problem, after, after[:, 0], band(loads_now(problem).mean(axis=0) + 0 * loads, 0.1))
    assert all(one.bytes < other.bytes for one, other in pairwise(curve))
    assert len(curve) <= 10
    if curve:
        assert curve[0].bytes == 0
