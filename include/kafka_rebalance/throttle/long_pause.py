"""Whether a run's next batch has waited for so long that the cluster's policy asks for an alert, or as planned."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import PolicyError, RebalanceError
from kafka_rebalance.model.policy import LONG_PAUSE_SECONDS
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.throttle.throttle_lease import ThrottleLease


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What the waiting process has noted. All times are of its clock."""

    at: datetime
    since: datetime
    until: datetime | None
    reasons: str


def waits_long(deployment: Deployment, lease: ThrottleLease) -> str | None:
    """How long, and for what, a run's next batch has waited; None up to the policy's `long_pause_seconds`.

    The time until a window opens does not count. All times are of the waiting process, so a clock that is wrong neither
    makes nor hides an alert.
    """
    noted = _read_waiting(deployment, lease)
    if noted is None:
        return None
    seconds = (noted.at - max(noted.since, noted.until or noted.since)).total_seconds()
    policy = None
    with suppress(PolicyError):  # every run's tasks report a wrong policy
        policy = deployment.read_policy(lease.connection_id)
    if seconds < (LONG_PAUSE_SECONDS if policy is None else policy.long_pause_seconds):
        return None
    return (
        f"Run {lease.run} holds the cluster, copies nothing, and its next batch has waited for {seconds / 3600:.1f} h: "
        f"{noted.reasons} Its throttle is put back meanwhile, and set again before that batch. Repair what it waits "
        "for, or stop the run with kafka_rebalance_cancel, which gives the cluster to other runs."
    )


def paused_until(deployment: Deployment, lease: ThrottleLease) -> datetime | None:
    """When the window opens for which the run waits; None if it waits for nothing, or for something else."""
    noted = _read_waiting(deployment, lease)
    return noted.until if noted is not None and noted.until is not None and noted.at < noted.until else None


def _read_waiting(deployment: Deployment, lease: ThrottleLease) -> _Waiting | None:
    """None also for an earlier version's note, and for one that cannot be read."""
    try:
        note = json_files.read_json(open_run_folder(deployment, lease.run_folder), json_files.PROGRESS)
        if note["state"] != "waiting":
            return None
        at, *since = (datetime.fromisoformat(at) for at in (note["updated_at"], note["waiting_since"], lease.taken_at))
        until = note.get("waiting_until")
        reasons = " ".join(map(str, note["waiting_for"]))
        return _Waiting(at, max(since), datetime.fromisoformat(until) if until else None, reasons)
    except (RebalanceError, OSError, KeyError, TypeError, ValueError):
        return None
