"""Which candidate to take unless a person knows better, and why: kinds and figures, for `report` to put into words.

Of the candidates that do the job and end within the tolerance of the settings, it is the one that copies the fewest
bytes, and of equal ones the one with the fewest new leaders.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.documents.proposals import Beside, Furthest, Recommendation, Why
from kafka_rebalance.model.candidate import OFFERED, Status
from kafka_rebalance.model.settings import (
    BALANCED,
    FEWEST_BYTES,
    GIVEN,
    LEADERS_ALONE,
    LEADERS_ONLY,
    LIGHT,
    OPTIMAL,
    REPLACE_LOG_DIR,
    SEARCHED,
    Settings,
)
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.shortfall import Shortfall
from kafka_rebalance.planning.rules.goals import goal_of

# Among equals this order decides. Kafka's own assignment is never recommended.
_PREFERRED = (BALANCED, OPTIMAL, LIGHT, LEADERS_ONLY)
_AS_EVEN = 0.005  # of a share; figures in words hide a smaller difference


def recommend(settings: Settings, plans: Sequence[DescribedCandidate]) -> Recommendation:
    """The candidate to take unless a person knows better.

    A candidate one replica beyond the tolerance comes after those within it.

    A job that names what is to change is done with the fewest bytes, and then with the fewest new
    leaders, where that leaves the cluster as even as it is. What evens the rest out is a further candidate.

    If none ends within the tolerance, it is the nearest one that moves replicas between brokers (jobs `leaders` and
    `elect`: that changes leaders), if it is nearer than the cluster now. Where the job asks for evenness, one that
    changes leaders alone counts too, if it brings the worst broker nearer. None is recommended if the job is impossible
    or done already. The given plan is recommended if ours change nothing, it does the job, and it ends as even as the
    cluster is.
    """
    ours = [plan for plan in plans if plan.candidate.name in SEARCHED]
    moving = [plan for plan in ours if plan.candidate.moves]
    if not moving:
        return _of_given(settings, plans) or Recommendation(None, _why_none(settings, ours), settings.tolerance)
    # The jobs of leaders alone elect leaders or take leadership away, and do not aim at evenness.
    by_name = settings.job in LEADERS_ALONE
    nearer = [plan for plan in moving if by_name or _rank(plan.shortfall_after) < _rank(plan.shortfall_before)]
    met = [plan for plan in nearer if plan.shortfall_after.is_met]
    at_work = [plan for plan in nearer if by_name or any(move.added or move.removed for move in plan.candidate.moves)]
    done = [plan for plan in nearer if plan in met or (plan in at_work and plan.shortfall_after.does_the_job)]
    if settings.prefer == FEWEST_BYTES and done:
        return _recommended(settings, plans, min(done, key=_cost), Why.FEWEST_BYTES)
    if _is_named(settings) and (even := [plan for plan in done if plan.less_even() is None]):
        return _recommended(settings, plans, min(even, key=_cost), Why.JOB_ALONE)
    if within := [plan for plan in met if plan.shortfall_after.is_met_exactly] or met:
        return _recommended(settings, plans, min(within, key=_cost), Why.CHEAPEST)
    if goal_of(settings, LIGHT).balances:
        at_work = [plan for plan in nearer if plan in at_work or _helps_the_worst(plan)]
    if at_work:
        return _recommended(settings, plans, _nearest(settings, at_work), Why.NEAREST)
    return Recommendation(None, _why_none(settings, ours), settings.tolerance)


def _is_named(settings: Settings) -> bool:
    """Whether the job names what is to change, so that evenness is not asked for."""
    named = settings.job in ("drain", "replace", "replication_factor", "repair_racks", REPLACE_LOG_DIR)
    return named or settings.relieve_above is not None


def _nearest(settings: Settings, at_work: Sequence[DescribedCandidate]) -> DescribedCandidate:
    """The nearest one to the tolerance.

    If the job does not ask for evenness, it is another one that does as much of the job, copies no more, and leaves its
    worst broker nearer: the job alone does not pay for what further brokers gain.
    """
    nearest = min(at_work, key=lambda plan: (plan.shortfall_after.distance, _cost(plan)))
    if goal_of(settings, LIGHT).balances:
        return nearest
    reached = nearest.shortfall_after
    better = [
        plan
        for plan in at_work
        if plan.copied_bytes <= nearest.copied_bytes
        and plan.shortfall_after.distance[:2] <= reached.distance[:2]
        and plan.shortfall_after.furthest < reached.furthest - _AS_EVEN
    ]
    return min(better, key=_cost, default=nearest)


def _helps_the_worst(plan: DescribedCandidate) -> bool:
    return plan.shortfall_after.furthest < plan.shortfall_before.furthest - _AS_EVEN


def _rank(reached: Shortfall) -> tuple[int, int, int, float, bool]:
    """How far from the goal: the smaller, the nearer."""
    return *reached.distance, not reached.is_met_exactly


def _cost(plan: DescribedCandidate) -> tuple[int, int, float, int]:
    """Fewest bytes, then fewest new leaders, then evenness."""
    preferred = _PREFERRED.index(plan.candidate.name)
    return plan.copied_bytes, plan.new_leaders, plan.shortfall_after.excess, preferred


def _why_none(settings: Settings, ours: Sequence[DescribedCandidate]) -> Why:
    """New orders of lists only do the jobs `leaders` and `elect`, so they do not show whether another is possible."""
    at_work = [plan for plan in ours if plan.candidate.name != LEADERS_ONLY or settings.job in LEADERS_ALONE]
    if at_work and not any(plan.candidate.status in OFFERED for plan in at_work):
        failed = any(plan.candidate.status == Status.FAILED for plan in at_work)
        return Why.FAILED if failed else Why.NOT_POSSIBLE
    changing = [plan for plan in ours if plan.candidate.moves]
    if changing and all(plan.shortfall_before.is_met for plan in changing):
        return Why.WITHIN_ALREADY
    return Why.NOTHING_NEARER if changing else Why.NOTHING_CHANGES


def _of_given(settings: Settings, plans: Sequence[DescribedCandidate]) -> Recommendation | None:
    """The recommendation if ours change nothing; None if no plan was given."""
    given = next((plan for plan in plans if plan.candidate.name == GIVEN and plan.candidate.moves), None)
    if given is None:
        return None
    before, after = given.shortfall_before, given.shortfall_after
    if given.less_even() is None and not after.undone and after.rack_violations <= before.rack_violations:
        return _recommended(settings, plans, given, Why.GIVEN_ALONE)
    why = Why.GIVEN_FALLS_SHORT if given.less_even() is None else Why.GIVEN_IS_LESS_EVEN
    return Recommendation(None, why, settings.tolerance)


def _recommended(
    settings: Settings, plans: Sequence[DescribedCandidate], chosen: DescribedCandidate, why: Why
) -> Recommendation:
    """The chosen candidate with the next cheaper and the next more even one."""
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
    return None if plan is None else Beside(plan.candidate.name, plan.copied_bytes, plan.shortfall_after.furthest)


# The order in which a run offers its candidates, and those that no other betters.


def front(plans: Sequence[DescribedCandidate]) -> tuple[DescribedCandidate, ...]:
    """The plans that no other betters: none is as good in bytes, evenness and new leaders, and better in one."""
    return tuple(plan for plan in plans if not any(_betters(other, plan) for other in plans))


def _betters(one: DescribedCandidate, other: DescribedCandidate) -> bool:
    ours, theirs = _figures(one), _figures(other)
    return ours != theirs and all(mine <= yours for mine, yours in zip(ours, theirs, strict=True))


def _figures(plan: DescribedCandidate) -> tuple[float, float, float]:
    """(bytes, imbalance, new leaders) of one plan."""
    return float(plan.copied_bytes), plan.imbalance(), float(plan.new_leaders)


def ranking(plans: Sequence[DescribedCandidate], best: str | None) -> tuple[str, ...]:
    """All candidates in the order to offer them: `best`, the given plan, the rest of the front, all others.

    A plan that does not do the job comes after the front of those that do.

    Each next plan of the front is the one furthest from those before it, so that the first few differ well. Plans that
    another one betters come behind, and plans that change nothing come last.
    """
    moving = [plan for plan in plans if plan.candidate.moves]
    doing = [plan for plan in moving if plan.shortfall_after.does_the_job]
    chosen = [plan for name in dict.fromkeys((best, GIVEN)) for plan in moving if plan.candidate.name == name]
    for those in (doing, moving):
        rest = [plan for plan in front(those) if plan not in chosen]
        while rest:
            farthest = max(rest, key=lambda plan: min((_apart(plan, one, moving) for one in chosen), default=0.0))
            chosen.append(farthest)
            rest.remove(farthest)
    chosen += [plan for among in (moving, plans) for plan in among if plan not in chosen]
    return tuple(dict.fromkeys(plan.candidate.name for plan in chosen))


def _apart(one: DescribedCandidate, other: DescribedCandidate, plans: Sequence[DescribedCandidate]) -> float:
    """How much two plans differ in their figures, each as a share of the most of all plans."""
    most = [max(values) or 1.0 for values in zip(*map(_figures, plans), strict=True)]
    return sum(abs(a - b) / unit for a, b, unit in zip(_figures(one), _figures(other), most, strict=True))
