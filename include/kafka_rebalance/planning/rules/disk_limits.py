"""What disks and log directories leave for replicas, in the end and meanwhile."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Problem
from kafka_rebalance.planning.problem.loads import DISK, replica_loads, replica_weights


def held_bytes(problem: Problem) -> Floats:
    """[broker] Bytes of the replicas that each broker holds now."""
    return replica_loads(problem.replicas, replica_weights(problem), len(problem.brokers))[:, DISK]


def used_bytes(problem: Problem) -> Floats:
    """[broker] Bytes on its disks now. What retention will take is still there while the first copies run."""
    held = replica_loads(problem.replicas, problem.size_bytes[:, None].astype(np.float64), len(problem.brokers))[:, 0]
    return np.fmax(held, problem.disk_used)


def disk_limits_in_the_end(problem: Problem) -> Floats:
    """[broker] Bytes of replicas that a broker may hold in the end, if it is to receive any; inf where nothing says so.

    What lies on a disk beside the replicas stays there. Of several log dirs each gets as many new replicas as the
    others (`LogDirs`), so together they take as often what the fullest of them takes. What leaves makes room in a
    disk, but nobody can say in which log dir: so much is kept for by `disk_headroom`.
    """
    settings, dirs = problem.settings, problem.log_dirs
    held = held_bytes(problem)
    share = min(1 - settings.disk_headroom, settings.relieve_above or 1.0)
    other = np.fmax(0.0, problem.disk_used - held)
    limits = np.where(np.isnan(problem.disk_capacity), np.inf, problem.disk_capacity * share - other)
    several = dirs.count > 0
    limits[several] = np.minimum(limits, held + dirs.count * np.where(several, dirs.room, 0.0))[several]
    limits[~problem.staying] = 0.0
    return limits


def disk_limits_meanwhile(problem: Problem) -> Floats:
    """[broker] Bytes up to which a disk may be filled; inf where its size is unknown, and for who must leave."""
    return np.where(sized_disks(problem), problem.disk_capacity * (1 - problem.settings.disk_headroom), np.inf)


def disk_shares(problem: Problem) -> Floats:
    """[broker] The share of its disk that is in use, 0 on brokers that are emptied or whose disk is unknown."""
    used = np.fmax(held_bytes(problem), problem.disk_used)
    return np.divide(used, problem.disk_capacity, out=np.zeros(len(used)), where=sized_disks(problem))


def sized_disks(problem: Problem) -> Bools:
    """[broker] Brokers that stay and whose disk's size is known."""
    return problem.staying & (problem.disk_capacity > 0)
