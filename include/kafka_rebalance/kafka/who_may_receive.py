"""Which brokers Kafka gives new replicas, and in which of their log dirs.

The one rule for the planner, given plans, topics, the room on disks, and every check before a write.

Kafka gives none to a broker that is not registered or is fenced, and none to a log dir that is offline or cordoned
(KIP-1066, Kafka 4.3 and later). No request tells that a broker is in a controlled shutdown. It has left every ISR by
then, so the guards of the snapshot see it, and a second later it is not registered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar


class LogDirState(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def online(self) -> bool: ...

    @property
    def cordoned(self) -> bool: ...


_Dir = TypeVar("_Dir", bound=LogDirState)


class Shut(StrEnum):
    """Why a broker receives no new replica."""

    NOT_REGISTERED = "not_registered"  # it is down, or fenced
    UNKNOWN = "unknown"  # it does not tell its log dirs
    OFFLINE = "offline"  # none of its log dirs is online
    CORDONED = "cordoned"  # all of its log dirs that are online are cordoned


def open_log_dirs(log_dirs: Iterable[_Dir]) -> tuple[_Dir, ...]:
    """Those that get new replicas."""
    return tuple(log_dir for log_dir in log_dirs if log_dir.online and not log_dir.cordoned)


def why_shut(log_dirs: Sequence[LogDirState] | None, *, is_registered: bool = True) -> Shut | None:
    """Why a broker with these log dirs receives nothing; None: it may receive. `log_dirs` None or empty: untold."""
    if not is_registered:
        return Shut.NOT_REGISTERED
    if not log_dirs:
        return Shut.UNKNOWN
    if open_log_dirs(log_dirs):
        return None
    return Shut.CORDONED if any(log_dir.online for log_dir in log_dirs) else Shut.OFFLINE


def who_is_shut(
    brokers: Iterable[int], log_dirs: Mapping[int, Sequence[LogDirState]], registered: Collection[int]
) -> dict[int, Shut]:
    """Which of these brokers receive nothing, and why. `log_dirs`: what each told."""
    reasons = {broker: why_shut(log_dirs.get(broker), is_registered=broker in registered) for broker in sorted(brokers)}
    return {broker: why for broker, why in reasons.items() if why is not None}


def shut_in_words(why: Shut) -> str:
    """`is not registered`, after the name of the broker."""
    return {
        Shut.NOT_REGISTERED: "is not registered",
        Shut.UNKNOWN: "does not tell its log directories",
        Shut.OFFLINE: "has no log directory that is online",
        Shut.CORDONED: "is cordoned (cordoned.log.dirs), so Kafka puts no new replica there",
    }[why]


def remedy_for(why: Shut) -> str:
    """A clause that follows `To use it again, `."""
    return {
        Shut.NOT_REGISTERED: "start it",
        Shut.UNKNOWN: "see its log, and grant the Kafka user Describe on the cluster",
        Shut.OFFLINE: "repair its disk and restart it",
        Shut.CORDONED: "ask who cordoned it and why, and remove cordoned.log.dirs from its configs",
    }[why]
