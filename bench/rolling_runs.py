"""A plan carried out on paper without barriers: moves are requested beside those in flight (`execution.rolling`).

Every broker sends and receives at the throttle's rate, which its copies share as evenly as their other ends allow. Time
is in bytes: a broker copies one byte in one unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.execution.eta import busiest_bytes
from kafka_rebalance.execution.rolling import Limits, busiest_ends, fitting, in_order, is_due
from kafka_rebalance.model.candidate import Move

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


@dataclass
class _Copy:
    move: Move
    target: int
    left: float


def roll(
    moves: Sequence[Move], limits: Limits, used: Mapping[int, int] | None = None, looks: int | None = None
) -> RollingRun:
    """With `looks`, somebody looks so often in the least time that the plan can take. Without, each end is
    seen at once.
    """
    bound = busiest_bytes(moves)
    pause, next_look = bound / looks if looks else 0.0, 0.0
    held = Counter(used or {})
    peak, waiting, now = dict(held), in_order(moves), 0.0
    copies: list[_Copy] = []
    rates: np.ndarray | None = None
    open_moves: dict[Move, int] = {}
    over: list[Move] = []
    most, partitions, leaders, requests = 0, 0, 0, 0
    while waiting or open_moves:
        is_look = bool(waiting) and now >= next_look
        next_look = now + pause if is_look else next_look
        asked = fitting(waiting, tuple(open_moves), limits, over) if is_look or not open_moves else ()
        assert asked or open_moves, "nothing runs, and nothing that waits fits"
        busiest = busiest_ends((*open_moves, *waiting)) if asked else frozenset()
        if asked and (not open_moves or is_due(asked, tuple(open_moves), limits, busiest)):
            requests += 1
            chosen = set(asked)
            waiting = [move for move in waiting if move not in chosen]
            for move in asked:
                rates, open_moves[move] = None, len(move.added)
                copies += [_Copy(move, target, float(move.size_bytes)) for target in move.added]
                for target in move.added:
                    held[target] += move.size_bytes
                    peak[target] = max(peak.get(target, 0), held[target])
            ends = Counter((end, way) for one in copies for end, way in ((one.move.source, 0), (one.target, 1)))
            most = max([most, *ends.values()])
            partitions = max(partitions, len(open_moves))
            leaders = max(leaders, sum(move.changes_leader for move in open_moves))
        ended = [move for move, count in open_moves.items() if not count]
        if not ended and copies:
            if rates is None or len(rates) != len(copies):
                rates = _shared(copies)
            step = min(one.left / rate for one, rate in zip(copies, rates, strict=True) if rate > 0)
            if pause:  # ends that lie close together are one
                step = max(step, pause / COALESCED)
                step = min(step, next_look - now) if waiting and next_look > now else step
            now += step
            for one, rate in zip(copies, rates, strict=True):
                one.left -= rate * step
            complete = [one for one in copies if one.left <= 1e-6 * one.move.size_bytes]
            copies = [one for one in copies if one.left > 1e-6 * one.move.size_bytes]
            for one in complete:
                open_moves[one.move] -= 1
            ended = [move for move, count in open_moves.items() if not count]
        over += ended
        for move in ended:
            del open_moves[move]
            for broker in move.removed:
                held[broker] -= move.size_bytes
    return RollingRun(now, peak, most, partitions, leaders, requests, bound)


def _shared(copies: Sequence[_Copy]) -> np.ndarray:
    """Each copy's share of 1 a broker and direction: the tightest end is divided first (max-min fairness)."""
    ends = {end: at for at, end in enumerate({e for one in copies for e in ((one.move.source, 0), (one.target, 1))})}
    sends = np.array([ends[one.move.source, 0] for one in copies])
    receives = np.array([ends[one.target, 1] for one in copies])
    rate, fixed, room = np.zeros(len(copies)), np.zeros(len(copies), dtype=bool), np.ones(len(ends))
    while not fixed.all():
        count = np.bincount(sends[~fixed], minlength=len(ends)) + np.bincount(receives[~fixed], minlength=len(ends))
        share = np.divide(room, count, out=np.full(len(ends), np.inf), where=count > 0)
        least = share.min()
        tight = share <= least * (1 + 1e-9)
        now = ~fixed & (tight[sends] | tight[receives])
        rate[now] = least
        room -= (
            np.bincount(sends[now], minlength=len(ends)) * least
            + np.bincount(receives[now], minlength=len(ends)) * least
        )
        room = np.maximum(room, 0)
        fixed |= now
    return rate
