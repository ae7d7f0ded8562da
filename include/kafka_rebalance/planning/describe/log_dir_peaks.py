"""How full single log dirs get while a plan runs.

Which of a broker's log dirs gets which replica is Kafka's choice (`kafka.log_dir_choice`): how many come into each is
nearly certain, which of them is not. So this gives what is expected, and what is not exceeded in nine of ten cases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.documents.proposals.log_dir_peaks import LogDirPeak, LogDirPeaks
from kafka_rebalance.kafka.log_dir_choice import arrivals
from kafka_rebalance.planning.problem.arrays import Ints, Problem, added

LISTED = 20
_NINE_OF_TEN = 1.2816  # standard deviations of a normal distribution


@dataclass(slots=True)
class _Dir:
    """One log dir as it fills up. `variance`: of its bytes, since nobody knows which replicas came."""

    number: int
    used: float
    replicas: float
    limit: float  # bytes, if the largest came at every turn
    peak: tuple[float, float, int]  # (expected, nine of ten, batch) at its fullest
    variance: float = 0.0


def log_dir_peaks(problem: Problem, replicas: Ints, batch: Ints) -> LogDirPeaks:
    """The LISTED dirs that may get fullest, and how many
    there are, of brokers with several that receive replicas.

    `replicas` are the lists in the end; `batch` is [partition row], 0: it does not move. Full is against their sizes
    (Kafka 3.3 and later); behind these come dirs of unknown size, by bytes.
    """
    contents = problem.dir_contents
    if not contents.path:
        return LogDirPeaks()
    by_broker: dict[int, list[_Dir]] = defaultdict(list)
    counts = np.bincount(contents.holding[contents.holding >= 0], minlength=len(contents.path))
    for number, broker in enumerate(contents.broker.tolist()):
        used = float(contents.used_bytes[number])
        by_broker[broker].append(_Dir(number, used, float(counts[number]), used, (used, used, 0)))
    receiving: set[int] = set()
    for broker, number, arriving, leaving in _changes(problem, replicas, batch, set(by_broker)):
        if arriving:
            receiving.add(broker)
            _fill(by_broker[broker], number, sorted(arriving, reverse=True))
        _empty(by_broker[broker], leaving)
    found = [one for broker in receiving for one in by_broker[broker]]
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


Change = tuple[int, int, list[float], list[tuple[int, float]]]


def _changes(problem: Problem, replicas: Ints, batch: Ints, brokers: set[int]) -> Iterator[Change]:
    """(broker, batch, bytes of each replica that comes, (dir, bytes) of each that goes), by batch."""
    rows = np.flatnonzero(batch > 0)
    before, after, holding = problem.replicas[rows], replicas[rows], problem.dir_contents.holding[rows]
    size, number = problem.size_bytes[rows].tolist(), batch[rows].tolist()
    arriving: dict[tuple[int, int], list[float]] = defaultdict(list)
    leaving: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    moves, places = np.nonzero(added(after, before))
    for move, broker in zip(moves.tolist(), after[moves, places].tolist(), strict=True):
        arriving[number[move], broker].append(size[move])
    moves, places = np.nonzero(added(before, after) & (holding >= 0))
    for move, broker, lay in zip(
        moves.tolist(), before[moves, places].tolist(), holding[moves, places].tolist(), strict=True
    ):
        leaving[number[move], broker].append((lay, size[move]))
    for key in sorted(arriving.keys() | leaving.keys()):
        if key[1] in brokers:
            yield key[1], key[0], arriving.get(key, []), leaving.get(key, [])


def _fill(dirs: list[_Dir], batch: int, sizes: list[float]) -> None:
    """New replicas come into a broker's dirs, in any order as likely as in any other. `sizes`: the largest first."""
    new = len(sizes)
    mean = sum(sizes) / new
    spread = sum((size - mean) ** 2 for size in sizes) / new
    for one, share in zip(dirs, arrivals([one.replicas for one in dirs], new), strict=True):
        drawn = share.average
        one.used += drawn * mean
        one.replicas += drawn
        one.limit += sum(sizes[: share.most])
        if new > 1:  # the variance of a sum of some drawn without replacement (Cochran, Sampling Techniques, 2.5)
            one.variance += drawn * (new - drawn) / (new - 1) * spread
        odd = one.replicas % 1  # it has one more, or not
        deviation = math.sqrt(one.variance + odd * (1 - odd) * mean**2)
        most = min(one.limit, one.used + _NINE_OF_TEN * deviation)
        if (most, one.used) > (one.peak[1], one.peak[0]):
            one.peak = one.used, most, batch


def _empty(dirs: list[_Dir], leaving: list[tuple[int, float]]) -> None:
    """Old replicas go once the batch is done."""
    by_number = {one.number: one for one in dirs}
    for number, size in leaving:
        one = by_number[number]
        one.used -= size
        one.limit -= size
        one.replicas -= 1
