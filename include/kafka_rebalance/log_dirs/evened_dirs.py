"""Which replicas move between the log dirs of one broker, so that its bytes are even or one log dir is empty.

Nothing here crosses brokers: a replica list stays as it is. Each log dir counts as a disk of its own. Its share of the
broker's bytes is by capacity where every log dir tells one (Kafka 3.3 and later), else all shares are equal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from kafka_rebalance.documents.log_dir_plan import LogDirMove, Replica

_NOISE_BYTES = 1e-3  # shares are fractions


@dataclass(frozen=True, slots=True)
class Dir:
    """One log dir of a broker. `total_bytes` and `usable_bytes` are its disk's; None: not told."""

    path: str
    replicas: Mapping[Replica, int]  # bytes of each
    total_bytes: int | None = None
    usable_bytes: int | None = None
    may_receive: bool = True

    @property
    def size_bytes(self) -> int:
        return sum(self.replicas.values())

    def room_bytes(self, headroom: float) -> float:
        """What may still be copied into it. Nothing that leaves it counts: Kafka deletes that only later."""
        if self.usable_bytes is None:
            return inf
        return max(0.0, self.usable_bytes - headroom * (self.total_bytes or 0))


@dataclass(frozen=True, slots=True)
class DirMoves:
    """The moves of one broker. `bound_bytes`: no plan that does the job copies less.

    `left_bytes`: what a balance leaves outside the band, and what a drain leaves in its log dir.
    """

    moves: tuple[LogDirMove, ...] = ()
    bound_bytes: int = 0
    left_bytes: int = 0


def even_dirs(dirs: Sequence[Dir], tolerance: float, headroom: float, kept: Collection[Replica] = ()) -> DirMoves:
    """Moves that bring each log dir to its share ± `tolerance`, with few bytes: greedy, the same for the same input.

    `kept` are replicas that stay. No replica moves twice. Each move lowers the bytes outside the band.
    """
    return _Even(dirs, tolerance, headroom, kept).planned()


def emptied_dir(dirs: Sequence[Dir], path: str, headroom: float, kept: Collection[Replica] = ()) -> DirMoves:
    """Moves of everything in `path`, the largest first, each to the log dir that is then least full for its share."""
    leaving = next(log_dir for log_dir in dirs if log_dir.path == path)
    targets = [log_dir for log_dir in dirs if log_dir.path != path and log_dir.may_receive]
    load = {log_dir.path: log_dir.size_bytes for log_dir in targets}
    room = {log_dir.path: log_dir.room_bytes(headroom) for log_dir in targets}
    weight = _weights(targets)
    moves, left_bytes = list[LogDirMove](), 0
    for replica, size in sorted(leaving.replicas.items(), key=lambda item: (-item[1], item[0])):
        fitting = [log_dir.path for log_dir in targets if size <= room[log_dir.path]] if replica not in kept else []
        if not fitting:
            left_bytes += size
            continue
        to = min(fitting, key=lambda other: ((load[other] + size) / weight[other], other))
        moves.append(LogDirMove(*replica, path, to, size))
        load[to] += size
        room[to] -= size
    return DirMoves(tuple(moves), leaving.size_bytes, left_bytes)


def _weights(dirs: Sequence[Dir]) -> dict[str, float]:
    totals = {log_dir.path: log_dir.total_bytes for log_dir in dirs}
    if any(not total for total in totals.values()):
        return dict.fromkeys(totals, 1.0)
    return {path: float(total or 0) for path, total in totals.items()}


class _Even:
    def __init__(self, dirs: Sequence[Dir], tolerance: float, headroom: float, kept: Collection[Replica]) -> None:
        weight = _weights(dirs)
        total, weights = sum(one.size_bytes for one in dirs), sum(weight.values())
        share = {path: total * one / weights for path, one in weight.items()}
        self._low = {path: (1 - tolerance) * one for path, one in share.items()}
        self._high = {path: (1 + tolerance) * one for path, one in share.items()}
        self._load = {one.path: one.size_bytes for one in dirs}
        self._room = {one.path: one.room_bytes(headroom) if one.may_receive else 0.0 for one in dirs}
        self._movable = {
            one.path: sorted((size, replica) for replica, size in one.replicas.items() if size and replica not in kept)
            for one in dirs
        }

    def planned(self) -> DirMoves:
        over = sum(max(0.0, load - self._high[path]) for path, load in self._load.items())
        under = sum(max(0.0, self._low[path] - load) for path, load in self._load.items())
        moves = []
        while (best := min(self._candidates(), default=None)) is not None:
            *_, size, replica, source, target = best
            self._movable[source].remove((size, replica))
            self._load[source] -= size
            self._load[target] += size
            self._room[target] -= size
            moves.append(LogDirMove(*replica, source, target, size))
        left_bytes = sum(self._outside(path, load) for path, load in self._load.items())
        return DirMoves(tuple(moves), ceil(max(over, under) - _NOISE_BYTES), int(left_bytes))

    def _candidates(self) -> Iterator[tuple[bool, float, int, Replica, str, str]]:
        """(is too large, -what it brings, size, replica, from, to); the smallest is the best.

        A move brings the bytes by which less is outside the band. It is too large if it copies more than that, or if
        one log dir leaves the band on the other side. What a move brings is piecewise linear in its size. So only sizes
        next to the corners count.
        """
        for source, movable in self._movable.items():
            for target in self._load:
                if source == target or not movable:
                    continue
                room = self._room[target]
                corners = (
                    self._load[source] - self._high[source],
                    self._load[source] - self._low[source],
                    self._low[target] - self._load[target],
                    self._high[target] - self._load[target],
                    room,
                )
                places = {bisect_left(movable, (corner,)) for corner in corners}
                for place in sorted({*places, *(place - 1 for place in places)}):
                    if 0 <= place < len(movable) and movable[place][0] <= room:
                        size, replica = movable[place]
                        gain = self._gain(source, target, size)
                        if gain >= 1:
                            is_too_large = gain < size or size > min(corners[1], corners[3])
                            yield is_too_large, -gain, size, replica, source, target

    def _gain(self, source: str, target: str, size: int) -> float:
        loads = {source: self._load[source] - size, target: self._load[target] + size}
        return sum(self._outside(path, self._load[path]) - self._outside(path, load) for path, load in loads.items())

    def _outside(self, path: str, load: float) -> float:
        return max(0.0, load - self._high[path], self._low[path] - load)
