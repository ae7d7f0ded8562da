"""The order in which a run offers its candidates, and those that no other betters."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.model.settings import GIVEN
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate


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

    Each next plan of the front is the one furthest from those before it, so that the first few differ well. Plans that
    another one betters come behind, and plans that change nothing come last.
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
    """How much two plans differ in their figures, each as a share of the most of all plans."""
    most = [max(values) or 1.0 for values in zip(*map(_figures, plans), strict=True)]
    return sum(abs(a - b) / unit for a, b, unit in zip(_figures(one), _figures(other), most, strict=True))
