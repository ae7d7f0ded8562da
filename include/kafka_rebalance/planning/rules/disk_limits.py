"""How much disks and log dirs may hold, at the end of a plan and while it runs."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.problem.arrays import DISK, Bools, Floats, Problem, replica_loads, replica_weights


def held_bytes(problem: Problem) -> Floats:
    """[broker] Bytes of the replicas on each broker now."""
    return replica_loads(problem.replicas, replica_weights(problem), len(problem.brokers))[:, DISK]


def used_bytes(problem: Problem) -> Floats:
    """[broker] Bytes on its disks now, with what retention will only delete while the first copies run."""
    held = replica_loads(problem.replicas, problem.size_bytes[:, None].astype(np.float64), len(problem.brokers))[:, 0]
    return np.fmax(held, problem.disk_used)


def disk_limits_in_the_end(problem: Problem) -> Floats:
    """[broker] Bytes of replicas that a broker may hold in the end, if it receives any; inf if nothing limits them.

    Other files on a disk stay there. Several log dirs get equally many new replicas (`LogDirs`), so together they take
    what the fullest takes, times their number. A replica that leaves makes room on the disk, but it is unknown in which
    log dir; `disk_headroom` covers that.
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
    """[broker] Bytes that a disk may hold while the plan runs; inf if its size is unknown or the broker leaves."""
    return np.where(sized_disks(problem), problem.disk_capacity * (1 - problem.settings.disk_headroom), np.inf)


def disk_shares(problem: Problem) -> Floats:
    """[broker] The share of its disk in use; 0 if its size is unknown or the broker leaves."""
    used = np.fmax(held_bytes(problem), problem.disk_used)
    return np.divide(used, problem.disk_capacity, out=np.zeros(len(used)), where=sized_disks(problem))


def sized_disks(problem: Problem) -> Bools:
    """[broker] Brokers that stay and have a disk of known size."""
    return problem.staying & (problem.disk_capacity > 0)
