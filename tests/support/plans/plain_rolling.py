"""The rule of `execution.rolling` at its plainest: no memory, and it counts all moves of the plan at each question."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.moves.run_position import Limits


def fitting(
    waiting: Sequence[Move], in_flight: Sequence[Move], limits: Limits, ended: Collection[Move] | None
) -> tuple[Move, ...]:
    """As `RestOfPlan.fitting` of these moves."""
    chosen: list[Move] = []
    while len(in_flight) + len(chosen) < limits.partitions:
        flying, left = [*in_flight, *chosen], [move for move in waiting if move not in chosen]
        sized = [move for move in left if move.size_bytes and move.added]
        ends = {end for move in sized for end in _copies(move, limits)}
        most_first = sorted(ends, key=lambda end: (-_bytes_left(end, [*in_flight, *waiting], flying, limits), end))
        tried = []
        for end in most_first:
            of_it = [move for move in sized if end in _copies(move, limits)]
            tried += sorted(of_it, key=lambda move: _most_of_others(move, end, flying, limits))
        tried += [move for move in left if not (move.size_bytes and move.added)]
        found = next((move for move in tried if _fits(move, flying, left, limits, ended)), None)
        if found is None:
            break
        chosen.append(found)
    return tuple(move for move in waiting if move in chosen)


def _copies(move: Move, limits: Limits) -> dict[tuple[int, str], int]:
    found = {(broker, "receives"): 1 for broker in move.added}
    return found | {(move.source, "sends"): min(len(move.added), limits.copies_per_broker)} if move.added else found


def _used(end: tuple[int, str], flying: Collection[Move], limits: Limits) -> int:
    return sum(_copies(move, limits).get(end, 0) for move in flying)


def _most_of_others(move: Move, end: tuple[int, str], flying: Collection[Move], limits: Limits) -> int:
    return max((_used(other, flying, limits) for other in _copies(move, limits) if other != end), default=0)


def _bytes_left(end: tuple[int, str], moves: Collection[Move], flying: Collection[Move], limits: Limits) -> float:
    """Of all these moves, for each copy that is in flight, and one more."""
    broker, way = end
    counts = ((len(move.added) * (move.source == broker) if way == "sends" else broker in move.added) for move in moves)
    left = sum(move.size_bytes * count for move, count in zip(moves, counts, strict=True))
    return left / (_used(end, flying, limits) + 1)


def _fits(
    move: Move, flying: Collection[Move], left: Collection[Move], limits: Limits, ended: Collection[Move] | None
) -> bool:
    room = all(
        _used(end, flying, limits) + count <= limits.copies_per_broker for end, count in _copies(move, limits).items()
    )
    leaders = sum(one.changes_leader for one in (*flying, move)) <= limits.leader_changes or not move.changes_leader
    disks = ended is None or not move.size_bytes
    return room and leaders and (disks or all(_disk_has_room(to, move, ended or (), flying, left) for to in move.added))


def _disk_has_room(
    broker: int, move: Move, ended: Collection[Move], flying: Collection[Move], left: Collection[Move]
) -> bool:
    """Whether the rest of the plan, batch by batch, stays below the highest point of all batches."""
    level = highest = 0
    for batch in sorted({one.batch for one in (*ended, *flying, *left)}):
        level += _arriving(broker, batch, [*ended, *flying, *left])
        highest = max(highest, level)
        level -= _leaving(broker, batch, [*ended, *flying, *left])
    level = _arriving(broker, None, [*ended, *flying]) - _leaving(broker, None, ended) + move.size_bytes
    removing = {one.batch for one in (*flying, *left) if one.size_bytes and broker in one.removed}
    last = max((batch for batch in removing if batch < move.batch), default=0)
    for batch in sorted(one for one in removing | {one.batch for one in left} if one <= last):
        level += _arriving(broker, batch, left)
        if level > highest:
            return False
        level -= _leaving(broker, batch, [*flying, *left])
    return True


def _arriving(broker: int, batch: int | None, moves: Collection[Move]) -> int:
    return sum(one.size_bytes for one in moves if broker in one.added and batch in (None, one.batch))


def _leaving(broker: int, batch: int | None, moves: Collection[Move]) -> int:
    return sum(one.size_bytes for one in moves if broker in one.removed and batch in (None, one.batch))
