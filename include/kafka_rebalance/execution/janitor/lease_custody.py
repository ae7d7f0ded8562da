"""What the janitor does with a lease and a lock whose run may be gone.

It takes off what a lease says is ours, once nothing of it is in motion, and gives back the lock of a run that is known
to be over. What else it finds on a cluster is in `unheld_findings`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.model.partition import TopicPartition

# Who follows a batch writes progress.json at each look, every 15 s at least.
UNWATCHED_SECONDS = 35.0
# A run that Airflow does not tell of, or whose Dag is paused, may still be between two batches.
IDLE_SECONDS = 900.0


class AirflowState(StrEnum):
    """What Airflow says of a lease's run."""

    RUNNING = "running"
    PAUSED = "paused"  # the run goes on, but its Dag is paused: Airflow queues none of its tasks
    OVER = "over"  # success or failed
    GONE = "gone"  # deleted
    UNKNOWN = "unknown"  # another Airflow's, or this one does not answer

    @property
    def is_ended(self) -> bool:
        return self in {AirflowState.OVER, AirflowState.GONE}


@dataclass(frozen=True, slots=True)
class Custody:
    """What becomes of a lease now. `alert`: why somebody must look, None where nobody has to."""

    put_back: bool
    release_lock: bool
    state: str
    alert: str | None = None


def custody(
    lease: ThrottleLease, standing: AirflowState, copying: Collection[TopicPartition], silent_seconds: float
) -> Custody:
    """What to do with a lease that nobody has given back.

    `copying`: its partitions of which a copy is in motion (`copying_of`). `silent_seconds`: since the last sign of
    whoever follows them. While something copies, only what does not is put back. The lock of a run that is not known
    to be over stays: that run may go on.
    """
    run = f"run {lease.run} of {lease.owner or 'an unknown Airflow'} ({standing})"
    shown = f"{len(copying)} partitions are copied under its throttle of {lease.bytes_per_second} bytes/s"
    if standing.is_ended or lease.handed_over_at is not None:
        if not copying:
            return Custody(True, standing.is_ended, f"{run}: nothing of it is copied any more")
        return Custody(
            True,
            False,
            f"{run}: {shown}",
            f"Nobody follows the copies of {run}: {shown}. It is taken off when the last one is in sync. Look at these "
            "copies, or clear the task reassign of that run if it is still there.",
        )
    if copying and silent_seconds > UNWATCHED_SECONDS:
        return Custody(
            False,
            False,
            f"{run}: {shown}, and nobody follows",
            f"Nobody has followed the copies of {run} for {silent_seconds:.0f} s: {shown}. Look at triggerer and "
            "workers, and whether the Dag is paused; the copies go on by themselves.",
        )
    if not copying and standing is not AirflowState.RUNNING and silent_seconds > IDLE_SECONDS:
        return Custody(True, False, f"{run}: idle for {silent_seconds:.0f} s, so its throttle is put back")
    return Custody(False, False, f"{run}: {shown if copying else 'nothing is copied'}, in its own hands")
