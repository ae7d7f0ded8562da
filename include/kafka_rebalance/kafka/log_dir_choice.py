"""Where brokers put new replicas: into the log dir with the fewest, however full it is.

Kafka 2.0 to 3.9 (LogManager.nextLogDir, nextLogDirs) counts the replicas in each dir that is online.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Of some new replicas, how many come into one log dir: at most, and on average where that is open."""

    most: int
    average: float


def arrivals(counts: Sequence[float], new: int) -> list[Arrivals]:
    """For each log dir, given how many replicas are in it. In which order the new ones come, nobody knows.

    Counts may be averages, from what came before: dirs that differ by less than one may have either count.
    """
    held, most = list(counts), [0] * len(counts)
    while held and new > 0:
        fewest = min(held)
        level = [number for number, count in enumerate(held) if count < fewest + 1]
        share = min(1.0, new / len(level))
        for number in level:  # all of a level get one; where not enough are left, each of them might
            held[number] += share
            most[number] += 1
        new -= len(level)
    return [Arrivals(at_most, now - then) for at_most, now, then in zip(most, held, counts, strict=True)]
