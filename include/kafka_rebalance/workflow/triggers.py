"""Triggers that follow a batch, or wait for the next one. They read, note progress, and fire when it is over.

A trigger outlives a deployment: Airflow makes it from arguments that an older or newer version wrote. So each argument
that was added later has a default, and unknown arguments are ignored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from kafka_rebalance import clock
from kafka_rebalance.clock import SteadyClock
from kafka_rebalance.log_dirs.follow_copies import CopiesFollower
from kafka_rebalance.model.connection import ClusterConnection, cluster_connection
from kafka_rebalance.rebalance.follow import BatchFollower, Waiter
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.run.watch_batch import Watcher, look_with_new_connection
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import KafkaClusterHook

POLL_SECONDS = 0.5
STALL_SECONDS = 1800.0
SLOWEST_POLL_SECONDS = 15.0  # two looks in the half minute after which the janitor misses the heartbeat
# A trigger that fires at once meets Airflow's scheduler before that has heard that the deferring process ended. Airflow
# 3.3 then fails the task, though it goes on elsewhere (docs/decisions/workflow/a_lost_answer_is_asked_for_again.md).
YOUNGEST_EVENT_SECONDS = 10.0


class _WatchingTrigger(BaseTrigger):
    """Fires once. Each look reads everything again, so any triggerer may continue, and two at once do no harm."""

    def __init__(
        self,
        connection_id: str,
        run_folder: str,
        poll_seconds: float,
        slowest_poll_seconds: float,
        unknown: Collection[str],
    ) -> None:
        super().__init__()
        if unknown:
            self.log.warning("These arguments are of another version and are ignored: %s", ", ".join(sorted(unknown)))
        self.connection_id, self.run_folder = connection_id, run_folder
        self.poll_seconds, self.slowest_poll_seconds = poll_seconds, slowest_poll_seconds
        self._now: Callable[[], float] = clock.now_seconds

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        begun, loop = time.monotonic(), asyncio.get_running_loop()

        def read_anew() -> ClusterConnection:
            return asyncio.run_coroutine_threadsafe(self._connection(), loop).result()

        watcher = await asyncio.to_thread(self._watcher, await self._connection())
        try:
            while True:
                end = await asyncio.to_thread(look_with_new_connection, watcher, self._now(), self.log, read_anew)
                if end is not None:
                    if (early := begun + YOUNGEST_EVENT_SECONDS - time.monotonic()) > 0:
                        await asyncio.sleep(early)
                    yield TriggerEvent(end.to_event())
                    return
                await asyncio.sleep(watcher.seconds_to_next_look(self.poll_seconds, self.slowest_poll_seconds))
        finally:
            await asyncio.to_thread(watcher.close)

    async def _connection(self) -> ClusterConnection:
        # The synchronous way to a connection would block the triggerer's loop.
        return cluster_connection(await KafkaClusterHook.aget_connection(self.connection_id))

    def _serialize(self, *names: str) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        every = ("connection_id", "run_folder", "poll_seconds", "slowest_poll_seconds", *names)
        return path, {name: getattr(self, name) for name in every}


class BatchTrigger(_WatchingTrigger):
    """Fires with the state of a batch that is over, or that it gave up."""

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
        super().__init__(connection_id, run_folder, poll_seconds, slowest_poll_seconds, unknown)
        self.candidate = candidate
        self.batch = batch
        self.stall_seconds = stall_seconds
        self._now = SteadyClock()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._serialize("candidate", "batch", "stall_seconds")

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        folder = open_run_folder(airflow_deployment(), self.run_folder)
        return BatchFollower(connection, folder, self.candidate, self.batch, self.stall_seconds)


class PauseTrigger(_WatchingTrigger):
    """Fires when the next batch no longer has to wait, or when somebody asks to stop.

    `pause`, `not_before` and `until` say what to wait for, as `Wait.to_arguments` writes them.
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
        super().__init__(connection_id, run_folder, poll_seconds, slowest_poll_seconds, unknown)
        self.pause = pause or {}
        self.not_before = not_before
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._serialize("pause", "not_before", "until")

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        wait = Wait.from_arguments(self.connection_id, self.run_folder, self.pause, self.not_before, self.until)
        return Waiter(connection, open_run_folder(airflow_deployment(), self.run_folder), wait)


class CopiesTrigger(_WatchingTrigger):
    """Fires when a run between log dirs has something to request, when its copies have ended, or when they stall."""

    def __init__(
        self,
        *,
        connection_id: str,
        run_folder: str,
        poll_seconds: float = POLL_SECONDS,
        stall_seconds: float = STALL_SECONDS,
        slowest_poll_seconds: float = SLOWEST_POLL_SECONDS,
        **unknown: Any,
    ) -> None:
        super().__init__(connection_id, run_folder, poll_seconds, slowest_poll_seconds, unknown)
        self.stall_seconds = stall_seconds
        self._now = SteadyClock()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._serialize("stall_seconds")

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        folder = open_run_folder(airflow_deployment(), self.run_folder)
        return CopiesFollower(connection, folder, self.stall_seconds)
