"""Between two batches: looks whether the next batch still has to wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.rebalance import progress_notes
from kafka_rebalance.run.batch_seen import BatchSeen, BatchState, Watcher
from kafka_rebalance.run.checks.batch_wait import Wait, still_missing
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.stop_requests import read_control


class Waiter(Watcher):
    """Waits without a limit of its own, until somebody stops the run or `wait.until` passes, the window's end.

    Before `wait.not_before` it reads nothing from the cluster.
    """

    def __init__(self, connection: ClusterConnection, folder: RunFolder, wait: Wait) -> None:
        super().__init__(connection)
        self.folder, self.wait = folder, wait
        self._said: tuple[str, ...] = ()

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        """Says each new reason to wait once; returns READY when `reassign` is to look again, else None."""
        at = datetime.fromtimestamp(now, UTC)
        wait = self.wait
        over = self._asked_to_stop() or (wait.until is not None and at >= wait.until)
        reasons: tuple[str, ...] = ()
        until: datetime | None = None
        if not over and wait.not_before is not None and at < wait.not_before:
            until, reasons = wait.not_before, (f"The run requests nothing before {wait.not_before:%Y-%m-%d %H:%M %Z}",)
        elif not over and wait.pause:
            reasons = self._still_missing()
        if not reasons:
            return BatchSeen(BatchState.READY)
        self._note(now, reasons, say, until)
        return None

    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        self.close()
        self._note(now, (why,), say)
        return None

    def _note(
        self, now: float, reasons: tuple[str, ...], say: Callable[[str], object], until: datetime | None = None
    ) -> None:
        progress_notes.write_waiting(self.folder, now, reasons, until)
        for reason in reasons:
            if reason not in self._said:
                say(reason)
        self._said = reasons

    def seconds_to_next_look(self, quickest: float, slowest: float) -> float:
        """The slowest pace: a wait takes minutes, not seconds."""
        return slowest

    def _asked_to_stop(self) -> bool:
        try:
            return read_control(self.folder).stop_after_batch is not None
        except ArtifactError:
            return True  # `reassign` reads it again, and raises

    def _still_missing(self) -> tuple[str, ...]:
        view = self._cluster().read_batch_view([tp for tp, _ in self.wait.pause.in_sync])
        return still_missing(self.wait.pause, view).reasons
