"""Where each approved move between log dirs stands, by what the brokers tell, and which may be requested next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from kafka_rebalance.documents.log_dir_plan import LogDirMove, LogDirPlan, Replica
from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.finding import Finding, some


class CopyState(StrEnum):
    WAITING = "waiting"  # the replica is in its log dir of before, and no copy of it is under way
    COPYING = "copying"
    DONE = "done"
    GONE = "gone"  # the broker no longer has the replica: its topic was deleted, or it moved to another broker
    ELSEWHERE = "elsewhere"  # somebody has moved it, or moves it, to a log dir of neither before nor after


@dataclass(frozen=True, slots=True)
class DiskOfDir:
    """The disk of one log dir now; None: not told (before Kafka 3.3)."""

    total_bytes: int | None = None
    usable_bytes: int | None = None
    online: bool = True
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class DirsNow:
    """What the brokers of a plan have just told. Every one of them has answered."""

    disks: Mapping[int, Mapping[str, DiskOfDir]]  # by broker and path
    paths: Mapping[Replica, str]  # where each replica lies
    sizes: Mapping[Replica, int]  # bytes of each
    future: Mapping[Replica, tuple[str, int]]  # of each copy under way: its log dir, and its bytes so far


def state_of(move: LogDirMove, now: DirsNow) -> CopyState:
    path, (coming, _) = now.paths.get(move.replica), now.future.get(move.replica, (None, 0))
    if path is None:
        return CopyState.GONE
    if path == move.after:
        return CopyState.DONE if coming is None else CopyState.ELSEWHERE
    if path != move.before or coming not in (None, move.after):
        return CopyState.ELSEWHERE
    return CopyState.WAITING if coming is None else CopyState.COPYING


def states_of(moves: Iterable[LogDirMove], now: DirsNow) -> dict[CopyState, list[LogDirMove]]:
    """Every state, with its moves in the plan's order."""
    by_state: dict[CopyState, list[LogDirMove]] = {state: [] for state in CopyState}
    for move in moves:
        by_state[state_of(move, now)].append(move)
    return by_state


def check_as_approved(states: Mapping[CopyState, Sequence[LogDirMove]]) -> None:
    """Raises StaleProposalError if somebody else has moved one of the replicas."""
    if elsewhere := states[CopyState.ELSEWHERE]:
        raise StaleProposalError(
            f"Somebody else has moved, or moves, {some([move.replica for move in elsewhere])} to another log dir than "
            "the approved plan. No further copy was requested. Start a new Dag run to plan from the current log dirs."
        )


def offline_dirs(disks: Mapping[int, Mapping[str, DiskOfDir]]) -> Iterator[Finding]:
    """Log dirs that have failed. Nobody can tell what is in them."""
    for broker, dirs in sorted(disks.items()):
        failed = sorted(path for path, disk in dirs.items() if not disk.online)
        if failed:
            yield Finding(
                f"broker {broker}",
                f"log dir {', '.join(failed)} is offline, so nobody knows which replicas are in it",
                "Repair the disk and restart the broker. If the disk is lost, take it out of log.dirs",
            )


def _cordoned_targets(moves: Iterable[LogDirMove], now: DirsNow) -> Iterator[Finding]:
    """Log dirs that somebody has cordoned, and which replicas wait for (KIP-1066)."""
    waiting = [move for move in moves if state_of(move, now) is CopyState.WAITING]
    shut = {(move.broker, move.after) for move in waiting if _is_cordoned(move, now)}
    for broker, path in sorted(shut):
        yield Finding(
            f"broker {broker}",
            f"log dir {path} is cordoned (cordoned.log.dirs), so Kafka puts no new replica there",
            "Ask who cordoned it and why. Start a new Dag run to plan without it, or remove it from cordoned.log.dirs",
        )


def _is_cordoned(move: LogDirMove, now: DirsNow) -> bool:
    return now.disks.get(move.broker, {}).get(move.after, DiskOfDir()).cordoned


def next_moves(plan: LogDirPlan, now: DirsNow, in_time: float = inf) -> tuple[LogDirMove, ...]:
    """What to request now: in the plan's order, as many as may copy at once, each only where it has room.

    `in_time`: the bytes that each broker can still copy before a window closes.
    """
    states = states_of(plan.moves, now)
    copying = Counter(move.broker for move in states[CopyState.COPYING])
    room = _room(plan, now, states[CopyState.COPYING])
    bytes_left = dict.fromkeys(plan.brokers, in_time)
    for move in states[CopyState.COPYING]:
        bytes_left[move.broker] -= _to_copy(move, now)
    chosen = []
    for move in states[CopyState.WAITING]:
        place, size_bytes = (move.broker, move.after), now.sizes[move.replica]
        may_copy = copying[move.broker] < plan.copies_per_broker and not _is_cordoned(move, now)
        if may_copy and size_bytes <= min(room.get(place, 0), bytes_left[move.broker]):
            copying[move.broker] += 1
            room[place] -= size_bytes
            bytes_left[move.broker] -= size_bytes
            chosen.append(move)
    return tuple(chosen)


def without_room(plan: LogDirPlan, now: DirsNow) -> Iterator[Finding]:
    """Log dirs that take nothing, and brokers on which moves wait, nothing copies, and no waiting move has room."""
    yield from _cordoned_targets(plan.moves, now)
    states = states_of(plan.moves, now)
    going_on = {move.broker for move in (*states[CopyState.COPYING], *next_moves(plan, now))}
    stuck: dict[int, list[LogDirMove]] = {}
    for move in states[CopyState.WAITING]:
        if move.broker not in going_on and not _is_cordoned(move, now):
            stuck.setdefault(move.broker, []).append(move)
    for broker, moves in sorted(stuck.items()):
        smallest = min(moves, key=lambda move: now.sizes[move.replica])
        disk = now.disks[broker].get(smallest.after, DiskOfDir())
        yield Finding(
            f"broker {broker}",
            f"{len(moves)} replicas wait, and none has room. The smallest has "
            f"{bytes_in_words(now.sizes[smallest.replica])}, and the disk of "
            f"{smallest.after} has {bytes_in_words(disk.usable_bytes or 0)} left, of which "
            f"{plan.disk_headroom:.0%} of the disk stay free",
            "If Kafka has just moved replicas off that disk, wait until it has deleted them (file.delete.delay.ms, by "
            "default 60 s), then clear this task. Else make room there, or start a new Dag run",
        )


def _room(plan: LogDirPlan, now: DirsNow, copying: Iterable[LogDirMove]) -> dict[tuple[int, str], float]:
    """What may still be copied into each log dir. A copy under way takes the rest of its bytes."""
    room = {
        (broker, path): inf
        if disk.usable_bytes is None
        else disk.usable_bytes - plan.disk_headroom * (disk.total_bytes or 0)
        for broker, dirs in now.disks.items()
        for path, disk in dirs.items()
    }
    for move in copying:
        room[move.broker, move.after] -= _to_copy(move, now)
    return room


def _to_copy(move: LogDirMove, now: DirsNow) -> int:
    """What is left of a copy under way."""
    return max(0, now.sizes[move.replica] - now.future[move.replica][1])


def bytes_over(moves: Iterable[LogDirMove], now: DirsNow) -> int:
    """Bytes that nobody has to copy any more: of all that are done or gone, and of the copies so far."""
    over = 0
    for move in moves:
        state = state_of(move, now)
        if state in (CopyState.DONE, CopyState.GONE):
            over += move.size_bytes
        elif state is CopyState.COPYING:
            over += min(move.size_bytes, now.future[move.replica][1])
    return over
