"""What a follower sees of a batch at its end, and what a trigger or a worker looks with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from logging import Logger
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.zookeeper.client import open_client


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
    """Looks again and again until something is over, with one ZooKeeper client. `now`: seconds of the wall clock."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.connection = connection
        self._stack = ExitStack()
        self._client: KazooClient | None = None

    @abstractmethod
    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        """Reads once, and says what is new. Returns what is over, else None."""

    @abstractmethod
    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        """Says once that the cluster could not be read. Returns UNREADABLE if the watcher gives up."""

    @abstractmethod
    def seconds_to_next_look(self, quickest: float, slowest: float) -> float: ...

    def close(self) -> None:
        self._client = None
        self._stack.close()

    def _zookeeper(self) -> KazooClient:
        if self._client is None:
            self._client = self._stack.enter_context(open_client(self.connection.zookeeper))
        return self._client


def look_once(watcher: Watcher, now: float, log: Logger) -> BatchSeen | None:
    """One look. If ZooKeeper or a broker does not answer, that is logged, and the next look reads again."""
    try:
        return watcher.look(now, log.info)
    except ReadError as away:
        return watcher.away(now, str(away), log.warning)
