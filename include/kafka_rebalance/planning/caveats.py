"""What a plan does not know of its cluster, and what that means for it: said in every candidate's note."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.arrays import Bools, Problem

_MEANS = {  # column: (what it is, with the connection's own field for it, and what follows)
    "disk_capacity_bytes": (
        "the size of the disk (disk_bytes in broker_capacities)",
        "disks and replicas are planned as equal shares, and headroom is unknown",
    ),
    "disk_used_bytes": ("what is used of the disk", "what lies on the disks beside the replicas is unknown"),
    "nic_in_bytes_per_second": (
        "the network's capacity in (nic_in_bytes_per_second in broker_capacities)",
        "bytes in are planned as equal shares",
    ),
    "nic_out_bytes_per_second": (
        "the network's capacity out (nic_out_bytes_per_second in broker_capacities)",
        "leaders and what they send are planned as equal shares",
    ),
}


def caveats(problem: Problem) -> list[str]:
    """Clauses, each with the brokers or partitions it is about."""
    return [*_capacities(problem), *_racks(problem), *_log_dirs(problem), *_sizes(problem)]


def _capacities(problem: Problem) -> list[str]:
    staying = int(problem.staying.sum())
    return [
        f"{what} is known for {known} of {staying} brokers only: {means}"
        for (what, means), known in ((_MEANS[column], known) for column, known in problem.known_of.items())
    ]


def _racks(problem: Problem) -> list[str]:
    racked = np.array([rack is not None for rack in problem.racks], dtype=bool)
    without = problem.staying & ~racked
    if not without.any() or not (problem.staying & racked).any():
        return []
    return [f"{_ids(problem, without)} without a rack: the cluster has no rack rule, replicas may share a rack"]


def _log_dirs(problem: Problem) -> list[str]:
    dirs, notes = problem.log_dirs, []
    unknown = problem.receivers & dirs.unknown
    if unknown.any():
        notes.append(
            f"{_ids(problem, unknown)} with several log dirs of unknown size: a new replica may hit a full one"
        )
    # Less than half of what even dirs would leave.
    uneven = (
        problem.receivers & (dirs.count > 0) & (2 * dirs.count * np.where(dirs.count > 0, dirs.room, 0.0) < dirs.rooms)
    )
    if uneven.any():
        worst = int(np.where(uneven, dirs.room, np.inf).argmin())
        notes.append(
            f"{_ids(problem, uneven)} with uneven log dirs, which Kafka fills by number and not by size: "
            f"{dirs.fullest[worst]} of broker {problem.brokers[worst]} takes {int(dirs.room[worst]):,} bytes, so the "
            f"broker is given no larger replica, and {int(dirs.count[worst] * dirs.room[worst]):,} bytes at most"
        )
    return notes


def _sizes(problem: Problem) -> list[str]:
    if not problem.unknown_sizes:
        return []
    return [f"{problem.unknown_sizes} partitions of unknown size count as 0 bytes"]


def _ids(problem: Problem, brokers: Bools) -> str:
    ids = problem.brokers[brokers].tolist()
    shown = ", ".join(map(str, ids[:10])) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
    return f"broker{'s' if len(ids) > 1 else ''} {shown}"
