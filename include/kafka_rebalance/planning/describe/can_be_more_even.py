"""Whether moves can still bring brokers of a cluster nearer to a limit, replica by replica.

`evenness.hot_spots` excuses a broker that is off by less than the heaviest replica of the cluster. That is quick, and
true for a cluster of few partitions. But a broker may also hold lighter ones, which do help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.model.settings import BALANCED
from kafka_rebalance.planning.describe.shortfall import asked_cells, held_now, off_cells
from kafka_rebalance.planning.evenness.scores import ratios
from kafka_rebalance.planning.problem.arrays import Floats, Problem, led_first, replication
from kafka_rebalance.planning.problem.loads import METRICS, loads_now, shares
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import frame_of


@dataclass(frozen=True, slots=True)
class Reachable:
    """How even one metric is against the shares that brokers can reach, and how far these are from their shares."""

    can_help: bool  # a broker is off its reachable share by more than the limit, and a move would help
    furthest: float  # how far the worst broker is from its reachable share, as a share of it
    forced: float  # how far racks and disks keep a broker from its share of everything, as a share of that


def can_be_more_even(problem: Problem, metrics: Sequence[str], limit: float) -> Mapping[str, Reachable]:
    """By metric. The moves are of one replica, swaps of two, and new orders of lists, by all rules of a plan that
    balances. With pools it is the worst of them.
    """
    if problem.pools is not None:
        found = [can_be_more_even(part.problem, metrics, limit) for part in parts_of(problem)]
        return {
            metric: Reachable(
                any(own[metric].can_help for own in found),
                max(own[metric].furthest for own in found),
                max(own[metric].forced for own in found),
            )
            for metric in metrics
        }
    held_to = replace(problem, settings=replace(problem.settings, tolerance=limit))
    frame = frame_of(held_to, goal_of(held_to.settings, BALANCED), replication(problem.replicas))
    held, lists = held_now(held_to, frame.targets, frame.scale), led_first(problem.replicas, problem.leader)
    off, relative = off_cells(held_to, held, lists, loads_now(problem))
    cells, forced = asked_cells(held_to, held), ratios(problem, held.targets, shares(problem))

    def furthest(of_share: Floats, k: int) -> float:
        return float(np.abs(of_share[cells[:, k], k] - 1).max(initial=0.0))

    return {
        metric: Reachable(bool(off[:, k].any()), furthest(relative, k), furthest(forced, k))
        for metric in metrics
        for k in (METRICS.index(metric),)
    }
