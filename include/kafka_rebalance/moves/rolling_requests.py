"""Which approved moves may be requested beside those in flight.

A cluster with a request znode takes no request while another one is there, so its batches run one after the other.
Without that znode moves are added as others end. They keep all that the approver has read: a batch's limits hold for
whatever is in flight at once, and no disk gets fuller than the batches one by one would fill it (`DiskRises`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.eta import received_and_sent

# A broker with this share of the most that any broker has left to copy can end last as well. With 1.0 a single broker
# would be kept busy, and two alike would take turns.
NEARLY = 0.9
End = tuple[int, str]  # a broker, and whether it receives or sends


@dataclass(frozen=True, slots=True)
class Limits:
    """Of what is in flight at once; as for a batch in `Settings`."""

    copies_per_broker: int
    partitions: int
    leader_changes: int


def in_order(moves: Collection[Move]) -> list[Move]:
    """All moves of a plan in the order in which they are requested: by batch, and in a batch those first whose broker
    copies most in the whole plan.

    So the plan's order stays, and the busiest broker is busy from the beginning to the end.
    """
    received, sent = received_and_sent(moves)

    def busiest(move: Move) -> int:
        return max((sent[move.source], *(received[broker] for broker in move.added))) if move.added else 0

    return sorted(moves, key=lambda move: (move.batch, -busiest(move), -move.bytes_to_copy, move.topic_partition))


class RestOfPlan:
    """The moves of a plan that wait and that are in flight, and which of them may be requested now.

    It is told what has started and ended. So a look costs what has changed since the last one, not the whole plan.
    """

    def __init__(
        self,
        waiting: Collection[Move],
        in_flight: Collection[Move],
        limits: Limits,
        ended: Collection[Move] | None = None,
    ) -> None:
        """`waiting`: every move that is still to be requested, `in_order`. `in_flight`: what was requested and has not
        ended. `ended`: all other moves of the plan; without them disks are not looked at.
        """
        self._limits = limits
        self._waiting = {move.topic_partition: move for move in waiting}
        self._in_flight = {move.topic_partition: move for move in in_flight}
        self._disks = None if ended is None else DiskRises(ended, in_flight, waiting)
        self._left = _bytes_by_end((*in_flight, *waiting))
        self._places = {move.topic_partition: _places(move, limits) for move in (*in_flight, *waiting)}
        self._order = {partition: place for place, partition in enumerate(self._waiting)}
        self._of_end: defaultdict[End, dict[TopicPartition, Move]] = defaultdict(dict)  # that copies its bytes
        self._without_bytes: dict[TopicPartition, Move] = {}
        for partition, move in self._waiting.items():
            for queue in self._queues(move):
                queue[partition] = move
        self._used: Counter[End] = Counter()  # copies that it sends or receives
        self._leader_changes = 0
        for move in in_flight:
            self._occupy(move)

    @property
    def waiting(self) -> Collection[Move]:
        return self._waiting.values()

    @property
    def in_flight(self) -> Collection[Move]:
        return self._in_flight.values()

    def started(self, moves: Collection[Move]) -> None:
        """These moves were requested."""
        for move in moves:
            self._occupy(move)
            if self._disks is not None:
                self._disks.start(move)
            for queue in self._queues(move):
                del queue[move.topic_partition]
            self._in_flight[move.topic_partition] = self._waiting.pop(move.topic_partition)

    def ended(self, moves: Collection[Move]) -> None:
        """These moves were in flight and are in place."""
        for move in moves:
            self._occupy(move, -1)
            if self._disks is not None:
                self._disks.end(move)
            del self._in_flight[move.topic_partition]
        self._left.subtract(_bytes_by_end(moves))

    def fitting(self) -> tuple[Move, ...]:
        """The moves that may be requested now, of those that wait, in their order.

        The next one is a move of the broker that has most left to copy for each copy that it has in flight. So the
        broker on which the plan's end depends is never idle, even where places are few. Of its moves, it is the one
        whose other brokers have fewest copies in flight, because these share their rate; of several the first in the
        order.
        """
        places, chosen = self._limits.partitions - len(self._in_flight), dict[TopicPartition, Move]()

        def take_one(moves: Iterable[Move], end: End | None = None) -> bool:
            """Whether one fits."""
            best, fewest = None, inf
            for move in moves:
                ends = self._places[move.topic_partition]
                copies = max([self._used[other] for other in ends if other != end]) if end else 0
                if copies < fewest and move.topic_partition not in chosen and self._fits(move):
                    best, fewest = move, copies
                    if not copies:
                        break
            if best is not None:
                chosen[best.topic_partition] = best
                self._occupy(best)
                if self._disks is not None:
                    self._disks.start(best)
            return best is not None

        most_first = [(-self._left_for_each_copy(end), end) for end, queue in self._of_end.items() if queue]
        heapq.heapify(most_first)
        while most_first and len(chosen) < places:
            left_then, end = heapq.heappop(most_first)
            now = -self._left_for_each_copy(end)
            if left_then == now:  # else it has got copies from the other end of moves
                # An end of which nothing fits is done with: whatever is taken leaves less room.
                if self._used[end] >= self._limits.copies_per_broker or not take_one(self._of_end[end].values(), end):
                    continue
                now = -self._left_for_each_copy(end)
            heapq.heappush(most_first, (now, end))
        without_bytes = iter(self._without_bytes.values())
        while len(chosen) < places and take_one(without_bytes):
            pass
        for move in chosen.values():  # nobody has requested them yet
            self._occupy(move, -1)
            if self._disks is not None:
                self._disks.take_back(move)
        return tuple(sorted(chosen.values(), key=lambda move: self._order[move.topic_partition]))

    def is_due(self, fits: Sequence[Move], busiest: Collection[End]) -> bool:
        """Whether a request is due: some moves fit, and half of the places that they need are free.

        To ask for each move as soon as it fits would take about a request a move, and a broker with half of its places
        taken is busy all the same. But the plan ends no earlier than the broker that has most left to copy: for a move
        of such a broker one free place is enough. `busiest`: see `busiest_ends`.
        """
        limits = self._limits
        if any(end in busiest for move in fits for end in self._places[move.topic_partition]):
            return True
        if 2 * len(self._in_flight) > limits.partitions:
            return False
        leaders_are_free = 2 * self._leader_changes <= limits.leader_changes
        return any(
            all(2 * self._used[end] <= limits.copies_per_broker for end in self._places[move.topic_partition])
            for move in fits
            if leaders_are_free or not move.changes_leader
        )

    def busiest_ends(self) -> frozenset[End]:
        """The ends that have about as much to copy as any; none: there are no bytes."""
        most = max(self._left.values(), default=0)
        return frozenset(end for end, size in self._left.items() if size >= NEARLY * most) if most else frozenset()

    def beside(self) -> Beside:
        """What a follower watches of what waits."""
        busiest = self.busiest_ends()
        ready: list[Move] = []
        full: set[int] = set()
        for move in sorted(self.waiting, key=lambda waiting: busiest.isdisjoint(self._places[waiting.topic_partition])):
            if len(ready) == self._limits.partitions:
                break
            blocking = self._blocking(move)
            full.update(blocking)
            if not blocking:
                ready.append(move)
        freeing = (move for move in self.in_flight if move.size_bytes and not full.isdisjoint(move.removed))
        return Beside(
            self._limits,
            tuple(ready),
            frozenset(self._in_flight),
            frozenset(move.topic_partition for move in freeing),
            busiest,
        )

    def _queues(self, move: Move) -> list[dict[TopicPartition, Move]]:
        """In which it waits."""
        ends = self._places[move.topic_partition]
        return [self._of_end[end] for end in ends] if move.size_bytes and ends else [self._without_bytes]

    def _fits(self, move: Move) -> bool:
        used, most = self._used, self._limits.copies_per_broker
        for end, count in self._places[move.topic_partition].items():  # `all` takes twice as long
            if used[end] + count > most:
                return False
        if move.changes_leader and self._leader_changes >= self._limits.leader_changes:
            return False
        return not self._blocking(move)

    def _blocking(self, move: Move) -> tuple[int, ...]:
        return () if self._disks is None else self._disks.blocking(move)

    def _occupy(self, move: Move, sign: int = 1) -> None:
        """The move takes its places; with -1 it gives them back."""
        for end, count in self._places[move.topic_partition].items():
            self._used[end] += sign * count
        self._leader_changes += sign * move.changes_leader

    def _left_for_each_copy(self, end: End) -> float:
        return self._left[end] / (self._used[end] + 1)


@dataclass(frozen=True, slots=True)
class Beside:
    """What a follower needs to know of the rest of the plan, in order to see that a request is due."""

    limits: Limits
    ready: tuple[Move, ...]  # which no disk holds up; the busiest brokers' first, and no more than there are places
    flying: frozenset[TopicPartition]  # in flight when the worker looked
    freeing: frozenset[TopicPartition]  # of them, those whose end makes room on disks that hold up other moves
    busiest: frozenset[End]

    def is_due(self, in_flight: Collection[Move]) -> bool:
        """Whether a request is due with these moves left in flight.

        Never before one has ended since the worker looked: until then the worker would find what it has found.
        """
        still_flying = {move.topic_partition for move in in_flight}
        if self.flying <= still_flying:
            return False
        if self.freeing and 2 * len(self.freeing & still_flying) <= len(self.freeing):
            return True
        rest = RestOfPlan(self.ready, in_flight, self.limits)
        return rest.is_due(rest.fitting(), self.busiest)


def _bytes_by_end(moves: Collection[Move]) -> Counter[End]:
    received, sent = received_and_sent(moves)
    ways = (("receives", received), ("sends", sent))
    return Counter({(broker, way): size for way, by_broker in ways for broker, size in by_broker.items()})


def _places(move: Move, limits: Limits) -> Mapping[End, int]:
    """Copies that each broker sends or receives for it. A move alone may take more than all places."""
    added = move.added
    receiving = {(broker, "receives"): 1 for broker in added}
    return receiving | {(move.source, "sends"): min(len(added), limits.copies_per_broker)} if added else receiving


# How far the disks of brokers may rise while moves are requested beside others.
#
# The batches of a plan, one after the other, take the disks of each broker to a highest point, which the approver has
# read. Moves out of that order may not go beyond it.


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
