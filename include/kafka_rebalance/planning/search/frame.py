"""What every way to a candidate shares: units, targets and limits, whether its lists are searched or given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.bands import poured, reachable_targets
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    leader_loads,
    leader_weights,
    replica_loads,
    replica_weights,
    replication,
    shares,
    widened,
)
from kafka_rebalance.planning.rules.disk_limits import disk_limits_in_the_end
from kafka_rebalance.planning.rules.goals import Goal
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule
from kafka_rebalance.planning.search.placement import Budget
from kafka_rebalance.planning.search.relieve import Relief, relief_of

_FITTINGS = 50  # what one disk does not take may be too much for the next


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What all stages of one candidate share. Loads are in units of the mean staying broker."""

    problem: Problem
    goal: Goal
    rule: RackRule
    wanted: Ints  # [partition row] replicas in the end
    weights: Floats
    scale: Floats  # [resource] unit of the weights, in the resource's own unit
    targets: Floats
    disk_limit: Floats
    topic_shares: Floats  # [broker] the part of each topic that the broker should hold
    relief: Relief | None  # of job `relieve`


def frame_of(problem: Problem, goal: Goal, wanted: Ints) -> Frame:
    """The frame of a candidate whose partitions are to have `wanted` replicas."""
    rule = rack_rule(problem, problem.settings.replication_factor)
    raw = replica_weights(problem)
    staying = int(problem.staying.sum())
    scale = (raw * wanted[:, None]).sum(axis=0) / staying
    weights = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0)
    brokers = len(problem.brokers)
    pinned = ~problem.relocatable
    fixed = replica_loads(problem.replicas, weights, brokers)
    fixed[problem.leaving] = replica_loads(problem.replicas[pinned], weights[pinned], brokers)[problem.leaving]
    share = shares(problem)[:, : raw.shape[1]]
    limit = disk_limits_in_the_end(problem) / scale[DISK] if scale[DISK] > 0 else np.full(brokers, np.inf)

    def reachable(shares: Floats) -> Floats:
        return reachable_targets(rule, wanted, weights, shares, problem.receivers, fixed)

    targets = _within_disks(reachable, share, problem.receivers, limit)
    relief = relief_of(problem, goal, targets, weights, scale) if goal.one_sided else None
    return Frame(problem, goal, rule, wanted, weights, scale, targets, limit, share[:, REPLICAS], relief)


def _within_disks(reachable: Callable[[Floats], Floats], shares: Floats, receivers: Bools, limit: Floats) -> Floats:
    """[broker, REPLICA_METRICS] The targets of these shares; a disk that takes less than its own gets what it takes.

    It holds as many fewer replicas, and the others share the rest: of one disk the limit may be known, or much of it
    be used by something else. Where all together are too small, the targets stay what shares make them.
    """
    targets = reachable(shares)
    if targets[receivers, DISK].sum() > limit[receivers].sum():
        return targets
    capped, limit = shares.copy(), np.maximum(limit, 1e-6 * targets[:, DISK])  # a share of nothing would divide by it
    for _ in range(_FITTINGS):
        over = receivers & (targets[:, DISK] > limit * (1 + 1e-9))
        if not over.any():
            break
        capped[over, : DISK + 1] *= (limit[over] / targets[over, DISK])[:, None]
        targets = reachable(capped)
    return targets


def leader_targets(problem: Problem, replicas: Ints) -> Floats:
    """[broker, LEADER_METRICS] Each broker's share, in its own unit; who receives nothing keeps what it leads.

    A broker leads at most what it holds, and of lists of one all it holds: what it cannot lead the others do.
    """
    raw = leader_weights(problem, replicas)
    receivers, share = problem.receivers, shares(problem)[:, 3:]
    fixed = leader_loads(replicas[:, 0], raw, len(receivers))
    fixed[problem.leaving] = 0.0
    rest = raw.sum(axis=0) - fixed[~receivers].sum(axis=0)
    alone = leader_loads(replicas[:, 0], raw * (replication(replicas) == 1)[:, None], len(receivers))
    held = replica_loads(replicas, raw, len(receivers))
    given = share * receivers[:, None]
    targets = np.where(receivers[:, None], given / np.maximum(given.sum(axis=0), 1e-300) * rest, fixed)
    for k in range(raw.shape[1]):
        even, least, most = (values[receivers, k] for values in (targets, alone, held))
        if ((even < least) | (even > most)).any():
            targets[receivers, k] = poured(given[receivers, k], least, most, float(rest[k]))
    return targets


def budget_of(problem: Problem) -> Budget:
    """The limits of the settings, with nothing spent."""
    settings = problem.settings
    return Budget(settings.max_bytes, settings.max_replicas, settings.max_leader_changes)


def among(replicas: Ints, before: Ints) -> Bools:
    """[row, column] Whether the replica was in the partition's list before."""
    known: Bools = (replicas >= 0) & (replicas[:, :, None] == before[:, None, :]).any(axis=2)
    return known


def lagging(problem: Problem, replicas: Ints) -> Bools:
    """[row, column] Whether the replica was in the list before and is out of the ISR in the snapshot.

    A replica that is new to the list is not: it has caught up when its copy ends.
    """
    behind = (problem.replicas >= 0) & ~problem.in_sync
    rows = np.flatnonzero(behind.any(axis=1))
    found = np.zeros(replicas.shape, dtype=bool)
    out = np.where(behind[rows], problem.replicas[rows], -2)
    found[rows] = (replicas[rows][:, :, None] == out[:, None, :]).any(axis=2)
    return found


def spent(problem: Problem, now: Ints) -> Budget:
    """The limits, with what the lists cost so far."""
    before, budget = problem.replicas, budget_of(problem)
    new = ((now >= 0) & ~among(now, before)).sum(axis=1)
    budget.replicas = int(new.sum())
    budget.bytes = int((new * problem.size_bytes).sum())
    width = max(now.shape[1], before.shape[1])
    changed = (widened(now, width) != widened(before, width)).any(axis=1)
    budget.leader_changes = int((changed & (now[:, 0] != problem.leader)).sum())
    return budget
