"""When a rebalance will be over, as a range: the plan's own time, times what such plans took in this cluster before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka_rebalance.model.candidate import Move

CONTROLLER_SECONDS = 5.0  # what taking up and ending a batch takes besides its bytes

RUNS_COUNTED = 50  # the newest: older ones are of another cluster, or of an older version of this
DAYS_COUNTED = 365  # and none older than a year
MIN_RUNS = 5  # below, tenth and ninetieth percentile are the single runs themselves
# A plan that copies for less than a minute is over when elections and looks at ZooKeeper are: it tells nothing of that.
MIN_SECONDS = 60.0
# The plan counts bytes at the throttle, and the same for each batch besides. It cannot know what batches wait for,
# followers that share a disk with producers, and bytes written meanwhile; all make a run longer. Assumed, not measured.
ASSUMED = (0.9, 1.5)


@dataclass(frozen=True, slots=True)
class EtaRange:
    """Between `low` and `high` seconds, by `runs` earlier runs; below MIN_RUNS by assumption."""

    low: float
    high: float
    runs: int

    @property
    def is_measured(self) -> bool:
        return self.runs >= MIN_RUNS


def run_ratios(outcomes: Iterable[Mapping[str, Any]]) -> tuple[float, ...]:
    """Actual over predicted seconds, of rows of the ledger's table `outcomes` in their order (newest first).

    Of runs that reached the approved end, and were long enough to tell: at most RUNS_COUNTED.
    """
    found = []
    for row in outcomes:
        predicted, actual = row["predicted_seconds"], row["actual_seconds"]
        if not row["verified"] or predicted is None or actual is None or actual <= 0:
            continue
        if predicted - with_controller(0.0, row.get("batches") or 0) >= MIN_SECONDS:
            found.append(actual / predicted)
    return tuple(found[:RUNS_COUNTED])


def eta_range(seconds: float, ratios: Sequence[float]) -> EtaRange:
    """The tenth to the ninetieth percentile of what a plan of `seconds` takes, by earlier runs' ratios."""
    low, high = (_quantile(ratios, 0.1), _quantile(ratios, 0.9)) if len(ratios) >= MIN_RUNS else ASSUMED
    return EtaRange(seconds * low, seconds * high, len(ratios))


def rest_range(by_plan: float | None, at_pace: float | None, ratios: Sequence[float]) -> EtaRange | None:
    """Seconds that are left of a run; None where nothing tells.

    `by_plan`: what the plan gives the rest at today's throttle. `at_pace`: what the rest takes as fast as the run was
    so far, pauses included. The range holds both: the first knows of earlier runs, the second of this one.
    """
    if by_plan is None:
        return None if at_pace is None else EtaRange(at_pace * ASSUMED[0], at_pace * ASSUMED[1], 0)
    found = eta_range(by_plan, ratios)
    return found if at_pace is None else replace(found, low=min(found.low, at_pace), high=max(found.high, at_pace))


def _quantile(values: Sequence[float], share: float) -> float:
    """Between the two values that it lies between, in proportion."""
    ordered = sorted(values)
    below, part = divmod(share * (len(ordered) - 1), 1)
    above = ordered[min(int(below) + 1, len(ordered) - 1)]
    return ordered[int(below)] + part * (above - ordered[int(below)])


def predicted_seconds(moves: Sequence[Move], bytes_per_second: float) -> float:
    """How long these moves take together at this rate of one broker."""
    return seconds_for(busiest_bytes(moves), bytes_per_second)


def seconds_for(busiest: int, bytes_per_second: float) -> float:
    """How long a batch takes whose busiest broker copies so many bytes, with what the controller needs."""
    return with_controller(busiest / bytes_per_second, 1)


def with_controller(copying_seconds: float, batches: int) -> float:
    """How long so many batches take, one after the other, that copy for so long together."""
    return copying_seconds + batches * CONTROLLER_SECONDS


def busiest_bytes(moves: Sequence[Move]) -> int:
    """What the busiest broker sends or receives, as in the plan's makespan. The leader of before sends every copy."""
    received, sent = Counter[int](), Counter[int]()
    for move in moves:
        for broker in move.added:
            received[broker] += move.size_bytes
            sent[move.source] += move.size_bytes
    return max([0, *received.values(), *sent.values()])
