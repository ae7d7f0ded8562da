"""A plan carried out on paper without barriers: moves are requested beside those in flight (`execution.rolling`).

Every broker sends and receives at the throttle's rate, which its copies share as evenly as their other ends allow. Time
is in bytes: a broker copies one byte in one unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_rebalance.model.candidate import Move, brokers_touched
from kafka_rebalance.moves.eta import busiest_bytes
from kafka_rebalance.moves.rolling_requests import Limits, RestOfPlan, in_order

COALESCED = 20  # parts of a pause between two looks, of which each counts as one moment


@dataclass(frozen=True)
class RollingRun:
    """`peak`: the most bytes that each broker held at once. `most_copies`: that one broker sent or received at once."""

    seconds: float
    peak: dict[int, int]
    most_copies: int
    most_partitions: int
    most_leader_changes: int
    requests: int
    bound: int

    @property
    def over_bound(self) -> float:
        return self.seconds / self.bound


class _Copies:
    """What is being copied, and how much of it is left."""

    def __init__(self, moves: Sequence[Move]) -> None:
        self._index = {broker: at for at, broker in enumerate(sorted(brokers_touched(moves)))}
        self._moves: list[Move] = []  # of each copy
        self._left, self._rates = np.zeros(0), np.zeros(0)  # [copy]
        self._ends = np.zeros((2, 0), dtype=np.int64)  # [sends or receives, copy]
        self._open: Counter[Move] = Counter()

    def __len__(self) -> int:
        return len(self._moves)

    @property
    def most_of_an_end(self) -> int:
        return int(np.bincount(self._ends.ravel()).max(initial=0))

    def begin(self, moves: Sequence[Move]) -> None:
        new = [(move, target) for move in moves for target in move.added]
        self._moves += [move for move, _ in new]
        self._open.update(move for move, _ in new)
        self._left = np.append(self._left, [move.size_bytes for move, _ in new])
        sends = [self._index[move.source] for move, _ in new]
        receives = [self._index[target] + len(self._index) for _, target in new]
        self._ends = np.append(self._ends, np.array([sends, receives], dtype=np.int64), axis=1)
        self._rates = _shared(self._ends, 2 * len(self._index))

    def first_end(self) -> float:
        """The time until one of them ends."""
        return float((self._left / self._rates).min())

    def pass_time(self, step: float) -> list[Move]:
        """The moves of which the last copy ends in this time."""
        self._left -= self._rates * step
        sizes = np.array([move.size_bytes for move in self._moves])
        going = self._left > 1e-6 * sizes
        if going.all():
            return []
        complete = Counter(self._moves[at] for at in np.flatnonzero(~going).tolist())
        self._open -= complete
        self._moves = [self._moves[at] for at in np.flatnonzero(going).tolist()]
        self._left, self._ends = self._left[going], self._ends[:, going]
        self._rates = _shared(self._ends, 2 * len(self._index))
        return [move for move in complete if not self._open[move]]


def roll(
    moves: Sequence[Move], limits: Limits, used: Mapping[int, int] | None = None, looks: int | None = None
) -> RollingRun:
    """With `looks`, somebody looks so often in the least time that the plan can take. Without, each end is
    seen at once.
    """
    bound = busiest_bytes(moves)
    pause, next_look, now = bound / looks if looks else 0.0, 0.0, 0.0
    held = Counter(used or {})
    peak = dict(held)
    rest, copies = RestOfPlan(in_order(moves), (), limits, ()), _Copies(moves)
    most, partitions, leaders, requests = 0, 0, 0, 0
    while rest.waiting or rest.in_flight:
        is_look = bool(rest.waiting) and now >= next_look
        next_look = now + pause if is_look else next_look
        asked = rest.fitting() if is_look or not rest.in_flight else ()
        assert asked or rest.in_flight, "nothing runs, and nothing that waits fits"
        ended = []
        if asked and (not rest.in_flight or rest.is_due(asked, rest.busiest_ends())):
            requests += 1
            rest.started(asked)
            copies.begin(asked)
            for move in asked:
                for target in move.added:
                    held[target] += move.size_bytes
                    peak[target] = max(peak.get(target, 0), held[target])
            most = max(most, copies.most_of_an_end)
            partitions = max(partitions, len(rest.in_flight))
            leaders = max(leaders, sum(move.changes_leader for move in rest.in_flight))
            ended = [move for move in asked if not move.added]
        if not ended:
            step = copies.first_end()
            if pause:  # ends that lie close together are one
                step = max(step, pause / COALESCED)
                step = min(step, next_look - now) if rest.waiting and next_look > now else step
            now += step
            ended = copies.pass_time(step)
        rest.ended(ended)
        for move in ended:
            for broker in move.removed:
                held[broker] -= move.size_bytes
    return RollingRun(now, peak, most, partitions, leaders, requests, bound)


def _shared(ends_of: NDArray[np.int64], ends: int) -> NDArray[np.float64]:
    """Each copy's share of 1 an end: the tightest ends are divided first (max-min fairness)."""
    sends, receives = ends_of
    rate, room, waiting = np.zeros(len(sends)), np.ones(ends), np.arange(len(sends))
    while len(waiting):
        count = np.bincount(sends, minlength=ends) + np.bincount(receives, minlength=ends)
        share = np.divide(room, count, out=np.full(ends, np.inf), where=count > 0)
        tightest, least = np.minimum(share[sends], share[receives]), np.full(ends, np.inf)
        np.minimum.at(least, sends, tightest)
        np.minimum.at(least, receives, tightest)
        # An end decides on its copies if no other end of theirs is tighter.
        decides = share <= least * (1 + 1e-9)
        now = decides[sends] | decides[receives]
        rate[waiting[now]] = tightest[now]
        room -= np.bincount(sends[now], tightest[now], ends) + np.bincount(receives[now], tightest[now], ends)
        room = np.maximum(room, 0)
        waiting, sends, receives = waiting[~now], sends[~now], receives[~now]
    return rate
