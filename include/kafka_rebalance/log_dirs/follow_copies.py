"""Looks at the copies of a run until there is something to request, to report or to end, and notes how far they are.

It writes no request. progress.json has the form of a rebalance's: the janitor and its gauges read it too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, LogDirPlan
from kafka_rebalance.documents.progress import PROGRESS_FILE, Progress
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.log_dirs.next_copies import CopyState, DirsNow, bytes_over, next_moves, offline_dirs, states_of
from kafka_rebalance.log_dirs.read_dirs import dirs_now, read_disks
from kafka_rebalance.log_dirs.rules import bytes_in_time, window_of
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState, Watcher
from kafka_rebalance.throttle.lease_files import read_copy

SAY_SECONDS = 300.0


class CopiesFollower(Watcher):
    """Reads the plan from the run's folder. `stall_seconds` without a byte, or without an answer, end it."""

    def __init__(self, connection: ClusterConnection, folder: RunFolder, stall_seconds: float) -> None:
        super().__init__(connection)
        self.folder, self.stall_seconds = folder, stall_seconds
        self._plan = LOG_DIRS_FILE.read(folder).plan
        self._first: tuple[float, int] | None = None  # the first look, and the bytes that were copied then
        self._last: tuple[float, tuple[int, int]] | None = None  # the last progress: when, and how far it was
        self._away_since: float | None = None
        self._said_at = 0.0

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        """Says how far the copies are. Returns READY if `move` is to look, STALLED if nothing was copied for long."""
        plan = self._plan
        dirs = dirs_now(read_disks(self.connection.kafka, plan.brokers))
        self._away_since = None
        states = states_of(plan.moves, dirs)
        progress = write_progress(self.folder, plan, dirs, now, self._rate(now))
        so_far = progress.partitions_done, progress.bytes_copied
        self._first = self._first or (now, progress.bytes_copied)
        if self._last is None or self._last[1] != so_far:
            self._last = now, so_far
        if now - self._said_at >= SAY_SECONDS:
            self._said_at = now
            say(
                f"{so_far[0]} of {len(plan.moves)} replicas are in place, {bytes_in_words(so_far[1])} of "
                f"{bytes_in_words(plan.size_bytes)} copied"
            )
        has_news = any(
            (states[CopyState.ELSEWHERE], [*offline_dirs(dirs.disks)], next_moves(plan, dirs, self._in_time(now)))
        )
        if has_news or not states[CopyState.COPYING]:
            return BatchSeen(BatchState.READY)
        if now - self._last[0] > self.stall_seconds:
            return BatchSeen(BatchState.STALLED, 0, self._stalled(now - self._last[0], len(states[CopyState.COPYING])))
        return None

    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        if self._away_since is None:
            self._away_since = now
            say(why)
        if now - self._away_since > self.stall_seconds:
            return BatchSeen(BatchState.UNREADABLE, 0, why)
        return None

    def seconds_to_next_look(self, quickest: float, slowest: float) -> float:
        return slowest

    def _in_time(self, now: float) -> float:
        return bytes_in_time(window_of(self._plan), rate_now(self.folder, self._plan), datetime.fromtimestamp(now, UTC))

    def _rate(self, now: float) -> float | None:
        """Bytes per second since the first look."""
        if self._first is None or self._last is None or now <= self._first[0]:
            return None
        return (self._last[1][1] - self._first[1]) / (now - self._first[0]) or None

    def _stalled(self, seconds: float, copying: int) -> str:
        return (
            f"{copying} copies between log dirs have not grown for {seconds:.0f} s. They were cancelled, and the next "
            "try of this task asks for them anew. What is in place stays. If this error comes again, read the logs of "
            "the brokers (ReplicaAlterLogDirsThread)."
        )


def rate_now(folder: RunFolder, plan: LogDirPlan) -> int:
    """The rate that was set last, else or if its note is damaged the approved one, in bytes per second."""
    lease = None
    with suppress(ArtifactError):
        lease = read_copy(folder)
    return plan.throttle_bytes_per_second if lease is None else lease.bytes_per_second


def write_progress(
    folder: RunFolder, plan: LogDirPlan, now: DirsNow, seconds: float, bytes_per_second: float | None = None
) -> Progress:
    """`at`: seconds of the wall clock. Raises StorageError."""
    states = states_of(plan.moves, now)
    over = bytes_over(plan.moves, now)
    done = len(states[CopyState.DONE]) + len(states[CopyState.GONE])
    progress = Progress(
        updated_at=datetime.fromtimestamp(seconds, UTC),
        state=str(BatchState.DONE if done == len(plan.moves) else BatchState.REQUESTED),
        partitions_done=done,
        partitions_total=len(plan.moves),
        bytes_copied=over,
        bytes_total=plan.size_bytes,
        bytes_per_second=bytes_per_second,
        eta_seconds=(plan.size_bytes - over) / bytes_per_second if bytes_per_second else None,
        phases={str(state): len(moves) for state, moves in states.items() if moves},
    )
    PROGRESS_FILE.write(folder, progress, source_digest=plan.digest)
    return progress
