"""Which approved moves may be requested beside those in flight.

A cluster with a request znode takes no request while another one is there, so its batches run one after the other.
Without that znode moves are added as others end. They keep all that the approver has read: a batch's limits hold for
whatever is in flight at once, and no disk gets fuller than the batches one by one would fill it (`disk_rises`).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.execution.disk_rises import DiskRises
from kafka_rebalance.execution.eta import received_and_sent
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition

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


def fitting(
    waiting: Sequence[Move], in_flight: Collection[Move], limits: Limits, ended: Collection[Move] | None = None
) -> tuple[Move, ...]:
    """The moves that may be requested now, of those that wait, in their order.

    `waiting`: every move that is still to be requested, `in_order`. `in_flight`: what was requested and has not ended.
    `ended`: all other moves of the plan; without them disks are not looked at.

    The next one is a move of the broker that has most left to copy for each copy that it has in flight; of its moves,
    the first in the order. So the broker on which the plan's end depends is never idle, even where places are few.
    """
    disks = None if ended is None else DiskRises(ended, in_flight, waiting)
    used, left = _copies(in_flight, limits), _bytes_left((*in_flight, *waiting))
    places, leaders = limits.partitions - len(in_flight), limits.leader_changes - _leader_changes(in_flight)
    of_end: defaultdict[End, deque[Move]] = defaultdict(deque)
    for move in waiting if places > 0 else ():
        for end in _ends(move) if move.size_bytes else ():
            of_end[end].append(move)
    chosen: set[TopicPartition] = set()

    def take(move: Move) -> bool:
        nonlocal places, leaders
        needed = _copies([move], limits)
        if (
            move.topic_partition in chosen
            or (move.changes_leader and leaders < 1)
            or any(used[end] + count > limits.copies_per_broker for end, count in needed.items())
            or (disks is not None and disks.blocking(move))
        ):
            return False  # and so it stays: whatever is taken leaves less room
        if disks is not None:
            disks.start(move)
        used.update(needed)
        chosen.add(move.topic_partition)
        places, leaders = places - 1, leaders - move.changes_leader
        return True

    most_first = [(-left[end] / (used[end] + 1), end) for end in of_end]
    heapq.heapify(most_first)
    while most_first and places > 0:
        seen, end = heapq.heappop(most_first)
        now = -left[end] / (used[end] + 1)
        if seen == now:  # else it has got copies from the other end of moves
            while of_end[end] and not take(of_end[end].popleft()):
                pass
            now = -left[end] / (used[end] + 1)
        if of_end[end]:
            heapq.heappush(most_first, (now, end))
    for move in waiting:
        if places < 1:
            break
        if not (move.size_bytes and move.added):
            take(move)
    return tuple(move for move in waiting if move.topic_partition in chosen)


def is_due(fits: Sequence[Move], in_flight: Collection[Move], limits: Limits, busiest: Collection[End]) -> bool:
    """Whether a request is due: some moves fit, and half of the places that they need are free.

    To ask for each move as soon as it fits would take about a request a move, and a broker with half of its places
    taken is busy all the same. But the plan ends no earlier than the broker that has most left to copy: for a move of
    such a broker one free place is enough. `busiest`: see `busiest_ends`.
    """
    if not fits:
        return False
    if any(end in busiest for move in fits for end in _ends(move)):
        return True
    if 2 * len(in_flight) > limits.partitions:
        return False
    used, leaders_are_free = _copies(in_flight, limits), 2 * _leader_changes(in_flight) <= limits.leader_changes
    return any(
        all(2 * used[end] <= limits.copies_per_broker for end in _ends(move))
        for move in fits
        if leaders_are_free or not move.changes_leader
    )


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
        left = {move.topic_partition for move in in_flight}
        if self.flying <= left:
            return False
        if self.freeing and 2 * len(self.freeing & left) <= len(self.freeing):
            return True
        return is_due(fitting(self.ready, in_flight, self.limits), in_flight, self.limits, self.busiest)


def beside(waiting: Sequence[Move], in_flight: Collection[Move], limits: Limits, ended: Collection[Move]) -> Beside:
    """Arguments as for `fitting`."""
    disks, busiest = DiskRises(ended, in_flight, waiting), busiest_ends((*in_flight, *waiting))
    ready: list[Move] = []
    full: set[int] = set()
    for move in sorted(waiting, key=lambda one: busiest.isdisjoint(_ends(one))):
        if len(ready) == limits.partitions:
            break
        blocking = disks.blocking(move)
        full.update(blocking)
        if not blocking:
            ready.append(move)
    freeing = (move for move in in_flight if move.size_bytes and not full.isdisjoint(move.removed))
    return Beside(
        limits,
        tuple(ready),
        frozenset(move.topic_partition for move in in_flight),
        frozenset(move.topic_partition for move in freeing),
        busiest,
    )


def _ends(move: Move) -> list[End]:
    """The brokers that copy something for this move."""
    found = [(broker, "receives") for broker in move.added]
    return [*found, (move.source, "sends")] if found else []


def busiest_ends(left: Collection[Move]) -> frozenset[End]:
    """The ends that have about as much to copy as any; none: there are no bytes."""
    by_end = _bytes_left(left)
    most = max(by_end.values(), default=0)
    return frozenset(end for end, size in by_end.items() if size >= NEARLY * most) if most else frozenset()


def _bytes_left(moves: Collection[Move]) -> Mapping[End, int]:
    received, sent = received_and_sent(moves)
    ways = (("receives", received), ("sends", sent))
    return Counter({(broker, way): size for way, by_broker in ways for broker, size in by_broker.items()})


def _copies(moves: Iterable[Move], limits: Limits) -> Counter[End]:
    """Copies that each broker sends and receives. A move alone may take more than all places."""
    found: Counter[End] = Counter()
    for move in moves:
        for broker in move.added:
            found[broker, "receives"] += 1
        if move.added:
            found[move.source, "sends"] += min(len(move.added), limits.copies_per_broker)
    return found


def _leader_changes(moves: Iterable[Move]) -> int:
    return sum(move.changes_leader for move in moves)
