"""What this try of a task has changed in the cluster so far. The edges note each write, and errors name them.

Code that writes to storage does not know what the task wrote to the cluster before, but its error must say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What was changed. The subject of the write names the object."""

    LOCK_TAKEN = "lock taken"
    LOCK_GIVEN_BACK = "lock given back"
    CONFIG = "config"  # `brokers/1`, `topics/orders`
    REASSIGNMENT = "reassignment"
    ELECTION = "election"
    TOPIC = "topic"
    DELETION = "deletion"  # a topic
    CANCEL = "cancel"  # a partition
    CONTROLLER = "controller"
    LOG_DIRS = "log dirs"  # copies between those of a broker


class Outcome(StrEnum):
    CREATED = "created"
    ALREADY_THERE = "already_there"  # an earlier attempt of ours made it; the controller may have taken it up since


@dataclass(frozen=True, slots=True)
class ClusterWrite:
    """One change. `is_certain` False: the connection was lost during the write."""

    kind: Kind
    subject: str = ""
    is_certain: bool = True


_noted: ContextVar[list[ClusterWrite] | None] = ContextVar("cluster_writes", default=None)


@contextmanager
def noted() -> Iterator[list[ClusterWrite]]:
    """A list that gets each change within the block, in order. An outer block gets the changes of inner ones, too."""
    outer, own = _noted.get(), list[ClusterWrite]()
    token = _noted.set(own)
    try:
        yield own
    finally:
        _noted.reset(token)
        if outer is not None:
            outer += own


def note(kind: Kind, subject: str = "", *, is_certain: bool = True) -> None:
    """Notes one change, if a `noted` block is open."""
    writes = _noted.get()
    if writes is not None:
        writes.append(ClusterWrite(kind, subject, is_certain))
