"""Between two batches: looks whether what the next one waits for is well again, or its time has come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

from kazoo.client import KazooClient

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.execution.check.batch_wait import Wait, still_missing
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.steps.reassignment import progress_notes
from kafka_rebalance.steps.reassignment.batch_seen import BatchSeen, BatchState
from kafka_rebalance.steps.run.stop_requests import read_control
from kafka_rebalance.steps.run_folder import RunFolder
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_batch_view


class Waiter:
    """Waits without an end of its own: an operator stops it, or the wait's `until` (finish_by) passes. Before its
    `not_before` nothing is looked at.
    """

    def __init__(self, connection: ClusterConnection, folder: RunFolder, wait: Wait) -> None:
        self.connection, self.folder, self.wait = connection, folder, wait
        self._stack = ExitStack()
        self._client: KazooClient | None = None
        self._said: tuple[str, ...] = ()

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        """Reads once; says each new reason once; returns READY when `reassign` is to look again, else None."""
        at = datetime.fromtimestamp(now, UTC)
        wait = self.wait
        over = self._asked_to_stop() or (wait.until is not None and at >= wait.until)
        reasons: tuple[str, ...] = ()
        if not over and wait.not_before is not None and at < wait.not_before:
            reasons = (f"No batch begins before {wait.not_before.isoformat()}",)
        elif not over and wait.pause:
            reasons = self._still_missing()
        if not reasons:
            return BatchSeen(BatchState.READY)
        progress_notes.write_waiting(self.folder, now, reasons)
        if reasons != self._said:
            for reason in reasons:
                if reason not in self._said:
                    say(reason)
            self._said = reasons
        return None

    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
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
        view = read_batch_view(self._client, [tp for tp, _ in self.wait.pause.in_sync])
        return still_missing(self.wait.pause, view).reasons
