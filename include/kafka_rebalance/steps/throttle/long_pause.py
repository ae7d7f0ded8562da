"""Whether a run's next batch has waited for so long that the cluster's policy asks for an alert."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.errors import PolicyError, RebalanceError
from kafka_rebalance.model.policy import LONG_PAUSE_SECONDS
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.run_folder import open_run_folder


def waits_long(deployment: Deployment, lease: ThrottleLease) -> str | None:
    """How long, and for what, a run's next batch has waited; None up to the policy's `long_pause_seconds`.

    Both times are of the waiting process, so a clock that is wrong neither makes nor hides an alert.
    """
    try:
        note = json_files.read_json(open_run_folder(deployment, lease.run_folder), json_files.PROGRESS)
        if note["state"] != "waiting":
            return None
        until, *since = (
            datetime.fromisoformat(at) for at in (note["updated_at"], note["waiting_since"], lease.taken_at)
        )
        seconds = (until - max(since)).total_seconds()
        reasons = " ".join(map(str, note["waiting_for"]))
    except (RebalanceError, OSError, KeyError, TypeError, ValueError):
        return None  # an earlier version's note, or none that can be read
    policy = None
    with suppress(PolicyError):  # every run's tasks report a wrong policy
        policy = deployment.read_policy(lease.connection_id)
    if seconds < (LONG_PAUSE_SECONDS if policy is None else policy.long_pause_seconds):
        return None
    return (
        f"Run {lease.run} holds the cluster, copies nothing, and its next batch has waited for {seconds / 3600:.1f} h: "
        f"{reasons} Its throttle is put back meanwhile, and set again before that batch. Repair what it waits for, or "
        "stop the run with kafka_rebalance_cancel, which gives the cluster to other runs."
    )
