"""Whether a plan can bring brokers of a cluster nearer to a limit: the planner is asked for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kafka_rebalance.model.settings import BALANCED, LEADERS_ONLY, LIGHT, Settings
from kafka_rebalance.planning.candidates import attempted, check_some_stand, propose
from kafka_rebalance.planning.describe.shortfall import asked_cells, held_now
from kafka_rebalance.planning.evenness.scores import ratios
from kafka_rebalance.planning.impossible_requests import check_problem
from kafka_rebalance.planning.problem.arrays import Floats, Problem, replication
from kafka_rebalance.planning.problem.loads import METRICS, loads_now, shares
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import frame_of

_CANDIDATES = (LEADERS_ONLY, LIGHT, BALANCED)  # of a run: a further candidate takes no recommendation away
_MATTERS = 1e-4  # of what brokers are beyond the limit: a smaller part is rounding


@dataclass(frozen=True, slots=True)
class Reachable:
    """How even one metric is against the shares that brokers can reach, and how far these are from their shares."""

    can_help: bool  # a broker is off its reachable share by more than the limit, and the recommended plan helps
    furthest: float  # how far the worst broker is from its reachable share, as a share of it
    forced: float  # how far racks and disks keep a broker from its share of everything, as a share of that


def tolerance_for(limit: float) -> float:
    """The tolerance of a plan for a cluster past this limit: at most half of it, so that the plan lasts for a while."""
    return min(Settings().tolerance, limit / 2)


def can_be_more_even(problem: Problem, metrics: Sequence[str], limit: float) -> Mapping[str, Reachable]:
    """By metric. With pools it is the worst of them.

    It plans as a run would. Raises PlanningError where a run would refuse to plan.
    """
    asked = replace(problem, settings=replace(problem.settings, tolerance=tolerance_for(limit)))
    check_problem(asked)
    helped = _helped(asked, limit)
    return {
        metric: replace(one, can_help=metric in helped and one.furthest > limit)
        for metric, one in _reachable(problem, metrics).items()
    }


def _helped(problem: Problem, limit: float) -> tuple[str, ...]:
    """The metrics in which the recommended plan lessens what brokers are beyond the limit; none without such a plan."""
    plans = [attempted(problem, name, partial(propose, problem, name)) for name in _CANDIDATES]
    check_some_stand(plans)
    chosen = recommend(problem.settings, plans).candidate
    plan = next((plan for plan in plans if plan.candidate.name == chosen), None)
    if plan is None:
        return ()
    share, stays = shares(problem), problem.staying

    def beyond(loads: Floats) -> Floats:
        """[METRICS] Squared, summed over brokers. A load without a share has no figure."""
        off = np.abs(ratios(problem, loads, share)[stays] - 1)
        summed: Floats = np.square(np.maximum(0.0, np.where(np.isfinite(off), off, 0.0) - limit)).sum(axis=0)
        return summed

    before, after = beyond(plan.loads_before), beyond(plan.loads_after)
    return tuple(METRICS[k] for k in np.flatnonzero(after < before * (1 - _MATTERS)).tolist())


def _reachable(problem: Problem, metrics: Sequence[str]) -> dict[str, Reachable]:
    if problem.pools is not None:
        found = [_reachable(part.problem, metrics) for part in parts_of(problem)]
        return {
            metric: Reachable(
                False, max(own[metric].furthest for own in found), max(own[metric].forced for own in found)
            )
            for metric in metrics
        }
    frame = frame_of(problem, goal_of(problem.settings, BALANCED), replication(problem.replicas))
    held, loads = held_now(problem, frame.targets, frame.scale), loads_now(problem)
    cells, forced = asked_cells(problem, held), ratios(problem, held.targets, shares(problem))
    relative = np.divide(loads, held.targets, out=np.ones_like(loads), where=held.targets > 0)

    def furthest(of_share: Floats, k: int) -> float:
        return float(np.abs(of_share[cells[:, k], k] - 1).max(initial=0.0))

    return {
        metric: Reachable(False, furthest(relative, k), furthest(forced, k))
        for metric in metrics
        for k in (METRICS.index(metric),)
    }
