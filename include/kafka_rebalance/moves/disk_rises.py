"""How far the disks of brokers may rise while moves are requested beside others.

The batches of a plan, one after the other, take the disks of each broker to a highest point, which the approver has
read. Moves out of that order may not go beyond it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from math import inf

from kafka_rebalance.model.candidate import Move

_ByBatch = defaultdict[int, Counter[int]]  # {broker: {batch: bytes}}


class DiskRises:
    """Of the moves in a plan that have ended, are in flight and wait. All are bytes above what the snapshot found.

    At any time the rest of the plan, batch by batch, stays below each broker's highest point: a move is allowed only if
    that still holds after it. So nothing that is in flight fills a disk further, and the plan never stops half-way.
    """

    def __init__(self, ended: Collection[Move], in_flight: Collection[Move], waiting: Collection[Move]) -> None:
        self._arrivals, self._removals = _bytes(waiting)  # that are still to be requested, and to end
        self._level: Counter[int] = Counter()
        self._rooms: dict[int, tuple[Sequence[int], Sequence[int]]] = {}  # see `_room`; of brokers since they changed
        flying_arrivals, flying_removals = _bytes(in_flight)
        ended_arrivals, ended_removals = _bytes(ended)
        brokers = {broker for by_broker in (ended_arrivals, flying_arrivals, self._arrivals) for broker in by_broker}
        self._highest = {}
        for broker in brokers:
            arrivals = ended_arrivals[broker] + flying_arrivals[broker] + self._arrivals[broker]
            removals = ended_removals[broker] + flying_removals[broker] + self._removals[broker]
            self._highest[broker] = _highest(arrivals, removals)
            here = ended_arrivals[broker].total() + flying_arrivals[broker].total()
            self._level[broker] = here - ended_removals[broker].total()
            self._removals[broker] += flying_removals[broker]

    def blocking(self, move: Move) -> tuple[int, ...]:
        """The brokers whose disks this move would take too far now; none: it is allowed."""
        if not move.size_bytes:
            return ()
        return tuple(broker for broker in move.added if move.size_bytes > self._room(broker, move.batch))

    def start(self, move: Move) -> None:
        """The move is in flight from now on."""
        self._arrive(move, move.size_bytes)

    def take_back(self, move: Move) -> None:
        """It waits again, as if it had never started."""
        self._arrive(move, -move.size_bytes)

    def end(self, move: Move) -> None:
        """The move was in flight, and its old replicas are gone."""
        for broker in move.removed:
            self._level[broker] -= move.size_bytes
            self._removals[broker][move.batch] -= move.size_bytes
            self._rooms.pop(broker, None)

    def _arrive(self, move: Move, size_bytes: int) -> None:
        for broker in move.added:
            self._level[broker] += size_bytes
            self._arrivals[broker][move.batch] -= size_bytes
            self._rooms.pop(broker, None)

    def _room(self, broker: int, batch: int) -> float:
        """Bytes that may come to the broker now with a move of this batch."""
        if broker not in self._rooms:
            self._rooms[broker] = self._rooms_now(broker)
        batches, rooms = self._rooms[broker]
        earlier = bisect_left(batches, batch)
        # Behind the last of the earlier removals, the level is what the plan itself would have.
        return rooms[earlier - 1] if earlier else inf

    def _rooms_now(self, broker: int) -> tuple[Sequence[int], Sequence[int]]:
        """(batches with removals to come; bytes that may come ahead of each of them, with a move of a later batch)."""
        arrivals, removals = self._arrivals[broker], self._removals[broker]
        batches = sorted(batch for batch, size in removals.items() if size)
        level = top = self._level[broker]
        rooms = []
        for batch in sorted(arrivals.keys() | batches) if batches else ():
            level += arrivals[batch]
            top = max(top, level)
            if removals[batch]:
                rooms.append(self._highest[broker] - top)
                level -= removals[batch]
        return batches, rooms


def _bytes(moves: Collection[Move]) -> tuple[_ByBatch, _ByBatch]:
    """(bytes that come to each broker, bytes that leave it), by batch."""
    arrivals: _ByBatch = defaultdict(Counter)
    removals: _ByBatch = defaultdict(Counter)
    for move in moves:
        for broker in move.added if move.size_bytes else ():
            arrivals[broker][move.batch] += move.size_bytes
        for broker in move.removed if move.size_bytes else ():
            removals[broker][move.batch] += move.size_bytes
    return arrivals, removals


def _highest(arrivals: Counter[int], removals: Counter[int]) -> int:
    """The most above the snapshot, if the batches run one after the other."""
    level = highest = 0
    for batch in sorted(arrivals.keys() | removals.keys()):
        level += arrivals[batch]
        highest = max(highest, level)
        level -= removals[batch]
    return highest
