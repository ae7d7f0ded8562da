"""What whoever follows a batch sees of it in the end, and what a trigger or a worker looks with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from logging import Logger
from typing import Any, Protocol

from kafka_rebalance.errors import ReadError


class BatchState(StrEnum):
    """Of a batch, after it was about to be requested: requested, over, or given up on in one of five ways. READY says
    nothing of it: what the next one waited for is there.
    """

    REQUESTED = "requested"
    DONE = "done"
    REFUSED = "refused"
    STALLED = "stalled"
    UNREADABLE = "unreadable"
    CANCELLED = "cancelled"
    TAKEN_BACK = "taken_back"  # cancelled by somebody else
    READY = "ready"


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """The state of a batch that is over or given up, which may be of long ago when somebody reads it."""

    state: BatchState
    batch: int | None = None
    message: str = ""

    def to_event(self) -> dict[str, Any]:
        """As Airflow keeps it until the task wakes. Its keys outlive a deployment."""
        if self.batch is None:
            return {"state": str(self.state)}
        return {"state": str(self.state), "batch": self.batch, "message": self.message}

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> BatchSeen:
        """The other way round. A state of another version says nothing: ZooKeeper is read whatever was seen."""
        state = event.get("state")
        known = BatchState(state) if state in set(BatchState) else BatchState.READY
        return cls(known, event.get("batch"), str(event.get("message", "")))


class Watcher(Protocol):
    """Looks again and again until something is over. `now`: seconds of the wall clock."""

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None: ...
    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None: ...
    def seconds_to_next_look(self, quickest: float, slowest: float) -> float: ...
    def close(self) -> None: ...


def look_once(watcher: Watcher, now: float, log: Logger) -> BatchSeen | None:
    """One look. ZooKeeper or a broker out of reach is not the end of a move: it is logged, and read again."""
    try:
        return watcher.look(now, log.info)
    except ReadError as away:
        return watcher.away(now, str(away), log.warning)
