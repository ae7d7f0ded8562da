"""Candidate `optimal` against every assignment there is, and what it says where it cannot prove one."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.targets import band
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.sharper_bound import with_sharper_bounds
from kafka_rebalance.planning.planner import offered
from kafka_rebalance.planning.problem.arrays import Problem, replica_loads, replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search import optimal
from kafka_rebalance.planning.search.frame import frame_of
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.plan_verifier import verify
from support.plans.rack_rule import rack_rule_problem
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@st.composite
def tiny_clusters(draw: st.DrawFn) -> tuple[Rows, Rows, dict[str, Any]]:
    """2 to 4 brokers and up to 5 partitions: few enough to try every assignment."""
    ids = list(range(1, draw(st.integers(2, 4)) + 1))
    names = draw(st.sampled_from([("a", "b"), ("a", "b", "c"), ("a",)]))
    racks = {broker: names[broker % len(names)] for broker in ids}
    brokers = broker_rows(ids, draw(st.sampled_from([racks, {}])))
    rows: Rows = []
    asked: dict[str, Any] = {"tolerance": draw(st.sampled_from([0.1, 0.3, 0.6]))}
    asked["more_replicas_than_racks"] = draw(st.sampled_from([False, False, True]))
    longest = 3 if asked["more_replicas_than_racks"] else 2
    for number in range(draw(st.integers(1, 5))):
        replicas = draw(st.lists(st.sampled_from(ids[:3]), min_size=1, max_size=longest, unique=True))
        row = {
            "topic": "orders",
            "partition": number,
            "replicas": replicas,
            "size_bytes": draw(st.integers(0, 9)) * 100,
        }
        row["excluded"] = draw(st.sampled_from([False, False, False, True]))
        rows.append(row)
    asked["brokers_out"] = draw(st.sampled_from([[], [], [1]]))
    may_receive = [broker for broker in ids if broker not in asked["brokers_out"]]
    some = [] if longest > 2 else may_receive
    asked["brokers_in"] = draw(
        st.just([]) | st.lists(st.sampled_from(some or [0]), max_size=2 * bool(some), unique=True)
    )
    return brokers, rows, asked


def fewest_by_trying_all(problem: Problem) -> int | None:
    """The fewest bytes of any assignment within the tolerance; None where there is none."""
    frame = frame_of(problem, goal_of(problem.settings, "optimal"), replication(problem.replicas))
    bands = band(frame.targets, problem.settings.tolerance)
    racks = dict(enumerate(problem.racks))
    asked = problem.settings
    may_hold = [n for n, broker in enumerate(problem.brokers.tolist()) if broker not in asked.brokers_out]
    receive = [n for n in may_hold if not asked.brokers_in or problem.brokers[n] in asked.brokers_in]
    choices = []
    for row, movable in zip(problem.replicas, problem.relocatable, strict=True):
        now = [int(broker) for broker in row[row >= 0]]
        stay = [broker for broker in now if not movable or problem.closed[broker]]
        hold = {*receive, *(broker for broker in now if broker in may_hold)} - {*stay}
        lists = [[*stay, *more] for more in combinations(sorted(hold), len(now) - len(stay))]
        share = racks.keys() if asked.more_replicas_than_racks else None
        sound = [after for after in lists if rack_rule_problem(after, racks, share=share) is None]
        if not sound and asked.brokers_in:  # nobody may mend it, so it may stay as broken as it is
            sound = [after for after in lists if len({racks[one] for one in after}) >= len({racks[one] for one in now})]
        choices.append([now] if not movable else sound)
    best = None
    for chosen in product(*choices):
        table = np.full(problem.replicas.shape, -1)
        for number, after in enumerate(chosen):
            table[number, : len(after)] = after
        loads = replica_loads(table, frame.weights, len(racks))[may_hold]
        new = (table >= 0) & ~(table[:, :, None] == problem.replicas[:, None, :]).any(axis=2)
        inside = (loads >= bands.low[may_hold] - 1e-9) & (loads <= bands.high[may_hold] + 1e-9)
        if inside.all():
            cost = int((new.sum(axis=1) * problem.size_bytes).sum())
            best = cost if best is None else min(best, cost)
    return best


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=_SLOW)
@given(tiny_clusters())
def test_no_assignment_within_the_tolerance_copies_fewer_bytes(drawn: tuple[Rows, Rows, dict[str, Any]]) -> None:
    brokers, rows, asked = drawn
    if all(row["excluded"] for row in rows):
        return
    problem = problem_of(brokers, rows, **asked)
    if not optimal.applies(problem):
        return
    plan = propose(problem, "optimal")
    verify(plan, problem.snapshot_digest, brokers, rows, Settings.from_mapping(asked))
    fewest = fewest_by_trying_all(problem)
    if fewest is None:
        assert "proven: no plan within" not in plan.note or "or one replica" in plan.note
    else:
        moved = plan.candidate.summary["moved_bytes"]
        assert moved is not None
        assert fewest <= moved <= fewest * 1.001 + 1
        # Or balanced is beyond the tolerance, by one replica at most, and copies fewer.
        assert plan.note.removeprefix("Proven: ").lower().startswith("no plan within"), plan.note
        for told in with_sharper_bounds(problem, (plan, propose(problem, "balanced"))):
            bound = told.candidate.summary["moved_bytes_bound"]
            assert bound is not None
            assert bound <= fewest
            if plan.least_bytes is not None and told.candidate.name == "optimal":
                copies = 1e-5 * (problem.replicas >= 0).sum() * max(1, problem.size_bytes[problem.relocatable].mean())
                assert bound >= 0.998 * fewest - copies - 2, "to the solver's gap and the small cost of each copy"


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=_SLOW)
@given(st.data(), st.sampled_from(["balance", "drain", "repair_racks"]), clusters())
def test_the_optimum_keeps_every_promise_and_copies_no_more_than_a_search(
    data: st.DataObject, job: str, cluster: tuple[Rows, Rows]
) -> None:
    brokers, rows = cluster
    asked = data.draw(settings_for(cluster, job))
    try:
        problem = problem_of(brokers, rows, **asked)
        balanced = propose(problem, "balanced")
    except PlanningError:
        return
    plan = propose(problem, "optimal")
    verify(plan, problem.snapshot_digest, brokers, rows, Settings.from_mapping(asked))
    told, beside = with_sharper_bounds(problem, (plan, balanced))
    assert (beside.candidate.summary["moved_bytes_bound"] or 0) <= (beside.candidate.summary["moved_bytes"] or 0)
    sharper = told.candidate
    moved, searched = sharper.summary["moved_bytes"], balanced.candidate.summary["moved_bytes"]
    bound = sharper.summary["moved_bytes_bound"]
    assert moved is not None
    assert searched is not None
    assert bound is not None
    assert bound <= moved
    if "Proven: no plan within" in plan.note and "or one replica" not in plan.note:
        goal = goal_of(problem.settings, "optimal")
        frame = frame_of(problem, goal, replication(problem.replicas))
        bands, loads = band(frame.targets * frame.scale, goal.tolerance), balanced.loads_after[:, :3]
        inside = ((loads >= bands.low * (1 - 1e-9)) & (loads <= bands.high * (1 + 1e-9)))[problem.evened].all()
        copies = len(rows) * 8  # each with its small cost besides bytes
        assert not inside or balanced.candidate.summary["rack_violations"] or moved <= 1.001 * searched + copies


def test_the_smallest_replicas_that_balance_are_the_ones_that_move() -> None:
    rows = partition_rows([[1], [1], [1], [2], [2], [2]])
    for row, size in zip(rows, [100, 200, 300, 100, 200, 300], strict=True):
        row["size_bytes"] = size
    plan = plan_of(broker_rows([1, 2, 3]), rows, "optimal", tolerance=0.05)
    assert plan.candidate.summary["moved_bytes"] == 400
    assert plan.note.startswith("Proven")
    assert plan.consequences["is_proven"]
    assert plan.shortfall_after.is_met


def test_a_drained_broker_is_empty_and_racks_are_repaired() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "a"}
    rows = partition_rows([[1, 3], [2, 4], [1, 4], [2, 3], [1, 2], [5, 3]])
    plan = plan_of(broker_rows(racks, racks), rows, "optimal", job="drain", drain=[5], tolerance=0.5)
    after = lists_after(plan, rows)
    assert not any(5 in replicas for replicas in after.values())
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in after.values())
    assert plan.candidate.summary["rack_violations"] == 0


def test_where_no_plan_is_within_one_replica_none_is_offered() -> None:
    rows = partition_rows([[1], [1], [1], [1]])
    plan = plan_of(broker_rows([1, 2]), rows, "optimal", tolerance=0.1, max_bytes=0)
    assert plan.candidate.status == "infeasible"
    assert not plan.candidate.moves
    assert "of every share exists" in plan.note


def test_a_partition_heavier_than_the_band_may_lie_one_replica_beyond_it() -> None:
    rows = partition_rows([[1], [1], [1]])
    plan = plan_of(broker_rows([1, 2]), rows, "optimal", tolerance=0.1)
    assert plan.candidate.summary["moved_replicas"] == 1
    assert plan.note.startswith("Proven: no plan within 10 % or one replica")
    assert plan.shortfall_after.is_met


@pytest.mark.slow
def test_what_the_solver_ran_out_of_nodes_for_is_not_called_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = partition_rows([[1 + number % 2] for number in range(60)])
    for row, size in zip(rows, rng.lognormal(8, 1, 60), strict=True):
        row["size_bytes"] = int(size)
    problem = problem_of(broker_rows([1, 2, 3, 4]), rows, tolerance=0.005)
    monkeypatch.setattr(optimal, "EFFORT", {**optimal.EFFORT, "mip_rel_gap": 0.0})
    monkeypatch.setattr(optimal, "_WORK", 0)
    plan = propose(problem, "optimal")
    assert "not proven" in plan.note
    assert "is_proven" not in plan.consequences
    assert "fewer bytes" in plan.note
    assert plan.candidate.moves


def test_it_is_offered_where_it_can_be_solved_only(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, rows = broker_rows([1, 2, 3]), partition_rows([[1, 2], [2, 1]])
    assert "optimal" in offered(problem_of(brokers, rows))
    for asked in (
        {"job": "relieve"},
        {"replication_factor": 1, "job": "replication_factor"},
        {"max_leader_changes": 1},
    ):
        assert "optimal" not in offered(problem_of(brokers, rows, **asked))
    assert "optimal" not in offered(problem_of(brokers, partition_rows([[1, 2]] * 1400)))
    monkeypatch.setattr(solver, "available", lambda: False)
    assert "optimal" not in offered(problem_of(brokers, rows))
    alone = problem_of(brokers, rows, candidates=["optimal"])
    assert offered(alone) == ("optimal",)
    plan = propose(alone, "optimal")
    assert plan.candidate.status == "infeasible"
    assert "needs highspy" in plan.note


def test_leaders_that_miss_their_band_are_no_part_of_what_is_proven() -> None:
    rates: dict[str, Any] = {"bytes_out_per_second": [9.0] * 20 + [1.0] * 20}
    rows = partition_rows([[1, 2], [2, 1]] * 10 + [[3, 4], [4, 3]] * 10, **rates)
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, "optimal", tolerance=0.05)
    assert plan.candidate.status == "partial"
    assert plan.note.startswith(
        "Proven: no plan within 5 % in all but leaders saves more than a thousandth of these bytes"
    )
    assert "leaders are placed afterwards" in plan.note
    assert "leader_bytes_out" in plan.note
