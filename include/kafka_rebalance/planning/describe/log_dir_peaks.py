"""How full single log dirs get while a plan runs.

Kafka chooses the log dir of each new replica (`kafka.log_dir_choice`). The number of replicas for each dir is nearly
certain, but not which replicas. So there are two figures: the expected bytes, and bytes that nine of ten cases stay
below.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.documents.proposals import (
    LogDirPeak,
    LogDirPeaks,
)
from kafka_rebalance.kafka.log_dir_choice import arrivals
from kafka_rebalance.planning.problem.arrays import (
    Ints,
    Problem,
    added,
)

LISTED = 20
_NINE_OF_TEN = 1.2816  # standard deviations of a normal distribution


@dataclass(slots=True)
class _Dir:
    """One log dir while it fills. `variance` is that of its bytes, because it is unknown which replicas it received."""

    number: int
    used: float
    replicas: float
    limit: float  # bytes, if it received the largest replicas each time
    peak: tuple[float, float, int]  # (expected, nine of ten, batch) when it is fullest
    variance: float = 0.0


def log_dir_peaks(problem: Problem, replicas: Ints, batch: Ints) -> LogDirPeaks:
    """Of brokers with several log dirs that receive replicas: the number of dirs, and the LISTED that may get fullest.

    `replicas` are the lists after; `batch` is [partition row], 0: it does not move. Full is the share of the size that
    Kafka reports from 3.3 on. Dirs of unknown size come last, sorted by bytes.
    """
    contents = problem.dir_contents
    if not contents.path:
        return LogDirPeaks()
    counts = np.bincount(contents.holding[contents.holding >= 0], minlength=len(contents.path)).tolist()
    dirs = [
        _Dir(number, used, float(count), used, (used, used, 0))
        for number, (used, count) in enumerate(zip(contents.used_bytes.tolist(), counts, strict=True))
    ]
    by_broker: dict[int, list[_Dir]] = defaultdict(list)
    for one, broker in zip(dirs, contents.broker.tolist(), strict=True):
        by_broker[broker].append(one)
    is_open = contents.is_open.tolist()
    receiving: set[int] = set()
    for broker, number, arriving, leaving in _changes(problem, replicas, batch, set(by_broker)):
        if arriving:
            receiving.add(broker)
            _fill([one for one in by_broker[broker] if is_open[one.number]], number, sorted(arriving, reverse=True))
        for old, size in leaving:  # Kafka deletes old replicas when the batch is done
            dirs[old].used -= size
            dirs[old].limit -= size
            dirs[old].replicas -= 1
    found = [one for broker in receiving for one in by_broker[broker] if is_open[one.number]]
    total = contents.total_bytes

    def rank(one: _Dir) -> tuple[bool, float, int]:
        unknown = math.isnan(total[one.number])
        return unknown, -one.peak[1] / (1 if unknown else max(1.0, total[one.number])), one.number

    found.sort(key=rank)
    return LogDirPeaks(
        len(found),
        tuple(
            LogDirPeak(
                int(problem.brokers[contents.broker[one.number]]),
                contents.path[one.number],
                int(total[one.number]) if not math.isnan(total[one.number]) else None,
                int(contents.used_bytes[one.number]),
                int(one.peak[0]),
                int(one.peak[1]),
                one.peak[2],
            )
            for one in found[:LISTED]
        ),
    )


def _changes(
    problem: Problem, replicas: Ints, batch: Ints, brokers: set[int]
) -> Iterator[tuple[int, int, list[float], list[tuple[int, float]]]]:
    """(broker, batch, bytes of each new replica, (dir, bytes) of each old one), by batch."""
    rows = np.flatnonzero(batch > 0)
    before, after, holding = problem.replicas[rows], replicas[rows], problem.dir_contents.holding[rows]
    size, number = problem.size_bytes[rows].tolist(), batch[rows].tolist()
    changes: dict[tuple[int, int], tuple[list[float], list[tuple[int, float]]]] = defaultdict(lambda: ([], []))
    moves, places = np.nonzero(added(after, before))
    for move, broker in zip(moves.tolist(), after[moves, places].tolist(), strict=True):
        changes[number[move], broker][0].append(size[move])
    moves, places = np.nonzero(added(before, after) & (holding >= 0))
    for move, broker, lay in zip(
        moves.tolist(), before[moves, places].tolist(), holding[moves, places].tolist(), strict=True
    ):
        changes[number[move], broker][1].append((lay, size[move]))
    for (of_batch, broker), (arriving, leaving) in sorted(changes.items()):
        if broker in brokers:
            yield broker, of_batch, arriving, leaving


def _fill(dirs: list[_Dir], batch: int, sizes: list[float]) -> None:
    """A broker's dirs receive new replicas. Every order is equally likely. `sizes`: the largest first."""
    new = len(sizes)
    mean = sum(sizes) / new
    spread = sum((size - mean) ** 2 for size in sizes) / new
    for one, share in zip(dirs, arrivals([one.replicas for one in dirs], new), strict=True):
        drawn = share.average
        one.used += drawn * mean
        one.replicas += drawn
        one.limit += sum(sizes[: share.most])
        if new > 1:  # variance of a sum of sizes drawn without replacement (Cochran, Sampling Techniques, 2.5)
            one.variance += drawn * (new - drawn) / (new - 1) * spread
        odd = one.replicas % 1  # it may have one replica more
        deviation = math.sqrt(one.variance + odd * (1 - odd) * mean**2)
        most = min(one.limit, one.used + _NINE_OF_TEN * deviation)
        if (most, one.used) > (one.peak[1], one.peak[0]):
            one.peak = one.used, most, batch
