"""The linear program's bound on the bytes of a finished plan. The driver computes it once for every plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.settings import SEARCHED
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.bands import Bands, band
from kafka_rebalance.planning.bounds.lp_bound import Relaxation, relaxed_bound
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, among, replication
from kafka_rebalance.planning.problem.loads import LEADERS, replica_loads, replica_weights
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.rack_rule import rack_rule, violations
from kafka_rebalance.planning.search.frame import frame_of


def with_sharper_bound(problem: Problem, plan: DescribedCandidate) -> DescribedCandidate:
    """The plan with the better of the two bounds. No plan that ends as even as this one copies fewer bytes."""
    if not _bounded(problem, plan):
        return plan
    candidate = plan.candidate
    if not solver.available():
        note = f"{candidate.note} The bound on bytes is the simple one: highspy is not installed.".lstrip()
        return replace(plan, candidate=replace(candidate, note=note))
    found = bound_of(problem, plan)
    simple = candidate.summary["moved_bytes_bound"] or 0
    if found is None or found.bytes <= simple:
        return plan
    return replace(plan, candidate=replace(candidate, summary={**candidate.summary, "moved_bytes_bound": found.bytes}))


def bound_of(problem: Problem, plan: DescribedCandidate) -> Relaxation | None:
    """The program's bound for ends within the tolerance; a broker beyond it may be as far off as in this plan.

    With pools, the sum of the bounds of all pools.
    """
    if problem.pools is None:
        return _bound(problem, plan, plan.loads_after[:, :LEADERS], _sound(problem, plan))
    bounds = []
    for part in parts_of(problem):
        pool = part.problem
        lists = _lists_after(pool, plan, np.arange(len(part.rows)))
        enters = strays(pool, pool.replicas) & ~among(pool.replicas, lists)
        loads = replica_loads(lists, replica_weights(pool), len(pool.brokers))
        bounds.append(_bound(pool, plan, loads, _sound(pool, plan), enters))
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    fewest, reachable, columns = zip(*((bound.bytes, bound.reachable, bound.columns) for bound in known), strict=True)
    return Relaxation(sum(fewest), sum(reachable), max(columns))


def _bound(
    problem: Problem, plan: DescribedCandidate, reached: Floats, sound: Bools, enters: Bools | None = None
) -> Relaxation | None:
    """`reached` are the loads after; `sound` and `enters` are as of `relaxed_bound`."""
    goal = goal_of(problem.settings, plan.candidate.name)
    frame = frame_of(problem, goal, replication(problem.replicas))
    asked = band(frame.targets, goal.tolerance)
    if frame.relief is not None:
        asked = Bands(np.zeros_like(asked.low), frame.relief.high)
    met = Bands(np.minimum(asked.low * frame.scale, reached), np.maximum(asked.high * frame.scale, reached))
    return relaxed_bound(problem, met, sound, enters)


def _bounded(problem: Problem, plan: DescribedCandidate) -> bool:
    """Whether the program may improve the simple bound: the plan is searched, balances and copies something."""
    candidate, settings = plan.candidate, problem.settings
    searched = candidate.name in SEARCHED and candidate.status != Status.INFEASIBLE
    same_factor = settings.replication_factor is None
    copies = bool(candidate.summary["moved_bytes"])
    return searched and same_factor and copies and goal_of(settings, candidate.name).balances


def _sound(problem: Problem, plan: DescribedCandidate) -> Bools:
    """[partition row] Whether the partition keeps the rack rule after the plan."""
    rule = rack_rule(problem)
    broken = np.flatnonzero(violations(rule, problem.replicas))
    sound = np.ones(len(problem.partition), dtype=bool)
    sound[broken] = ~violations(rule, _lists_after(problem, plan, broken))
    return sound


def _lists_after(problem: Problem, plan: DescribedCandidate, rows: Ints) -> Ints:
    """[row, position] The lists of these rows after a plan that keeps the number of replicas."""
    after = {move.topic_partition: move.after for move in plan.candidate.moves}
    lists = problem.replicas[rows].copy()
    for number, row in enumerate(rows):
        now = after.get(problem.name_of(row))
        if now is not None:
            lists[number, : len(now)] = np.searchsorted(problem.brokers, now)
    return lists
