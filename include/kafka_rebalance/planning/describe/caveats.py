"""What a plan does not know of its cluster, and what that means for it: said in every candidate's note."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Problem
from kafka_rebalance.planning.rules.rack_rule import rackless

_MEANS = {  # column: (what it is, with the connection's own field for it, and what follows)
    "disk_capacity_bytes": (
        "the size of the disk (disk_bytes in broker_capacities)",
        "disks and replicas are planned as equal shares, and only the disks that are known keep their headroom",
    ),
    "disk_used_bytes": ("what is used of the disk", "what lies there beside the replicas is unknown"),
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
    staying, nets = int(problem.staying.sum()), problem.networks
    stated = {
        "disk_capacity_bytes": problem.disk_capacity,
        "disk_used_bytes": problem.disk_used,
        "nic_in_bytes_per_second": nets[:, 0],
        "nic_out_bytes_per_second": nets[:, 1],
    }
    return [
        f"{_MEANS[column][0]} is known for {known} of {staying} brokers only (unknown: "
        f"{_ids(problem, problem.staying & np.isnan(stated[column]))}): {_MEANS[column][1]}"
        for column, known in problem.known_of.items()
    ]


def _racks(problem: Problem) -> list[str]:
    without = rackless(problem)
    if not without.any():
        return []
    return [
        f"{_ids(problem, without)} without a rack count as one rack together; broker.rack would tell where they stand"
    ]


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
