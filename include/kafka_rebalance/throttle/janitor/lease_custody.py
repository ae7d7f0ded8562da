"""What the janitor does with a lease and a lock whose run may be gone.

It puts back what a lease says is ours, once nothing of it is in motion. It gives back the lock of a run that is known
to be over. For what else it finds on a cluster see `unheld_findings`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.throttle_lease import ThrottleLease

UNWATCHED_SECONDS = 35.0  # a follower writes progress.json at each look, every 15 s at least
IDLE_SECONDS = 900.0  # a run that Airflow does not know, or whose Dag is paused, may still be between two batches


@dataclass(frozen=True, slots=True)
class Custody:
    """What becomes of a lease now. `alert`: why a person must look; None: nobody has to."""

    put_back: bool
    release_lock: bool
    state: str
    alert: str | None = None


def custody(
    lease: ThrottleLease, standing: AirflowState, copying: Collection[TopicPartition], silent_seconds: float
) -> Custody:
    """What to do with a lease that nobody has given back.

    `copying`: its partitions of which a copy is in motion (`copying_of`). `silent_seconds`: since the last sign of
    their follower. While copies run, only the rest is put back. The lock of a run that is not known to be over stays:
    that run may go on.
    """
    run = f"run {lease.run} of {lease.owner or 'an unknown Airflow'} ({standing})"
    shown = f"{len(copying)} partitions copy under its throttle of {lease.bytes_per_second} bytes/s"
    if standing.is_ended or lease.handed_over_at is not None:
        if not copying:
            return Custody(True, standing.is_ended, f"{run}: nothing of it copies any more")
        alert = (
            f"Nobody follows the copies of {run}: {shown}. The janitor takes the throttle off when the last copy is in "
            "sync. Look at these copies, or clear the task of that run that requests them, if it is still there."
        )
        return Custody(True, False, f"{run}: {shown}", alert)
    if copying and silent_seconds > UNWATCHED_SECONDS:
        alert = (
            f"Nobody has followed the copies of {run} for {silent_seconds:.0f} s: {shown}. Check triggerer and "
            "workers, and whether the Dag is paused. The copies go on by themselves."
        )
        return Custody(False, False, f"{run}: {shown}, and nobody follows", alert)
    if not copying and standing is not AirflowState.RUNNING and silent_seconds > IDLE_SECONDS:
        return Custody(True, False, f"{run}: idle for {silent_seconds:.0f} s, so its throttle is put back")
    return Custody(False, False, f"{run}: {shown if copying else 'nothing copies'}, and the run takes care of it")
