"""The sharpest bound on the bytes of finished plans: the simple one, the linear program's, or that of `optimal`.

The linear program lets replicas leave in fractions. The program of candidate `optimal` sees whole replicas, and has a
bound even where its time is over. So both tell more of a small cluster. The driver computes this once for all plans.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kafka_rebalance.documents.candidate_notes import NoteKind, note
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.model.settings import BALANCED, OPTIMAL, SEARCHED
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.lp_bound import Relaxation, relaxed_bound
from kafka_rebalance.planning.bounds.targets import Bands, band
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.problem.arrays import (
    LEADERS,
    Ints,
    Problem,
    among,
    moved_lists,
    replica_loads,
    replica_weights,
    replication,
    rows_of,
)
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.rack_rule import rack_rule, violations
from kafka_rebalance.planning.search.frame import frame_of

log = logging.getLogger(__name__)

_ROUNDING = 1e-9  # of a load


def with_sharper_bounds(problem: Problem, plans: Sequence[DescribedCandidate]) -> tuple[DescribedCandidate, ...]:
    """The plans of one problem, each with the best of its bounds. No plan that ends as even copies fewer bytes."""
    optimum = next((plan for plan in plans if plan.least_bytes is not None), None)
    return tuple(with_sharper_bound(problem, plan, optimum) for plan in plans)


def with_sharper_bound(
    problem: Problem, plan: DescribedCandidate, optimum: DescribedCandidate | None = None
) -> DescribedCandidate:
    """The plan with the best of its bounds. `optimum` is a candidate `optimal` of the problem that proves one."""
    if not _bounded(problem, plan):
        return plan
    candidate = plan.candidate
    if not solver.available():
        return replace(plan, notes=(*plan.notes, note(NoteKind.SIMPLE_BOUND)))
    try:
        found = bound_of(problem, plan)
    except solver.SolverError as refused:  # a bound is no reason to lose the plan
        log.warning("candidate %s keeps its simple bound: %s", candidate.name, refused)
        return plan
    simple = candidate.summary["moved_bytes_bound"] or 0
    best = max(simple, 0 if found is None else found.bytes)
    if optimum is not None and _is_of_its_kind(problem, plan, optimum):
        best = max(best, optimum.least_bytes or 0)
    if best <= simple:
        return plan
    return replace(plan, candidate=replace(candidate, summary={**candidate.summary, "moved_bytes_bound": best}))


def bound_of(problem: Problem, plan: DescribedCandidate) -> Relaxation | None:
    """The program's bound for ends within the tolerance; a broker beyond it may be as far off as in this plan.

    With pools, the sum of the bounds of all pools.
    """
    after = _lists_after(problem, plan)
    bounds = [_bound(part.problem, plan, after[part.rows]) for part in parts_of(problem)]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    fewest, reachable, columns = zip(*((bound.bytes, bound.reachable, bound.columns) for bound in known), strict=True)
    return Relaxation(sum(fewest), sum(reachable), max(columns))


def _bound(problem: Problem, plan: DescribedCandidate, after: Ints) -> Relaxation | None:
    """`after` is [partition row, position], the lists after the plan."""
    reached = replica_loads(after, replica_weights(problem), len(problem.brokers))
    enters = strays(problem, problem.replicas) & ~among(problem.replicas, after)
    rule = rack_rule(problem)
    sound = ~(violations(rule, problem.replicas) & violations(rule, after))
    goal = goal_of(problem.settings, plan.candidate.name)
    frame = frame_of(problem, goal, replication(problem.replicas))
    asked = band(frame.targets, goal.tolerance)
    if frame.relief is not None:
        asked = Bands(np.zeros_like(asked.low), frame.relief.high)
    met = Bands(np.minimum(asked.low * frame.scale, reached), np.maximum(asked.high * frame.scale, reached))
    return relaxed_bound(problem, met, sound, enters)


def _is_of_its_kind(problem: Problem, plan: DescribedCandidate, optimum: DescribedCandidate) -> bool:
    """Whether the plan is one of those that the optimum was compared with: within the tolerance and the rack rule."""
    if plan.candidate.name not in (BALANCED, OPTIMAL):
        return False
    frame = frame_of(problem, goal_of(problem.settings, OPTIMAL), replication(problem.replicas))
    asked, reached = band(frame.targets * frame.scale, problem.settings.tolerance), plan.loads_after[:, :LEADERS]
    low, high = asked.low * (1 - _ROUNDING), asked.high * (1 + _ROUNDING)
    inside = ((reached >= low) & (reached <= high))[problem.evened]
    broken, least = (one.candidate.summary["rack_violations"] or 0 for one in (plan, optimum))
    return bool(inside.all()) and broken <= least


def _bounded(problem: Problem, plan: DescribedCandidate) -> bool:
    """Whether the program may improve the simple bound: the plan is searched, balances and copies something."""
    candidate, settings = plan.candidate, problem.settings
    searched = candidate.name in SEARCHED and candidate.status in OFFERED
    same_factor = settings.replication_factor is None
    copies = bool(candidate.summary["moved_bytes"])
    return searched and same_factor and copies and goal_of(settings, candidate.name).balances


def _lists_after(problem: Problem, plan: DescribedCandidate) -> Ints:
    """[partition row, position] The lists after a plan that keeps the number of replicas."""
    moves, lists = plan.candidate.moves, problem.replicas.copy()
    after = moved_lists(problem, moves).after
    lists[rows_of(problem, moves), : after.shape[1]] = after
    return lists
