"""Job `relieve`: which brokers give, and down to which loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.bands import band
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Problem
from kafka_rebalance.planning.problem.loads import DISK, replica_loads
from kafka_rebalance.planning.rules.disk_limits import disk_limits_in_the_end, disk_shares
from kafka_rebalance.planning.rules.goals import Goal


@dataclass(frozen=True, slots=True, eq=False)
class Relief:
    givers: Bools  # [broker]
    high: Floats  # [broker, REPLICA_METRICS] the load they come down to, in the unit of the targets


def relief_of(problem: Problem, goal: Goal, targets: Floats, weights: Floats, scale: Floats) -> Relief:
    """Without `relieve_above`, every broker above the band gives, down to the band.

    With it, the brokers whose disk is fuller than that share give. `light` only brings their disks below it, `balanced`
    brings these brokers into the band as well. Other brokers above the band stay there, and no broker comes above it.
    """
    high, limit = band(targets, goal.tolerance).high, problem.settings.relieve_above
    if limit is None:
        return Relief(problem.evened, high)
    givers = problem.evened & (disk_shares(problem) > limit)
    loads = replica_loads(problem.replicas, weights, len(givers))
    kept = np.maximum(high, loads)
    disk = disk_limits_in_the_end(problem) / scale[DISK] if scale[DISK] > 0 else kept[:, DISK]
    down = kept if goal.to_limit else high
    high = np.where(givers[:, None], down, kept)
    high[givers, DISK] = disk[givers] if goal.to_limit else np.minimum(high[:, DISK], disk)[givers]
    return Relief(givers, high)
