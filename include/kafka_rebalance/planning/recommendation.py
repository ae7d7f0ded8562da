"""Which candidate to take unless a person knows better, and why: kinds and figures, of which `report` makes sentences.

Of the candidates that do the job and end within the tolerance that was asked for, the one that copies the fewest bytes,
of equal ones that with the fewest new leaders.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.documents.proposals.recommendation import Beside, Furthest, Recommendation, Why
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.settings import (
    BALANCED,
    FEWEST_BYTES,
    GIVEN,
    LEADERS_ALONE,
    LEADERS_ONLY,
    LIGHT,
    OPTIMAL,
    SEARCHED,
    Settings,
)
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.shortfall import Shortfall

# Of equal merit, what was asked for comes first; Kafka's own assignment is never recommended.
_PREFERRED = (BALANCED, OPTIMAL, LIGHT, LEADERS_ONLY)
_AS_EVEN = 0.005  # of a share: less is no difference on paper


def recommend(settings: Settings, plans: Sequence[DescribedCandidate]) -> Recommendation:
    """The candidate to take unless a person knows better.

    Which is one replica beyond the tolerance comes after what is not: then there is a finer plan.

    Where none ends within the tolerance: the one nearest to it that changes which brokers hold what (jobs `leaders` and
    `elect`: who leads), if it is nearer than the cluster is now. Nobody where the job cannot be done, or is
    done already. A plan that somebody gave is recommended where ours change nothing, it does the job, and it ends as
    even as the cluster is.
    """
    ours = [plan for plan in plans if plan.candidate.name in SEARCHED]
    moving = [plan for plan in ours if plan.candidate.moves]
    if not moving:
        return _of_given(settings, plans) or Recommendation(None, _why_none(settings, ours), settings.tolerance)
    # Jobs of leaders alone are asked for by name: to elect, or to take leadership away, is no matter of evenness.
    by_name = settings.job in LEADERS_ALONE
    nearer = [plan for plan in moving if by_name or _rank(plan.shortfall_after) < _rank(plan.shortfall_before)]
    met = [plan for plan in nearer if plan.shortfall_after.is_met]
    at_work = [plan for plan in nearer if by_name or _does_more_than_reorder(plan)]
    if settings.prefer == FEWEST_BYTES:
        done = [plan for plan in nearer if plan in met or (plan in at_work and plan.shortfall_after.does_the_job)]
        if done:
            return _recommended(settings, plans, min(done, key=_cost), Why.FEWEST_BYTES)
    if within := [plan for plan in met if plan.shortfall_after.is_met_exactly] or met:
        return _recommended(settings, plans, min(within, key=_cost), Why.CHEAPEST)
    if at_work:
        nearest = min(at_work, key=lambda plan: (plan.shortfall_after.distance, _cost(plan)))
        return _recommended(settings, plans, nearest, Why.NEAREST)
    return Recommendation(None, _why_none(settings, ours), settings.tolerance)


def _rank(reached: Shortfall) -> tuple[int, int, float, bool]:
    """How far from the goal: the smaller, the nearer."""
    return *reached.distance, not reached.is_met_exactly


def _cost(plan: DescribedCandidate) -> tuple[int, int, float, int]:
    """Fewest bytes, then fewest new leaders."""
    preferred = _PREFERRED.index(plan.candidate.name)
    return plan.copied_bytes, plan.new_leaders, plan.shortfall_after.excess, preferred


def _does_more_than_reorder(plan: DescribedCandidate) -> bool:
    """Whether a broker gains or loses a replica."""
    return any(set(move.before) != set(move.after) for move in plan.candidate.moves)


def _why_none(settings: Settings, ours: Sequence[DescribedCandidate]) -> Why:
    """Re-ordered lists do no job but `leaders` and `elect`, so they say nothing on whether it can be done."""
    at_work = [plan for plan in ours if plan.candidate.name != LEADERS_ONLY or settings.job in LEADERS_ALONE]
    if at_work and all(plan.candidate.status == Status.INFEASIBLE for plan in at_work):
        return Why.NOT_POSSIBLE
    changing = [plan for plan in ours if plan.candidate.moves]
    if changing and all(plan.shortfall_before.is_met for plan in changing):
        return Why.WITHIN_ALREADY
    return Why.NOTHING_NEARER if changing else Why.NOTHING_CHANGES


def _of_given(settings: Settings, plans: Sequence[DescribedCandidate]) -> Recommendation | None:
    """What becomes of the given plan where ours change nothing; None where there is none."""
    given = next((plan for plan in plans if plan.candidate.name == GIVEN and plan.candidate.moves), None)
    if given is None:
        return None
    before, after = given.shortfall_before, given.shortfall_after
    if given.less_even() is not None:
        return Recommendation(None, Why.GIVEN_IS_LESS_EVEN, settings.tolerance)
    if after.undone or after.rack_violations > before.rack_violations:
        return Recommendation(None, Why.GIVEN_FALLS_SHORT, settings.tolerance)
    return _recommended(settings, plans, given, Why.GIVEN_ALONE)


def _recommended(
    settings: Settings, plans: Sequence[DescribedCandidate], chosen: DescribedCandidate, why: Why
) -> Recommendation:
    """With the next cheaper and the next more even candidate beside it."""
    after, bytes_ = chosen.shortfall_after, chosen.copied_bytes
    beside = [plan for plan in plans if plan.candidate.moves and plan is not chosen]
    cheaper = [plan for plan in beside if plan.copied_bytes < bytes_]
    evener = [plan for plan in beside if plan.shortfall_after.furthest < after.furthest - _AS_EVEN]
    return Recommendation(
        chosen.candidate.name,
        why,
        settings.tolerance,
        Furthest(chosen.shortfall_before.furthest, after.furthest),
        after.undone,
        after.rack_violations,
        _beside(max(cheaper, key=lambda plan: (plan.copied_bytes, -plan.shortfall_after.furthest), default=None)),
        _beside(max(evener, key=lambda plan: (plan.shortfall_after.furthest, -plan.copied_bytes), default=None)),
    )


def _beside(plan: DescribedCandidate | None) -> Beside | None:
    if plan is None:
        return None
    return Beside(plan.candidate.name, plan.copied_bytes, plan.shortfall_after.furthest)
