"""Follows one batch from the triggerer, or waits for the next one: reads, notes, and says when it is over.

A trigger outlives a deployment: Airflow makes it from the arguments that an older or newer version wrote down. So each
beyond the first has a default, and those that this version does not know are passed over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from airflow.triggers.base import BaseTrigger, TriggerEvent

from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.workflow import airflow_deployment  # noqa: F401  (steps run where it says)
from kafka_rebalance.workflow.hooks import KafkaClusterHook, cluster_connection
from kafka_rebalance.workflow.reassignment.following import BatchFollower
from kafka_rebalance.workflow.reassignment.steady_clock import SteadyClock
from kafka_rebalance.workflow.reassignment.waiting import Waiter, from_arguments

POLL_SECONDS = 0.5
STALL_SECONDS = 1800.0
SLOWEST_POLL_SECONDS = 15.0  # twice within the half minute after which a janitor misses the heartbeat


class Watcher(Protocol):
    """What a trigger looks with."""

    def look(self, now: float, say: Any) -> dict[str, Any] | None: ...
    def away(self, now: float, why: str, say: Any) -> dict[str, Any] | None: ...
    def seconds_to_next_look(self, quickest: float, slowest: float) -> float: ...
    def close(self) -> None: ...


class _WatchingTrigger(BaseTrigger):
    """Fires once. All is re-read at each look, so any triggerer may go on, and two at once do no harm."""

    connection_id: str
    poll_seconds: float
    slowest_poll_seconds: float

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        connection = await self._connection()
        watcher = await asyncio.to_thread(self._watcher, connection)
        try:
            while True:
                event = await asyncio.to_thread(self._look, watcher)
                if event is not None:
                    yield TriggerEvent(event)
                    return
                await asyncio.sleep(watcher.seconds_to_next_look(self.poll_seconds, self.slowest_poll_seconds))
        finally:
            await asyncio.to_thread(watcher.close)

    async def _connection(self) -> ClusterConnection:
        """The triggerer's own way to a connection: the synchronous one would block its loop."""
        return cluster_connection(await KafkaClusterHook.aget_connection(self.connection_id))

    def _look(self, watcher: Watcher) -> Mapping[str, Any] | None:
        """One look. ZooKeeper or a broker out of reach is not the end of a move: it is logged, and read again."""
        try:
            return watcher.look(self._now(), self.log.info)
        except ReadError as away:
            return watcher.away(self._now(), str(away), self.log.warning)

    def _now(self) -> float:
        """Seconds of the wall clock."""
        return time.time()

    def _pass_over(self, unknown: Mapping[str, Any]) -> None:
        if unknown:
            self.log.warning("Arguments of another version are passed over: %s", ", ".join(sorted(unknown)))

    def _serialize(self, *names: str) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in names}


class BatchTrigger(_WatchingTrigger):
    """Fires with the state of a batch that is over or given up."""

    def __init__(
        self,
        *,
        connection_id: str,
        run_folder: str,
        candidate: str,
        batch: int,
        poll_seconds: float = POLL_SECONDS,
        stall_seconds: float = STALL_SECONDS,
        slowest_poll_seconds: float = SLOWEST_POLL_SECONDS,
        **unknown: Any,
    ) -> None:
        super().__init__()
        self._pass_over(unknown)
        self.connection_id = connection_id
        self.run_folder = run_folder
        self.candidate = candidate
        self.batch = batch
        self.poll_seconds = poll_seconds
        self.stall_seconds = stall_seconds
        self.slowest_poll_seconds = slowest_poll_seconds
        self._clock = SteadyClock()

    def _now(self) -> float:
        return self._clock()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._serialize(
            "connection_id",
            "run_folder",
            "candidate",
            "batch",
            "poll_seconds",
            "stall_seconds",
            "slowest_poll_seconds",
        )

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        return BatchFollower(connection, self.run_folder, self.candidate, self.batch, self.stall_seconds)


class PauseTrigger(_WatchingTrigger):
    """Fires when the next batch need not wait any more, or when somebody asked to stop.

    `pause` is what to wait for (`waiting.to_arguments`), `not_before` and `until` are ISO times or None.
    """

    def __init__(
        self,
        *,
        connection_id: str,
        run_folder: str,
        pause: Mapping[str, Any] | None = None,
        not_before: str | None = None,
        until: str | None = None,
        poll_seconds: float = POLL_SECONDS,
        slowest_poll_seconds: float = SLOWEST_POLL_SECONDS,
        **unknown: Any,
    ) -> None:
        super().__init__()
        self._pass_over(unknown)
        self.connection_id = connection_id
        self.run_folder = run_folder
        self.pause = pause or {}
        self.not_before = not_before
        self.until = until
        self.poll_seconds = poll_seconds
        self.slowest_poll_seconds = slowest_poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._serialize(
            "connection_id",
            "run_folder",
            "pause",
            "not_before",
            "until",
            "poll_seconds",
            "slowest_poll_seconds",
        )

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        times = [None if text is None else datetime.fromisoformat(text) for text in (self.not_before, self.until)]
        return Waiter(connection, self.run_folder, from_arguments(self.pause), *times)
