"""Whether moves can still bring brokers of a cluster nearer to a limit, replica by replica.

`evenness.hot_spots` excuses a broker that is off by less than the heaviest replica of the cluster. That is quick, and
true for a cluster of few partitions. But a broker may also hold lighter ones, which do help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kafka_rebalance.model.settings import BALANCED
from kafka_rebalance.planning.bounds.targets import leader_targets
from kafka_rebalance.planning.describe.shortfall import Held, off_cells
from kafka_rebalance.planning.problem.arrays import Problem, led_first, replication
from kafka_rebalance.planning.problem.loads import METRICS, loads_now
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import frame_of


def can_be_more_even(problem: Problem, metrics: Sequence[str], limit: float) -> bool:
    """Whether a broker is off its reachable share of one of the metrics by more than the limit, and a move would help.

    The moves are of one replica, swaps of two, and new orders of lists, by all rules of a plan that balances.
    """
    held_to = replace(problem, settings=replace(problem.settings, tolerance=limit))
    goal, led = goal_of(held_to.settings, BALANCED), led_first(problem.replicas, problem.leader)
    frame = frame_of(held_to, goal, replication(problem.replicas))
    targets = np.hstack([frame.targets * frame.scale, leader_targets(held_to, led)])
    off, _ = off_cells(held_to, Held(goal, targets, None, frame.scale), led, loads_now(problem))
    return bool(off[:, [METRICS.index(metric) for metric in metrics]].any())
