"""Which approved moves may be requested beside those in flight.

A cluster with a request znode takes no request while another one is there, so its batches run one after the other.
Without that znode moves are added as others end. They keep the order of the batches and all that the approver has read:
a batch's limits hold for whatever is in flight at once, and no disk gets fuller than the batches one by one would fill
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kafka_rebalance.execution.eta import received_and_sent
from kafka_rebalance.model.candidate import Move

# A broker with this share of the most that any broker has left to copy can end last as well. With 1.0 a single broker
# would be kept busy, and two alike would take turns.
NEARLY = 0.9


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


def fitting(waiting: Sequence[Move], in_flight: Collection[Move], limits: Limits) -> tuple[Move, ...]:
    """The moves that may be requested now, of those that wait, in their order.

    `waiting`: every move that is still to be requested, `in_order`. `in_flight`: what was requested and has not ended.

    A move that copies bytes to a broker starts only after every move of an earlier batch that takes bytes off this
    broker has ended. So what is there at once is at most what the move's own batch leaves there.
    """
    used = _copies(in_flight, limits)
    places, leaders = limits.partitions - len(in_flight), limits.leader_changes - _leader_changes(in_flight)
    first_off: dict[int, int] = {}
    for move in (*in_flight, *waiting):
        for broker in move.removed if move.size_bytes else ():
            first_off[broker] = min(move.batch, first_off.get(broker, move.batch))
    found = []
    for move in waiting:
        if places < 1:
            break
        if move.changes_leader and leaders < 1:
            continue
        if move.size_bytes and any(first_off.get(broker, move.batch) < move.batch for broker in move.added):
            continue
        needed = _copies([move], limits)
        if any(used[broker, way] + count > limits.copies_per_broker for (broker, way), count in needed.items()):
            continue
        used.update(needed)
        places -= 1
        leaders -= move.changes_leader
        found.append(move)
    return tuple(found)


def has_room(waiting: Sequence[Move], in_flight: Collection[Move], limits: Limits) -> bool:
    """Whether a request is due: a move fits, and half of the places that it needs are free.

    To ask for each move as soon as it fits would take about a request a move, and a broker with half of its places
    taken is busy all the same. But the plan ends no earlier than the broker that has most left to copy: for a move of
    such a broker one free place is enough.
    """
    fits = fitting(waiting, in_flight, limits)
    if not fits:
        return False
    busiest = _busiest((*in_flight, *waiting))
    if any(not busiest.isdisjoint(_copies([move], limits)) for move in fits):
        return True
    if 2 * len(in_flight) > limits.partitions:
        return False
    used, leaders_are_free = _copies(in_flight, limits), 2 * _leader_changes(in_flight) <= limits.leader_changes
    return any(
        all(2 * used[end] <= limits.copies_per_broker for end in _copies([move], limits))
        for move in fits
        if leaders_are_free or not move.changes_leader
    )


_Ends = Counter[tuple[int, str]]


def _busiest(left: Collection[Move]) -> set[tuple[int, str]]:
    """The brokers, and whether they send or receive, that have about as much to copy as any of them; none: no bytes."""
    received, sent = received_and_sent(left)
    most = max((0, *received.values(), *sent.values()))
    if not most:
        return set()
    ways = (("receives", received), ("sends", sent))
    return {(broker, way) for way, by_broker in ways for broker, size in by_broker.items() if size >= NEARLY * most}


def _copies(moves: Iterable[Move], limits: Limits) -> _Ends:
    """Copies that each broker sends and receives. A move alone may take more than all places."""
    found: _Ends = Counter()
    for move in moves:
        for broker in move.added:
            found[broker, "receives"] += 1
        if move.added:
            found[move.source, "sends"] += min(len(move.added), limits.copies_per_broker)
    return found


def _leader_changes(moves: Iterable[Move]) -> int:
    return sum(move.changes_leader for move in moves)
