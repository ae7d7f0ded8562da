"""Several searches of one candidate and several candidates of one run: which are kept, and which are offered first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.planning.describe.described_candidate import Placed, Plan
from kafka_rebalance.planning.evenness.scores import Score
from kafka_rebalance.planning.rules.goals import GIVEN

_ROUNDING = 1e-6


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
    return float(copied_bytes(plan)), imbalance(plan), float(new_leaders(plan))


def copied_bytes(plan: Plan) -> int:
    """What the plan copies."""
    return int(plan.candidate.summary["moved_bytes"] or 0)


def new_leaders(plan: Plan) -> int:
    """Partitions whose preferred leader the plan changes."""
    return int(plan.candidate.summary["leader_changes"] or 0)


def imbalance(plan: Plan, *, before: bool = False) -> float:
    """How far highest and lowest broker are apart, summed over the metrics."""
    found = plan.scores_before if before else plan.scores_after
    return round(sum(map(_spread, found.values())), 6)


@dataclass(frozen=True, slots=True)
class LessEven:
    """The metric in which a plan's end is most less even than the cluster is."""

    metric: str
    before: Score
    after: Score

    def to_mapping(self) -> dict[str, Any]:
        """`less_even` of a candidate in proposals.json."""
        return {"metric": self.metric} | {
            phase: {"lowest": score.min_over_mean, "highest": score.max_over_mean}
            for phase, score in (("before", self.before), ("after", self.after))
        }


def less_even(plan: Plan) -> LessEven | None:
    """In what a plan ends less even than the cluster is, all metrics together; None where it does not."""
    if not plan.candidate.moves or imbalance(plan) <= imbalance(plan, before=True) + _ROUNDING:
        return None
    before, after = plan.scores_before, plan.scores_after
    metric = max(after, key=lambda one: _spread(after[one]) - _spread(before[one]))
    return LessEven(metric, before[metric], after[metric])


def _spread(score: Score) -> float:
    return score.max_over_mean - score.min_over_mean


def ranking(plans: Sequence[Plan], best: str | None) -> tuple[str, ...]:
    """All candidates, the ones to offer first: `best`, the plan that somebody gave, then what differs.

    Each time the plan of the front that is furthest from those before it, so that any few of them are well spread.
    Behind them what another plan betters, and last what changes nothing.
    """
    moving = [plan for plan in plans if plan.candidate.moves]
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
