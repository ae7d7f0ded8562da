"""Between two batches: looks whether what the next one waits for is well again, or its time has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.execution.check.batch_wait import Pause, still_missing
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.workflow.reassignment import progress_notes
from kafka_rebalance.workflow.run.control import read_control
from kafka_rebalance.workflow.run.folder import open_run_folder
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_batch_view


class Waiter:
    """Waits without an end of its own: an operator stops it, or `until` passes.

    `not_before`: nothing is looked at earlier. `until`: when waiting has no sense any more (finish_by).
    """

    def __init__(
        self,
        connection: ClusterConnection,
        run_folder: str,
        pause: Pause,
        not_before: datetime | None,
        until: datetime | None,
    ) -> None:
        self.connection = connection
        self.folder = open_run_folder(run_folder)
        self.pause = pause
        self.not_before = not_before
        self.until = until
        self._stack = ExitStack()
        self._client: KazooClient | None = None
        self._said: tuple[str, ...] = ()

    def look(self, now: float, say: Callable[[str], object]) -> dict[str, Any] | None:
        """Reads once; says each new reason once; returns the event when `reassign` is to look again, else None."""
        at = datetime.fromtimestamp(now, UTC)
        over = self._asked_to_stop() or (self.until is not None and at >= self.until)
        reasons: tuple[str, ...] = ()
        if not over and self.not_before is not None and at < self.not_before:
            reasons = (f"No batch begins before {self.not_before.isoformat()}",)
        elif not over and self.pause:
            reasons = self._still_missing()
        if not reasons:
            return {"state": "ready"}
        progress_notes.write_waiting(self.folder, now, reasons)
        if reasons != self._said:
            for reason in reasons:
                if reason not in self._said:
                    say(reason)
            self._said = reasons
        return None

    def away(self, now: float, why: str, say: Callable[[str], object]) -> dict[str, Any] | None:
        """The cluster could not be read: waits on, and says so once."""
        self.close()
        progress_notes.write_waiting(self.folder, now, (why,))
        if self._said != (why,):
            say(why)
            self._said = (why,)
        return None

    def seconds_to_next_look(self, quickest: float, slowest: float) -> float:
        """What is waited for takes minutes, not seconds."""
        return slowest

    def close(self) -> None:
        """Closes the ZooKeeper client; the next look opens another."""
        self._client = None
        self._stack.close()

    def _asked_to_stop(self) -> bool:
        try:
            return read_control(self.folder).stop_after_batch is not None
        except ArtifactError:
            return True  # `reassign` reads it again, and says what is wrong with it

    def _still_missing(self) -> tuple[str, ...]:
        if self._client is None:
            self._client = self._stack.enter_context(open_client(self.connection.zookeeper))
        view = read_batch_view(self._client, [tp for tp, _ in self.pause.in_sync])
        return still_missing(self.pause, view).reasons


def to_arguments(pause: Pause) -> dict[str, Any]:
    """As a trigger's arguments: plain lists."""
    return {"brokers": list(pause.brokers), "in_sync": [[tp.topic, tp.partition, n] for tp, n in pause.in_sync]}


def from_arguments(arguments: Mapping[str, Any]) -> Pause:
    """The other way round; what is missing is not waited for here, and `reassign` looks itself before it writes."""
    return Pause(
        tuple(arguments.get("brokers", ())),
        tuple((TopicPartition(topic, partition), count) for topic, partition, count in arguments.get("in_sync", ())),
    )
