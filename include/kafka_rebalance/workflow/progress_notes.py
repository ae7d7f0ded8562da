"""progress.json: how far a run is, for the web page, for whoever watches the watcher, and for the next one.

`updated_at` is the heartbeat of whoever follows a batch or waits for the next. Notes, not the truth: failing to write
them stops no move, and what cannot be read of them is not believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.execution import movement
from kafka_rebalance.execution.detectors import Kind
from kafka_rebalance.execution.movement import Movement, Pair
from kafka_rebalance.execution.progress import PartitionProgress, Phase, Progress, Rate
from kafka_rebalance.model import artifacts
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.proposal import Batch, Candidate
from kafka_rebalance.workflow.control import Control
from kafka_rebalance.workflow.run_folder import RunFolder

ANOMALIES_SHOWN = 20

Subject: TypeAlias = TopicPartition | Pair | Kind  # what an anomaly is about


@dataclass(frozen=True, slots=True)
class Around:
    """What is before a batch and after it: partitions, and bytes to copy."""

    batch: int
    batches: int
    earlier: int
    later: int
    bytes_earlier: int
    bytes_later: int


def around(candidate: Candidate, batch: Batch) -> Around:
    """Counted once for a batch: a plan may have many thousand moves."""
    earlier = [move.bytes_to_copy for move in candidate.moves if move.batch < batch.number]
    later = [move.bytes_to_copy for move in candidate.moves if move.batch > batch.number]
    return Around(batch.number, len(candidate.batches), len(earlier), len(later), sum(earlier), sum(later))


def write_progress(
    folder: RunFolder,
    around: Around,
    progress: Progress,
    rate: Rate,
    *,
    state: str,
    seen: Movement,
    each: Sequence[PartitionProgress],
    odd: Mapping[Subject, str],
    control: Control,
) -> None:
    """The whole plan: batches before this one as done and later ones as queued."""
    copied = progress.bytes_copied + around.bytes_earlier
    total = progress.bytes_total + around.bytes_earlier + around.bytes_later
    phases = Counter({str(phase): count for phase, count in progress.phases.items()})
    phases.update({str(Phase.DONE): around.earlier, str(Phase.QUEUED): around.later})
    speed = rate.bytes_per_second
    shown = movement.named(seen, each, odd)
    anomalies = [*progress.anomalies, *odd.values()]
    more = len(anomalies) - ANOMALIES_SHOWN
    _write(
        folder,
        {
            "updated_at": _text(seen.at),
            "state": state,
            "batch": around.batch,
            "batches": around.batches,
            "partitions_done": progress.partitions_done + around.earlier,
            "partitions_total": progress.partitions_total + around.earlier + around.later,
            "bytes_copied": copied,
            "bytes_total": total,
            "bytes_per_second": speed,
            "eta_seconds": (total - copied) / speed if speed else None,
            "phases": {phase: count for phase, count in phases.items() if count},
            "anomalies": anomalies[:ANOMALIES_SHOWN] + ([f"and {more} more"] if more > 0 else []),
            "partitions": [_partition(one, seen) for one in shown],
            "stop_after_batch": str(control.stop_after_batch) if control.stop_after_batch else None,
            "movement": movement.to_note(seen, [one.move.topic_partition for one in shown]),
        },
    )


def _partition(one: PartitionProgress, seen: Movement) -> dict[str, Any]:
    tp = one.move.topic_partition
    return {
        "partition": str(tp),
        "phase": str(one.phase),
        "seconds": round(seen.seconds_in_phase(tp), 1),
        "bytes_copied": one.bytes_copied,
        "bytes_total": one.bytes_total,
        "next": movement.NEXT[one.phase],
    }


def write_unreadable(folder: RunFolder, now: float, why: str) -> None:
    """Somebody still watches, and cannot read the cluster; what was known stays."""
    _write(folder, {**_read(folder), "updated_at": _text(now), "state": "unreadable", "waiting_for": [why]})


def write_waiting(folder: RunFolder, now: float, reasons: Sequence[str]) -> None:
    """No batch is under way, and why the next one waits; what was known stays."""
    _write(folder, {**_read(folder), "updated_at": _text(now), "state": "waiting", "waiting_for": list(reasons)})


def read_movement(folder: RunFolder, batch: int) -> Mapping[str, Any]:
    """What an earlier watcher of this batch noted; nothing where none did."""
    document = _read(folder)
    found = document.get("movement") if document.get("batch") == batch else None
    return found if isinstance(found, Mapping) else {}


def _read(folder: RunFolder) -> dict[str, Any]:
    try:
        return artifacts.read_json(folder, artifacts.PROGRESS)
    except ArtifactError:
        return {}


def _write(folder: RunFolder, document: Mapping[str, Any]) -> None:
    with suppress(OSError):
        artifacts.write_json(folder, artifacts.PROGRESS, document)


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
