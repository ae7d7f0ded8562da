"""Triggers that follow a batch, or wait for the next one. They read, note progress, and fire when it is over.

A trigger outlives a deployment: Airflow makes it from arguments that an older or newer version wrote. So each argument
that was added later has a default, and unknown arguments are ignored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
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
    """Fires once. Each look reads everything again, so any triggerer may continue, and two at once do no harm.

    Its arguments are the annotated names of its classes. One without a default here must be given.
    """

    connection_id: str
    run_folder: str
    poll_seconds: float = POLL_SECONDS
    slowest_poll_seconds: float = SLOWEST_POLL_SECONDS

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        names = self._names()
        if missing := [name for name in names if name not in arguments and not hasattr(type(self), name)]:
            raise TypeError(f"{type(self).__name__} lacks {', '.join(missing)}")
        if unknown := sorted(arguments.keys() - names.keys()):
            self.log.warning("These arguments are of another version and are ignored: %s", ", ".join(unknown))
        for name in names.keys() & arguments.keys():
            setattr(self, name, arguments[name])

    @classmethod
    def _names(cls) -> dict[str, str]:
        own = [kind for kind in reversed(cls.__mro__) if issubclass(kind, _WatchingTrigger)]
        return {name: type_ for kind in own for name, type_ in kind.__annotations__.items()}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in self._names()}

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        raise NotImplementedError

    def _clock(self) -> Callable[[], float]:
        return SteadyClock()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        begun, loop, now = time.monotonic(), asyncio.get_running_loop(), self._clock()

        def read_anew() -> ClusterConnection:
            return asyncio.run_coroutine_threadsafe(self._connection(), loop).result()

        watcher = await asyncio.to_thread(self._watcher, await self._connection())
        try:
            while True:
                end = await asyncio.to_thread(look_with_new_connection, watcher, now(), self.log, read_anew)
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


class BatchTrigger(_WatchingTrigger):
    """Fires with the state of a batch that is over, or that it gave up."""

    candidate: str
    batch: int
    stall_seconds: float = STALL_SECONDS

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        folder = open_run_folder(airflow_deployment(), self.run_folder)
        return BatchFollower(connection, folder, self.candidate, self.batch, self.stall_seconds)


class PauseTrigger(_WatchingTrigger):
    """Fires when the next batch no longer has to wait, or when somebody asks to stop.

    `pause`, `not_before` and `until` say what to wait for, as `Wait.to_arguments` writes them.
    """

    pause: Mapping[str, Any] | None = None
    not_before: str | None = None
    until: str | None = None

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        wait = Wait.from_arguments(self.connection_id, self.run_folder, self.pause or {}, self.not_before, self.until)
        return Waiter(connection, open_run_folder(airflow_deployment(), self.run_folder), wait)

    def _clock(self) -> Callable[[], float]:
        return clock.now_seconds  # it waits for a time of the day


class CopiesTrigger(_WatchingTrigger):
    """Fires when a run between log dirs has something to request, when its copies have ended, or when they stall."""

    stall_seconds: float = STALL_SECONDS

    def _watcher(self, connection: ClusterConnection) -> Watcher:
        folder = open_run_folder(airflow_deployment(), self.run_folder)
        return CopiesFollower(connection, folder, self.stall_seconds)
