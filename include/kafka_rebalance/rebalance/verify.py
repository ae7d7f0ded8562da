"""Whether the cluster is as approved: every check, in verification.json."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.errors import (
    FrozenError,
    LockHeldError,
    NotInSyncError,
    StoppedError,
    VerificationError,
    WriteError,
)
from kafka_rebalance.rebalance import batch_notes
from kafka_rebalance.rebalance.elect_leaders import elect
from kafka_rebalance.rebalance.record import so_far
from kafka_rebalance.run.approved_plan import check_left_out, read_approved
from kafka_rebalance.run.check_result import VERIFICATION_FILE, only_behind, summarise, write_checks
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.late_tasks import check_nothing_passed_over
from kafka_rebalance.run.replicas_in_place import (
    check_emptied,
    check_leaders,
    check_not_deleted,
    check_placement,
    check_same_topics,
)
from kafka_rebalance.segments.run_audits import check_segment_settings
from kafka_rebalance.throttle import throttle_in_force

log = logging.getLogger(__name__)


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Compares the cluster with what was approved. Raises VerificationError if a check failed.

    Raises NotInSyncError, which is worth a retry, if only a broker that is away or catching up is the cause.
    """
    plan = read_approved(inputs, decision)
    connection = inputs.deployment.read_connection(plan.connection_id)
    with open_cluster(connection) as cluster:
        earlier = so_far(plan, VERIFICATION_FILE)
        if earlier is not None and earlier.again:
            try:  # the leaders of a broker that was away then: no earlier task runs again
                elect(inputs, cluster, plan)
            except (FrozenError, LockHeldError, StoppedError, WriteError) as held:
                log.warning("No leader was elected before verifying again: %s", held)
        view = cluster.read_view(plan.topics)
        checks = (
            *check_placement(plan.candidate.moves, view),
            *check_same_topics(plan.candidate.moves, view, plan.tables.baseline.topics),
            *check_not_deleted(plan.candidate.moves, view),
            *check_leaders(plan.candidate.moves, view),
            *check_emptied(
                plan.to_be_empty,
                cluster.read_assignments(),
                plan.settings.topics_in,
                plan.tables.waits_for,
            ),
            *check_left_out(plan.left_out),
            *throttle_in_force.check_put_back(cluster, plan),
            *check_segment_settings(cluster, connection, plan),
        )
    held_back = batch_notes.not_moved(plan, view)
    again = not held_back and only_behind(summarise(checks))
    summary = write_checks(plan.folder, checks, plan.candidate.digest, not_moved=held_back, again=again)
    if not summary.passed:
        stopped = ""
        if held_back:
            stopped = f"{len(held_back.partitions)} approved partitions were not moved: {held_back.why} "
        text = f"{stopped}{summary.failure()} No more was moved. See the run's report."
        raise NotInSyncError(text) if again else VerificationError(text)
    return {"checks": len(checks), "warnings": len(summary.warnings)}


def check_verified(inputs: StepInputs) -> None:
    """Raises VerificationError if Airflow has skipped `verify`, or will not run it. ReadError: it does not tell."""
    check_nothing_passed_over(inputs)
