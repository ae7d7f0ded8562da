"""Follows one batch from the triggerer: reads replicas, ISR and bytes, and says when it is over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.workflow.following import BatchFollower
from kafka_rebalance.workflow.hooks import KafkaClusterHook, cluster_connection

log = logging.getLogger(__name__)


class BatchTrigger(BaseTrigger):
    """Fires once, with the state of a batch that is over or given up. All is re-read, so any triggerer may go on."""

    def __init__(
        self,
        *,
        connection_id: str,
        run_folder: str,
        candidate: str,
        batch: int,
        poll_seconds: float,
        stall_seconds: float,
    ) -> None:
        super().__init__()
        self.connection_id = connection_id
        self.run_folder = run_folder
        self.candidate = candidate
        self.batch = batch
        self.poll_seconds = poll_seconds
        self.stall_seconds = stall_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "connection_id": self.connection_id,
                "run_folder": self.run_folder,
                "candidate": self.candidate,
                "batch": self.batch,
                "poll_seconds": self.poll_seconds,
                "stall_seconds": self.stall_seconds,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        connection = await self._connection()
        follower = BatchFollower(connection, self.run_folder, self.candidate, self.batch, self.stall_seconds)
        try:
            while True:
                event = await asyncio.to_thread(self._look, follower)
                if event is not None:
                    yield TriggerEvent(event)
                    return
                await asyncio.sleep(self.poll_seconds)
        finally:
            await asyncio.to_thread(follower.close)

    async def _connection(self) -> ClusterConnection:
        """The triggerer's own way to a connection: the synchronous one would block its loop."""
        return cluster_connection(await KafkaClusterHook.aget_connection(self.connection_id))

    def _look(self, follower: BatchFollower) -> Mapping[str, Any] | None:
        """One look. ZooKeeper or a broker out of reach is not the end of a move: it is logged, and read again."""
        try:
            return follower.look(time.time(), self.log.info)
        except ReadError as away:
            return follower.away(time.time(), str(away), self.log.warning)
