"""One batch in motion: its progress written to the run's folder, and the verdict when it is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.brokers import sizes
from kafka_rebalance.errors import ExecutionError, ReadError
from kafka_rebalance.execution.progress import Phase, Progress, Rate, Sample, progress_line, rate_and_eta, summarise
from kafka_rebalance.model import artifacts
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.proposal import brokers_touched
from kafka_rebalance.workflow.left_out import read_remaining
from kafka_rebalance.workflow.run_folder import open_run_folder
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view

SAMPLES_KEPT = 120  # the rate is taken over the last minute of them


class BatchFollower:
    """Reads the batch's partitions again and again. Keeps one ZooKeeper client open between looks."""

    def __init__(
        self, connection: ClusterConnection, run_folder: str, candidate: str, batch: int, stall_seconds: float
    ) -> None:
        self.connection = connection
        self.folder = open_run_folder(run_folder)
        self.candidate = read_remaining(self.folder, candidate)
        batches = {b.number: b for b in self.candidate.batches}
        if batch not in batches:
            raise ExecutionError(f"Candidate {candidate} has no batch {batch}. Nothing was written.")
        self.batch = batches[batch]
        self.stall_seconds = stall_seconds
        self._stack = ExitStack()
        self._client: KazooClient | None = None
        self._samples: list[Sample] = []
        self._last_line = ""
        self._last_change: tuple[float, object] | None = None

    def look(self, now: float, say: Callable[[str], object]) -> dict[str, Any] | None:
        """Reads once; logs on change; returns the event's payload when the batch is over, else None."""
        view = read_cluster_view(self._zookeeper(), {move.topic_partition.topic for move in self.batch.moves})
        progress = summarise(self.batch.moves, view, self._replica_sizes(set(view.brokers)))
        self._samples = [*self._samples, Sample(now, progress.bytes_copied)][-SAMPLES_KEPT:]
        rate = rate_and_eta(self._samples, progress.bytes_total)
        line = progress_line(progress, rate.bytes_per_second, rate.eta_seconds)
        if line != self._last_line:
            say(f"batch {self.batch.number} of {len(self.candidate.batches)}: {line}")
            self._last_line = line
        state, message = self._verdict(progress, now)
        self._write(progress, rate, state, now)
        return None if state == "moving" else {"state": state, "batch": self.batch.number, "message": message}

    def away(self, now: float, why: str, say: Callable[[str], object]) -> dict[str, Any] | None:
        """The cluster could not be read. Says so once; gives up after the stall time, claiming nothing."""
        self.close()
        if why != self._last_line:
            say(why)
            self._last_line = why
        if self._last_change is None:
            self._last_change = (now, None)
        if now - self._last_change[0] < self.stall_seconds:
            return None
        return {
            "state": "unreadable",
            "batch": self.batch.number,
            "message": f"The cluster could not be read for {self.stall_seconds:.0f} s: {why}",
        }

    def close(self) -> None:
        """Closes the ZooKeeper client; the next look opens another."""
        self._client = None
        self._stack.close()

    def _zookeeper(self) -> KazooClient:
        if self._client is None:
            self._client = self._stack.enter_context(open_client(self.connection.zookeeper))
        return self._client

    def _replica_sizes(self, registered: set[int]) -> Mapping[TopicPartition, Mapping[int, int]]:
        """Bytes by broker of the batch's partitions. They only meter progress: a broker that is away gives none."""
        wanted = registered & brokers_touched(self.batch.moves)
        if not any(move.added for move in self.batch.moves):
            return {}
        try:
            return sizes.read_log_dirs(self.connection.kafka, sorted(wanted)).replicas
        except ReadError:
            return {}

    def _verdict(self, progress: Progress, now: float) -> tuple[str, str]:
        if progress.finished:
            return "done", ""
        if progress.refused:
            more = f"; and {len(progress.anomalies) - 10} more" if len(progress.anomalies) > 10 else ""
            return "refused", (
                f"{len(progress.refused)} of {progress.partitions_total} partitions of batch {self.batch.number} will "
                f"not reach the approved replicas: {'; '.join(progress.anomalies[:10])}{more}"
            )
        seen = (progress.partitions_done, progress.bytes_copied, tuple(sorted(progress.phases.items())))
        if self._last_change is None or self._last_change[1] != seen:
            self._last_change = (now, seen)
        if now - self._last_change[0] < self.stall_seconds:
            return "moving", ""
        return "stalled", (
            f"Batch {self.batch.number} made no progress for {self.stall_seconds:.0f} s: "
            f"{'; '.join(progress.anomalies) or 'no cause seen in ZooKeeper'}. Its copies stay requested and go on "
            "by themselves when the cause is gone; the throttle stays on them. Then clear this task."
        )

    def _write(self, progress: Progress, rate: Rate, state: str, now: float) -> None:
        """progress.json, for the web page: the whole plan, batches before this one as done and later ones as queued.

        A note, not the truth: failing to write it does not stop the move.
        """
        earlier = [move for move in self.candidate.moves if move.batch < self.batch.number]
        later = [move for move in self.candidate.moves if move.batch > self.batch.number]
        copied = progress.bytes_copied + sum(move.bytes_to_copy for move in earlier)
        total = progress.bytes_total + sum(move.bytes_to_copy for move in (*earlier, *later))
        phases = Counter({str(phase): count for phase, count in progress.phases.items()})
        phases.update({str(Phase.DONE): len(earlier), str(Phase.QUEUED): len(later)})
        speed = rate.bytes_per_second
        document = {
            "updated_at": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            "state": state,
            "batch": self.batch.number,
            "batches": len(self.candidate.batches),
            "partitions_done": progress.partitions_done + len(earlier),
            "partitions_total": len(self.candidate.moves),
            "bytes_copied": copied,
            "bytes_total": total,
            "bytes_per_second": speed,
            "eta_seconds": (total - copied) / speed if speed else None,
            "phases": {phase: count for phase, count in phases.items() if count},
            "anomalies": list(progress.anomalies),
        }
        with suppress(OSError):
            artifacts.write_json(self.folder, artifacts.PROGRESS, document)
