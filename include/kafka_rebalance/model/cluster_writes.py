"""What this try of a task has changed in the cluster so far: noted by the edges as they write, told by its errors.

Whoever writes to storage does not know what was written to the cluster before, and an error must say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What was changed; the subject names which."""

    LOCK_TAKEN = "lock taken"
    LOCK_GIVEN_BACK = "lock given back"
    CONFIG = "config"  # `brokers/1`, `topics/orders`
    REASSIGNMENT = "reassignment"
    ELECTION = "election"
    TOPIC = "topic"
    DELETION = "deletion"  # a topic
    CANCEL = "cancel"  # a partition
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class ClusterWrite:
    """One change. `is_certain` False: the connection was lost over it."""

    kind: Kind
    subject: str = ""
    is_certain: bool = True


_noted: ContextVar[list[ClusterWrite] | None] = ContextVar("cluster_writes", default=None)


@contextmanager
def noted() -> Iterator[list[ClusterWrite]]:
    """The changes that are made within, in their order; the list grows. One within another has them as well."""
    outer, own = _noted.get(), list[ClusterWrite]()
    token = _noted.set(own)
    try:
        yield own
    finally:
        _noted.reset(token)
        if outer is not None:
            outer += own


def note(kind: Kind, subject: str = "", *, is_certain: bool = True) -> None:
    """One change more; of no interest where nobody asks for them."""
    found = _noted.get()
    if found is not None:
        found.append(ClusterWrite(kind, subject, is_certain))
