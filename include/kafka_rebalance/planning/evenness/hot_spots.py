"""What no move of replicas can mend: a partition that alone is more than any broker's share, and what racks force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.targets import reachable_targets
from kafka_rebalance.planning.evenness.scores import outside_band
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Problem, replication
from kafka_rebalance.planning.problem.loads import (
    METRICS,
    REPLICA_METRICS,
    leader_weights,
    loads_now,
    replica_weights,
    shares,
)
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules.rack_rule import rack_rule


@dataclass(frozen=True, slots=True)
class HotSpot:
    """One partition of which a single replica, or its leader, is this multiple of the largest broker's share."""

    topic: str
    partition: int
    share: float


@dataclass(frozen=True, slots=True)
class Reach:
    """What moves could do about one resource. `can_help`: some broker is off by more than hot spots and racks force."""

    can_help: bool
    hot_spots: tuple[HotSpot, ...]  # the largest first


def reach(problem: Problem, metrics: Sequence[str], limit: float) -> Mapping[str, Reach]:
    """By metric. The brokers with a hot spot are judged by what else lies on them, the others among themselves.

    A broker counts as off by the planner's own measure (`outside_band`): by more than the limit, and by more than
    moving one replica could mend. Policies may keep in place what could move; that is not looked at here. A move helps
    if it helps in one of the pools, or brings a replica into its pool.
    """
    if problem.pools is not None:
        enters = bool(strays(problem, problem.replicas).any())
        found = [reach(part.problem, metrics, limit) for part in parts_of(problem)]
        return {
            metric: Reach(
                enters or any(own[metric].can_help for own in found),
                tuple(spot for own in found for spot in own[metric].hot_spots),
            )
            for metric in metrics
        }
    loads, share = loads_now(problem), shares(problem)
    weights = np.hstack([replica_weights(problem), leader_weights(problem, problem.replicas)])
    return {metric: _reach(problem, METRICS.index(metric), loads, share, weights, limit) for metric in metrics}


def _reach(problem: Problem, k: int, loads: Floats, share: Floats, weights: Floats, limit: float) -> Reach:
    stays, weight = problem.staying, weights[:, k]
    targets = share[:, k] * loads[:, k].sum()
    hot = weight > (1 + limit) * targets.max(initial=0.0)
    heaviest = float(weight[~hot].max(initial=0.0))
    on_hot = np.zeros(len(loads))  # [broker] the largest hot weight that it holds
    held = problem.replicas if METRICS[k] in REPLICA_METRICS else problem.leader[:, None]
    for row in np.nonzero(hot)[0]:
        brokers = held[row][held[row] >= 0]
        on_hot[brokers] = np.maximum(on_hot[brokers], weight[row])
    cool = stays & (on_hot == 0)
    beside = loads[:, k] - on_hot  # what could be moved off a broker with a hot spot
    fair = _targets(problem, k, loads, share, weights, hot, cool)
    slack = max(limit * float(targets.max(initial=0.0)), heaviest)
    crowded: Bools = stays & (on_hot > 0) & (beside > slack)
    off = outside_band(loads[:, [k]], fair[:, None], np.array([heaviest]), limit, cool)
    spots = sorted(np.nonzero(hot)[0].tolist(), key=lambda row: (-weight[row], row))
    return Reach(
        bool(crowded.any() or off.any()),
        tuple(
            HotSpot(
                problem.topics[problem.topic[row]],
                int(problem.partition[row]),
                round(float(weight[row] / targets.max()), 2),
            )
            for row in spots
        ),
    )


def _targets(
    problem: Problem, k: int, loads: Floats, share: Floats, weights: Floats, hot: Bools, cool: Bools
) -> Floats:
    """[broker] What brokers without a hot spot would carry if all were as even as the racks allow."""
    if not cool.any():
        return np.zeros(len(loads))
    if METRICS[k] in REPLICA_METRICS and cool.sum() == problem.staying.sum():
        counts = replication(problem.replicas)
        fixed = np.where(cool, 0.0, loads[:, k])[:, None]
        targets: Floats = reachable_targets(
            rack_rule(problem), counts, weights[:, [k]], share[:, [k]], cool, cool, fixed
        )[:, 0]
        return targets
    spread: Floats = np.where(cool, share[:, k], 0.0)
    even: Floats = spread / spread.sum() * loads[cool, k].sum()
    return even
