"""When a rebalance will be over, as a range: the plan's own time, times what such plans took on this cluster before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import quantiles
from typing import Any

from kafka_rebalance.model.candidate import Move

CONTROLLER_SECONDS = 5.0  # to start and to end a batch, besides its bytes

RUNS_COUNTED = 50  # the newest: older runs were on another cluster, or on an older version of this one
DAYS_COUNTED = 365  # no older runs
MIN_RUNS = 5  # with fewer runs, the tenth and ninetieth percentile are the single runs themselves
# Elections and looks at ZooKeeper decide how long a plan takes that copies for less than a minute: it tells nothing.
MIN_SECONDS = 60.0
# The plan counts bytes at the throttle, and a fixed time for each batch. It cannot know how long batches wait, that
# followers share disks with producers, and which bytes are written meanwhile. All of this makes a run longer. These
# factors are assumed, not measured.
ASSUMED = (0.9, 1.5)


@dataclass(frozen=True, slots=True)
class EtaRange:
    """Between `low` and `high` seconds, by `runs` earlier runs; with fewer than MIN_RUNS by assumption."""

    low: float
    high: float
    runs: int

    @property
    def is_measured(self) -> bool:
        return self.runs >= MIN_RUNS


def run_ratios(outcomes: Iterable[Mapping[str, Any]]) -> tuple[float, ...]:
    """Actual over predicted seconds of at most RUNS_COUNTED rows of the ledger's table `outcomes`, newest first.

    Only runs that reached the approved end and were long enough count.
    """
    ratios = []
    for row in outcomes:
        predicted, actual = row["predicted_seconds"], row["actual_seconds"]
        if not row["verified"] or predicted is None or actual is None or actual <= 0:
            continue
        if predicted - with_controller(0.0, row.get("batches") or 0) >= MIN_SECONDS:
            ratios.append(actual / predicted)
    return tuple(ratios[:RUNS_COUNTED])


def eta_range(seconds: float, ratios: Sequence[float]) -> EtaRange:
    """The tenth to the ninetieth percentile of what a plan of `seconds` takes, by earlier runs' ratios."""
    tenths = quantiles(ratios, n=10, method="inclusive") if len(ratios) >= MIN_RUNS else ASSUMED
    return EtaRange(seconds * tenths[0], seconds * tenths[-1], len(ratios))


def rest_range(by_plan: float | None, at_pace: float | None, ratios: Sequence[float]) -> EtaRange | None:
    """Seconds that are left of a run; None if both are unknown.

    `by_plan`: what the plan gives the rest at today's throttle. `at_pace`: what the rest takes at the pace of the run
    so far, pauses included. The range holds both: the first knows about earlier runs, the second about this one.
    """
    if by_plan is None:
        return None if at_pace is None else EtaRange(at_pace * ASSUMED[0], at_pace * ASSUMED[1], 0)
    expected = eta_range(by_plan, ratios)
    if at_pace is None:
        return expected
    return replace(expected, low=min(expected.low, at_pace), high=max(expected.high, at_pace))


def slowest_seconds(seconds: float, ratios: Sequence[float]) -> float:
    """The upper end of `eta_range`, and never less than the plan's own `seconds`."""
    return max(seconds, eta_range(seconds, ratios).high)


def paused_seconds(pauses: Iterable[tuple[datetime, datetime | None]], began: datetime, ended: datetime) -> float:
    """How long a run was paused between two times, by the beginnings and ends of its pauses. None: it still pauses."""
    spans = ((max(start, began), min(until or ended, ended)) for start, until in pauses)
    return sum(max(0.0, (last - first).total_seconds()) for first, last in spans)


def predicted_seconds(moves: Sequence[Move], bytes_per_second: float) -> float:
    """How long these moves take as one batch at this rate of one broker."""
    return with_controller(busiest_bytes(moves) / bytes_per_second, 1)


def with_controller(copying_seconds: float, batches: int) -> float:
    """How long these batches take one after the other. `copying_seconds`: of all together."""
    return copying_seconds + batches * CONTROLLER_SECONDS


def busiest_bytes(moves: Sequence[Move]) -> int:
    """What the busiest broker sends or receives, as in the plan's makespan."""
    received, sent = received_and_sent(moves)
    return max([0, *received.values(), *sent.values()])


def received_and_sent(moves: Iterable[Move]) -> tuple[Counter[int], Counter[int]]:
    """All that these moves copy, in bytes by broker. The leader of before sends every copy, as in the plan."""
    received, sent = Counter[int](), Counter[int]()
    for move in moves:
        for broker in move.added:
            received[broker] += move.size_bytes
            sent[move.source] += move.size_bytes
    return received, sent
