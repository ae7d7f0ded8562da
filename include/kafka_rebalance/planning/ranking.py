"""Several candidates of one run: which of them no other betters, and which are offered first."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.model.settings import GIVEN
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate


def front(plans: Sequence[DescribedCandidate]) -> tuple[DescribedCandidate, ...]:
    """The plans that no other betters: as few bytes, as even, with as few new leaders, and in one of them better."""
    return tuple(plan for plan in plans if not any(_betters(other, plan) for other in plans))


def _betters(one: DescribedCandidate, other: DescribedCandidate) -> bool:
    ours, theirs = _figures(one), _figures(other)
    return ours != theirs and all(mine <= yours for mine, yours in zip(ours, theirs, strict=True))


def _figures(plan: DescribedCandidate) -> tuple[float, float, float]:
    """(bytes, imbalance, new leaders) of one plan."""
    return float(plan.copied_bytes), plan.imbalance(), float(plan.new_leaders)


def ranking(plans: Sequence[DescribedCandidate], best: str | None) -> tuple[str, ...]:
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


def _apart(one: DescribedCandidate, other: DescribedCandidate, plans: Sequence[DescribedCandidate]) -> float:
    """How much two plans differ in what `_figures` has, each as a share of the most of all plans."""
    most = [max(values) or 1.0 for values in zip(*map(_figures, plans), strict=True)]
    return sum(abs(a - b) / unit for a, b, unit in zip(_figures(one), _figures(other), most, strict=True))
