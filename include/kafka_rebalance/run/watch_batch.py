"""What a follower sees of a batch at its end, and what a trigger or a worker looks with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from logging import Logger
from typing import Any

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.model.connection import ClusterConnection


class BatchState(StrEnum):
    """The states of a batch from its request on. READY is of no batch: the next batch need not wait any longer."""

    REQUESTED = "requested"
    DONE = "done"
    REFUSED = "refused"
    STALLED = "stalled"
    UNREADABLE = "unreadable"
    CANCELLED = "cancelled"
    TAKEN_BACK = "taken_back"  # cancelled by somebody else
    READY = "ready"
    ROOM = "room"  # it goes on, and more may be requested beside it
    RATES = "rates"  # it goes on, and a broker is to get another rate


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """The state in which a batch ended or was given up. It may be old when somebody reads it."""

    state: BatchState
    batch: int | None = None
    message: str = ""

    def to_event(self) -> dict[str, Any]:
        """For Airflow, which keeps it until the task wakes. Its keys outlive a deployment."""
        if self.batch is None:
            return {"state": str(self.state)}
        return {"state": str(self.state), "batch": self.batch, "message": self.message}

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> BatchSeen:
        """From Airflow. An unknown state, of another version, becomes READY: the task reads ZooKeeper anyway."""
        state = event.get("state")
        known = BatchState(state) if state in set(BatchState) else BatchState.READY
        return cls(known, event.get("batch"), str(event.get("message", "")))


class Watcher(ABC):
    """Looks again and again until something is over, over one connection. `now`: seconds of the wall clock."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.connection = connection
        self.is_refused = False  # by the last look: user, password or a certificate
        self._stack = ExitStack()
        self._open: OpenCluster | None = None

    @abstractmethod
    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        """Reads once, and says what is new. Returns what is over, else None."""

    @abstractmethod
    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        """Says once that the cluster could not be read. Returns UNREADABLE if the watcher gives up."""

    @abstractmethod
    def seconds_to_next_look(self, quickest: float, slowest: float) -> float: ...

    def close(self) -> None:
        self._open = None
        self._stack.close()

    def take_connection(self, read: ClusterConnection) -> bool:
        """Takes these settings instead of those that were refused. Returns whether they are others."""
        if read == self.connection:
            return False
        self.close()
        self.connection, self.is_refused = read, False
        return True

    def _cluster(self) -> OpenCluster:
        if self._open is None:
            self._open = self._stack.enter_context(open_cluster(self.connection))
        return self._open


def look_with_new_connection(
    watcher: Watcher, now: float, log: Logger, read_connection: Callable[[], ClusterConnection]
) -> BatchSeen | None:
    """One look. If the connection is refused and somebody has changed it since, the next look comes at once.

    A password that was rotated is refused for good, and each further try counts as a failed login.
    """
    end = _look(watcher, now, log)
    if not watcher.is_refused:
        return end
    try:
        is_another = watcher.take_connection(read_connection())
    except Exception as unread:
        log.warning("The Airflow connection cannot be read anew (%s)", type(unread).__name__)
        return end
    if not is_another:
        return end
    log.info("The Airflow connection has changed since it was read. It is used from now on")
    return _look(watcher, now, log)


def _look(watcher: Watcher, now: float, log: Logger) -> BatchSeen | None:
    """If ZooKeeper or a broker does not answer, that is logged, and the next look reads again."""
    watcher.is_refused = False
    try:
        return watcher.look(now, log.info)
    except AuthenticationError as refused:
        watcher.is_refused = True
        why = f"{refused} Copies go on by themselves, and the run takes the corrected connection when it looks again."
        return watcher.away(now, why, log.warning)
    except ReadError as away:
        return watcher.away(now, str(away), log.warning)
