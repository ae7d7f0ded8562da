"""Several searches of one candidate and several candidates of one run: which are kept, and which is recommended."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.planning.jobs import GIVEN
from kafka_rebalance.planning.outcome import Placed, Plan

# Of equal merit, what was asked for comes first; Kafka's own assignment is never recommended.
_PREFERRED = ("balanced", "optimal", "light", "leaders_only")
_CLEAR = 0.05  # of both axes: a smaller lead is no knee


def best_of(trials: Sequence[Placed | Plan]) -> Placed | Plan:
    """The search that ended nearest to balance, of equal ones that with fewest bytes, then with fewest new leaders."""
    found = [trial for trial in trials if isinstance(trial, Placed)]
    if not found:
        return trials[0]
    return min(found, key=lambda trial: (trial.off, trial.budget.bytes, trial.budget.leader_changes))


def front(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The plans that no other betters: as few bytes, as even, with as few new leaders, and in one of them better."""
    return tuple(plan for plan in plans if not any(_betters(other, plan) for other in plans))


def _betters(one: Plan, other: Plan) -> bool:
    ours, theirs = _figures(one), _figures(other)
    return ours != theirs and all(mine <= yours for mine, yours in zip(ours, theirs, strict=True))


def _figures(plan: Plan) -> tuple[float, float, float]:
    """(bytes, imbalance, new leaders) of one plan."""
    summary = plan.candidate.summary
    return float(summary["moved_bytes"] or 0), imbalance(plan), float(summary["leader_changes"] or 0)


def imbalance(plan: Plan, *, before: bool = False) -> float:
    """How far highest and lowest broker are apart, summed over the metrics."""
    found = plan.scores_before if before else plan.scores_after
    return round(sum(score.max_over_mean - score.min_over_mean for score in found.values()), 6)


def recommended(plans: Sequence[Plan]) -> str | None:
    """The candidate to take unless a person knows better; None where no candidate changes anything.

    The knee of the front: where more bytes begin to buy little balance. Plans within the tolerance come before all
    others, for that is what was asked. A plan that somebody gave is recommended where nothing of ours changes anything.
    """
    moving = [plan for plan in plans if plan.candidate.moves]
    ours = [plan for plan in moving if plan.candidate.name in _PREFERRED]
    if not ours:
        return next((GIVEN for plan in moving if plan.candidate.name == GIVEN), None)
    asked = [plan for plan in ours if plan.within_tolerance]
    better = [plan for plan in ours if imbalance(plan) < imbalance(plan, before=True)]
    return _knee(front(asked or better or ours))


def ranking(plans: Sequence[Plan]) -> tuple[str, ...]:
    """All candidates, the ones to offer first: the recommended one, the plan that somebody gave, then what differs.

    Each time the plan of the front that is furthest from those before it, so that any few of them are well spread.
    Behind them what another plan betters, and last what changes nothing.
    """
    moving = [plan for plan in plans if plan.candidate.moves]
    best = recommended(plans)
    chosen = [plan for name in dict.fromkeys((best, GIVEN)) for plan in moving if plan.candidate.name == name]
    rest = [plan for plan in front(moving) if plan not in chosen]
    while rest:
        chosen.append(max(rest, key=lambda plan: min((_apart(plan, other, moving) for other in chosen), default=0.0)))
        rest.remove(chosen[-1])
    chosen += [plan for among in (moving, plans) for plan in among if plan not in chosen]
    return tuple(dict.fromkeys(plan.candidate.name for plan in chosen))


def _apart(one: Plan, other: Plan, plans: Sequence[Plan]) -> float:
    """How much two plans differ in what `_figures` has, each as a share of the most of all plans."""
    most = [max(values) or 1.0 for values in zip(*map(_figures, plans), strict=True)]
    return sum(abs(a - b) / unit for a, b, unit in zip(_figures(one), _figures(other), most, strict=True))


def _knee(plans: Sequence[Plan]) -> str:
    """The plan furthest below the line from doing nothing to moving most, both axes scaled to 1."""
    most = max(float(plan.candidate.summary["moved_bytes"] or 0) for plan in plans) or 1.0
    least, worst = min(map(imbalance, plans)), imbalance(plans[0], before=True)
    scale = max(worst - least, 1e-9)

    def below(plan: Plan) -> float:
        saved = 1 - float(plan.candidate.summary["moved_bytes"] or 0) / most
        return saved - (imbalance(plan) - least) / scale

    ordered = sorted(plans, key=lambda plan: _PREFERRED.index(plan.candidate.name))
    chosen = ordered[0]
    for plan in ordered[1:]:
        if below(plan) > below(chosen) + _CLEAR:
            chosen = plan
    return chosen.candidate.name
