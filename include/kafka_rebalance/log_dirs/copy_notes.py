"""progress.json of a run between log dirs, in the form of a rebalance's: the janitor and its gauges read it too."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from kafka_rebalance.documents.log_dir_plan import LogDirPlan
from kafka_rebalance.documents.progress import PROGRESS_FILE, Progress
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.log_dirs.copy_states import CopyState, DirsNow, bytes_over, states_of
from kafka_rebalance.run.batch_seen import BatchState
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.throttle.lease_files import read_copy


def rate_now(folder: RunFolder, plan: LogDirPlan) -> int:
    """The rate that was set last, else or if its note is damaged the approved one, in bytes per second."""
    lease = None
    with suppress(ArtifactError):
        lease = read_copy(folder)
    return plan.throttle_bytes_per_second if lease is None else lease.bytes_per_second


def write_progress(
    folder: RunFolder, plan: LogDirPlan, now: DirsNow, at: float, bytes_per_second: float | None = None
) -> Progress:
    """`at`: seconds of the wall clock. Raises StorageError."""
    states = states_of(plan.moves, now)
    over = bytes_over(plan.moves, now)
    done = len(states[CopyState.DONE]) + len(states[CopyState.GONE])
    progress = Progress(
        updated_at=datetime.fromtimestamp(at, UTC),
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
