"""What the nightly check still measures where registered brokers do not tell everything, and what it says of that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_rebalance.model.finding import some
from kafka_rebalance.planning.evenness.scores import Score, scores
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.problem.loads import loads_now, shares
from kafka_rebalance.report.units import format_count
from kafka_rebalance.workflow.snapshot import Snapshot, Unread

NO_PLAN = "a plan needs what could not be read; the log of the check says why"


def scores_of_the_rest(problem: Problem, taken: Snapshot) -> dict[str, Score]:
    """The brokers that tell their log dirs, compared among themselves: nobody knows the capacity of the others.

    Without the resources that are counted in bytes where the size of a partition is unknown: disk where one of these
    brokers has a replica of it, bytes in anyway, since those of other partitions are estimated from all sizes.
    """
    silent = np.isin(problem.brokers, taken.unread.log_dirs)
    rest = replace(problem, leaving=problem.leaving | silent)
    loads = np.where(silent[:, None], 0.0, loads_now(problem))
    unknown = {"bytes_in"} if taken.unread.sizes else set()
    unknown |= {"disk"} if _disk_unknown(taken) else set()
    return {metric: score for metric, score in scores(rest, loads, shares(rest)).items() if metric not in unknown}


def unread_words(taken: Snapshot) -> tuple[str, ...]:
    """What could not be read, by name, and which figures that leaves out."""
    unread: Unread = taken.unread
    said = []
    if unread.log_dirs:
        said.append(f"broker {some(unread.log_dirs)} does not tell its log dirs: the others are measured, without it")
    if unread.configs:
        said.append(f"broker {some(unread.configs)} does not tell its configs")
    if unread.sizes:
        of = format_count(len(unread.sizes), "partition", "partitions")
        what = "bytes on disk and bytes in are" if _disk_unknown(taken) else "bytes in are"
        said.append(f"no replica in sync tells the size of {of} ({some(unread.sizes)}): {what} unknown")
    if unread.offsets:
        of = format_count(len(unread.offsets), "partition", "partitions")
        said.append(f"the offsets of {of} cannot be read ({some(unread.offsets)})")
    return tuple(said)


def _disk_unknown(taken: Snapshot) -> bool:
    silent = set(taken.unread.log_dirs)
    return any(set(taken.view.partitions[tp].replicas) - silent for tp in taken.unread.sizes)
