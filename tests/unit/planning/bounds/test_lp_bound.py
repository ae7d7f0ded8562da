"""The bound of the linear program: below every plan, above the simple bound, and the same from prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.candidate_notes import NoteKind
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.bounds import lp_bound, solver
from kafka_rebalance.planning.bounds.lp_bound import relaxed_bound
from kafka_rebalance.planning.bounds.targets import Bands, band
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.sharper_bound import bound_of, with_sharper_bound
from kafka_rebalance.planning.problem.arrays import Problem, replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import frame_of
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, problem_of

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def bands_about_the_targets(problem: Problem) -> Bands:
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    return band(frame.targets * frame.scale, problem.settings.tolerance)


def aged(brokers: int, partitions: int, seed: int) -> Problem:
    """Three racks, sizes and rates that differ by orders of magnitude, and a tenth of the brokers empty."""
    rng = np.random.default_rng(seed)
    ids = list(range(brokers))
    racks = {broker: f"rack-{broker % 3}" for broker in ids}
    by_rack = [[broker for broker in ids[: brokers * 9 // 10] if broker % 3 == rack] for rack in range(3)]
    lists = [[int(rng.choice(rack)) for rack in by_rack] for _ in range(partitions)]
    rows = partition_rows(lists, bytes_in_per_second=rng.lognormal(0, 2, partitions).tolist())
    for row, size in zip(rows, rng.lognormal(12, 2, partitions), strict=True):
        row["size_bytes"] = int(size)
    return problem_of(broker_rows(ids, racks), rows, tolerance=0.05)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=_SLOW)
@given(st.data(), st.sampled_from(["balance", "drain", "replace", "relieve", "repair_racks"]), clusters())
def test_no_plan_stays_below_the_bound(data: st.DataObject, job: str, cluster: tuple[Rows, Rows]) -> None:
    brokers, partitions = cluster
    asked = data.draw(settings_for(cluster, job))
    try:
        problem = problem_of(brokers, partitions, **asked)
        if data.draw(st.booleans()):  # retention will have taken half: what is copied still counts whole
            problem = replace(problem, rates=replace(problem.rates, lasting_bytes=problem.size_bytes // 2))
        plan = propose(problem, "balanced")
    except PlanningError:
        assume(False)
    assume(plan.candidate.status != "infeasible")
    found = bound_of(problem, plan)
    moved, simple = plan.candidate.summary["moved_bytes"], plan.candidate.summary["moved_bytes_bound"]
    assert moved is not None
    assert simple is not None
    if found is None:  # the program of a pool may have no column, and then the simple bound counts
        assert problem.pools is not None
        assert with_sharper_bound(problem, plan).candidate.summary["moved_bytes_bound"] == simple
        return
    assert found.bytes <= moved
    assert found.bytes <= found.reachable + 1
    # Where the program has no plan, not even a fractional one, its prices may prove less: the larger bound counts.
    assert found.bytes >= simple * (1 - 1e-6) - 1 or found.reachable == np.inf
    sharper = with_sharper_bound(problem, plan).candidate
    assert simple <= (sharper.summary["moved_bytes_bound"] or 0) <= moved
    assert sharper.digest == plan.candidate.digest


def test_an_empty_broker_needs_its_share_in_whole_replicas_of_the_right_weight() -> None:
    # Broker 3 needs 2 of 6 replicas within 0 %: the two smallest that leave brokers 1 and 2 balanced in bytes as well.
    sizes = [100, 200, 300, 100, 200, 300]
    rows = partition_rows([[1], [1], [1], [2], [2], [2]])
    for row, size in zip(rows, sizes, strict=True):
        row["size_bytes"] = size
    problem = problem_of(broker_rows([1, 2, 3]), rows, tolerance=0.01)
    found = relaxed_bound(problem, bands_about_the_targets(problem), np.ones(6, dtype=bool))
    assert found is not None
    assert found.bytes == pytest.approx(400 * 0.99, abs=1)


def test_replicas_that_share_a_rack_have_to_part() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    problem = problem_of(broker_rows([1, 2, 3, 4], racks), partition_rows([[1, 2], [3, 4]]), tolerance=0.1)
    wide = Bands(np.zeros((4, 3)), np.full((4, 3), 1e9))
    found = relaxed_bound(problem, wide, np.array([True, True]))
    assert found is not None
    assert found.bytes >= 1999
    found = relaxed_bound(problem, wide, np.array([True, False]))
    assert found is not None
    assert 999 <= found.bytes <= 1000


def test_more_replicas_than_racks_may_share_one_when_the_dead_broker_that_has_none_is_emptied() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    brokers = broker_rows([1, 2, 3, 4, 9], racks, state={9: "drain"})
    problem = problem_of(brokers, partition_rows([[1, 2, 9, 3]]), tolerance=0.1)
    found = relaxed_bound(problem, Bands(np.zeros((5, 3)), np.full((5, 3), 1e9)), np.array([True]))
    assert found is None or found.bytes <= 1000, "the copy of broker 9 to broker 4 is enough"


@pytest.mark.parametrize("seed", [1, 2])
def test_prices_from_coarse_cells_prove_nearly_as_much_and_never_more(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = aged(20, 1500, seed)
    bands, sound = bands_about_the_targets(problem), np.ones(1500, dtype=bool)
    exact = relaxed_bound(problem, bands, sound)
    monkeypatch.setattr(lp_bound, "_CELLS", 0)
    coarse = relaxed_bound(problem, bands, sound)
    assert exact is not None
    assert coarse is not None
    assert exact.reachable - exact.bytes <= 1e-4 * exact.reachable + 1
    assert coarse.columns < exact.columns / 2
    assert coarse.bytes <= exact.reachable
    assert coarse.bytes >= 0.995 * exact.bytes


def test_any_prices_prove_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = aged(10, 200, 3)
    bands, sound = bands_about_the_targets(problem), np.ones(200, dtype=bool)
    exact = relaxed_bound(problem, bands, sound)
    solve, rng = lp_bound._solve, np.random.default_rng(7)

    def wrong(*given: object) -> tuple[float, np.ndarray]:  # type: ignore[type-arg]
        cost, prices = solve(*given)  # type: ignore[arg-type]
        return cost, prices * rng.uniform(-0.5, 2, len(prices))

    monkeypatch.setattr(lp_bound, "_solve", wrong)
    assert exact is not None
    for _ in range(20):
        found = relaxed_bound(problem, bands, sound)
        assert found is not None
        assert found.bytes <= exact.reachable


@pytest.mark.slow
def test_without_the_solver_the_simple_bound_stays_and_the_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = aged(10, 60, 1)
    plan = propose(problem, "balanced")
    monkeypatch.setattr(solver, "available", lambda: False)
    without = with_sharper_bound(problem, plan)
    assert without.candidate.summary == plan.candidate.summary
    assert without.notes[-1].kind is NoteKind.SIMPLE_BOUND
