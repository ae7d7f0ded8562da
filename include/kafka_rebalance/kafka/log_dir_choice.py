"""Where brokers put new replicas: into the log dir with the fewest replicas, however full it is.

Kafka counts the replicas in each log dir that takes new ones (`who_may_receive.open_log_dirs`; LogManager.nextLogDir
in 2.0, nextLogDirs since).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many of some new replicas one log dir receives: at most, and on average if several dirs are possible."""

    most: int
    average: float


NONE_ARRIVES = Arrivals(0, 0.0)


def arrivals(counts: Sequence[float], new: int) -> list[Arrivals]:
    """The arrivals for each log dir, which has so many replicas now. The order of the `new` ones is unknown.

    Counts may be averages from arrivals before. Dirs that differ by less than one may then have the same count.
    """
    replicas, most = list(counts), [0] * len(counts)
    while replicas and new > 0:
        fewest = min(replicas)
        level = [number for number, count in enumerate(replicas) if count < fewest + 1]
        share = min(1.0, new / len(level))
        for number in level:  # each dir of a level gets one; if too few are left, any of them may
            replicas[number] += share
            most[number] += 1
        new -= len(level)
    return [Arrivals(at_most, now - then) for at_most, now, then in zip(most, replicas, counts, strict=True)]
