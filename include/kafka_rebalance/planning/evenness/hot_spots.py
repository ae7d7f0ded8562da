"""Partitions that alone are more than any broker's share: no move of replicas can mend that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import Floats, Problem
from kafka_rebalance.planning.problem.loads import METRICS, leader_weights, loads_now, replica_weights, shares
from kafka_rebalance.planning.problem.pools import parts_of


@dataclass(frozen=True, slots=True)
class HotSpot:
    """One partition of which a single replica, or its leader, is this multiple of the largest broker's share."""

    topic: str
    partition: int
    share: float


def hot_spots(problem: Problem, metrics: Sequence[str], limit: float) -> Mapping[str, tuple[HotSpot, ...]]:
    """By metric, the partitions above the largest share by more than the limit, the largest first.

    With pools these are those of each pool.
    """
    if problem.pools is not None:
        found = [hot_spots(part.problem, metrics, limit) for part in parts_of(problem)]
        return {metric: tuple(spot for own in found for spot in own[metric]) for metric in metrics}
    weights = np.hstack([replica_weights(problem), leader_weights(problem, problem.replicas)])
    largest = (shares(problem) * loads_now(problem).sum(axis=0)).max(axis=0)
    return {
        metric: _above(problem, weights[:, k], float(largest[k]), limit)
        for metric in metrics
        for k in (METRICS.index(metric),)
    }


def _above(problem: Problem, weight: Floats, largest: float, limit: float) -> tuple[HotSpot, ...]:
    rows = np.flatnonzero(weight > (1 + limit) * largest)
    return tuple(
        HotSpot(problem.topics[problem.topic[row]], int(problem.partition[row]), round(float(weight[row] / largest), 2))
        for row in rows[np.argsort(-weight[rows], kind="stable")].tolist()
    )
