"""How balanced an assignment is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import METRICS, Bools, Floats, Problem, known_metrics


@dataclass(frozen=True, slots=True)
class Score:
    """One metric over the brokers that stay, as multiples of the share each should carry. 1, 1, 0 is even."""

    max_over_mean: float
    min_over_mean: float
    cv: float


def ratios(loads: Floats, shares: Floats) -> Floats:
    """[broker, metric] Load over the share of the whole that the broker should carry; 1 where there is no load."""
    mean = shares * loads.sum(axis=0)
    relative: Floats = np.divide(loads, mean, out=np.where(loads > 0, np.inf, 1.0), where=mean > 0)
    return relative


def scores(problem: Problem, loads: Floats, shares: Floats) -> dict[str, Score]:
    """The scores of every metric that is known, in the order of METRICS."""
    known = known_metrics(problem)
    relative = ratios(loads, shares)[problem.staying]
    return {
        metric: Score(
            round(float(relative[:, k].max()), 6),
            round(float(relative[:, k].min()), 6),
            round(float(relative[:, k].std()), 6),
        )
        for k, metric in enumerate(METRICS)
        if metric in known
    }


def outside_band(loads: Floats, targets: Floats, heaviest: Floats, tolerance: float, receivers: Bools) -> Bools:
    """[broker, resource] Whether a load lies outside the tolerance, and by more than moving one replica could mend.

    `heaviest` is [resource], the heaviest single replica or leader: with few or huge partitions no plan is finer.
    """
    slack = np.maximum(targets * tolerance, np.minimum(heaviest, targets.max(axis=0, initial=0.0)))
    # The search stops a hair outside: 1/10,000 of the target is no imbalance.
    off: Bools = np.abs(loads - targets) > slack + 1e-4 * targets
    return off & receivers[:, None]
