"""The end of a run: whether the cluster is as approved, in verification.json, and the run's row in the ledger."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.json_files import JsonFile, T
from kafka_rebalance.documents.progress import BATCHES_FILE, DONE, PROGRESS_FILE, BatchNotes
from kafka_rebalance.errors import (
    ArtifactError,
    FrozenError,
    LockHeldError,
    NotInSyncError,
    StoppedError,
    StorageError,
    VerificationError,
    WriteError,
)
from kafka_rebalance.moves.eta import paused_seconds, with_controller
from kafka_rebalance.moves.slow_brokers import judged, paces_of
from kafka_rebalance.rebalance import batch_notes, report
from kafka_rebalance.rebalance.elect_leaders import elect
from kafka_rebalance.run import ledger, passed_over_tasks
from kafka_rebalance.run.approved_plan import ApprovedPlan, check_left_out, read_approved
from kafka_rebalance.run.check_result import VERIFICATION_FILE, only_behind, summarise, write_checks
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.passed_over_tasks import check_nothing_passed_over
from kafka_rebalance.run.replicas_in_place import (
    check_emptied,
    check_leaders,
    check_not_deleted,
    check_placement,
    check_same_topics,
)
from kafka_rebalance.segments.audit_io import check_segment_settings
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


# How the run ended, for the ledger and its report.


def record(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the row, and returns it with the approver's name. Raises VerificationError if the run was not verified."""
    plan = read_approved(inputs, decision)
    row = outcome_row(plan, inputs.run.run_id)
    ledger.append(inputs.deployment, "outcomes", plan.connection_id, inputs.run.run_id, _ended_at(plan), [row])
    report.write_report(plan.folder)
    if not row["verified"]:
        if passed_over_tasks.was_passed_over(inputs, "verify"):
            raise VerificationError(
                "Airflow did not run the task verify, so nobody has verified whether the run reached the approved end. "
                "The ledger says that it is not verified. Clear verify with its downstream tasks."
            )
        raise VerificationError(
            "The run did not reach the approved end, see verification.json. The ledger says that it is not verified."
        )
    return row | {"approver": plan.decision.by}


def _ended_at(plan: ApprovedPlan) -> datetime:
    """When the run came to its end, by its own files: a second try of this task must find the day of its first row."""
    notes, checked = so_far(plan, BATCHES_FILE) or BatchNotes(), so_far(plan, VERIFICATION_FILE)
    noted = max((at for batch in notes.batches if (at := batch.finished_at or batch.created_at)), default=None)
    return ((checked and checked.verified_at) or noted or plan.decision.given_at).astimezone(UTC)


def outcome_row(plan: ApprovedPlan, run_id: str) -> dict[str, Any]:
    notes, checked = so_far(plan, BATCHES_FILE) or BatchNotes(), so_far(plan, VERIFICATION_FILE)
    progress = so_far(plan, PROGRESS_FILE)
    known = judged(paces_of(progress.paces)) if progress is not None else ()
    done = [batch for batch in notes.batches if batch.state == DONE]
    copied = [(batch, batch.measured) for batch in done]
    begun = min((batch.created_at for batch in notes.batches if batch.created_at), default=None)
    ended = max((batch.finished_at for batch in done if batch.finished_at), default=None)
    seconds = None
    if begun is not None and ended is not None:
        # What later runs are held against is the time of copying, not of waiting for windows.
        pauses = [(pause.at, pause.ended_at) for pause in notes.pauses or ()]
        seconds = (ended - begun).total_seconds() - paused_seconds(pauses, begun, ended)
    return {
        "run_id": run_id,
        "candidate": plan.candidate.name,
        "digest": plan.candidate.digest,
        "approved_by": plan.decision.by_id,
        "verified": checked is not None and checked.passed,
        "predicted_bytes": sum(move.bytes_to_copy for move in plan.candidate.moves),
        "copied_bytes": sum(batch.bytes if measured is None else measured for batch, measured in copied),
        "unmeasured_bytes": sum(batch.bytes for batch, measured in copied if measured is None),
        "predicted_seconds": _predicted_seconds(plan),
        "actual_seconds": seconds,
        "partitions": len(plan.candidate.moves),
        "batches": len(plan.candidate.batches),
        "throttle_bytes_per_second": plan.throttle_bytes_per_second,
        "slow_brokers": sorted({slow.broker for slow in progress.slow_brokers}) if progress and known else None,
        "judged_brokers": list(known) or None,
    }


def _predicted_seconds(plan: ApprovedPlan) -> float | None:
    """At the approved throttle, which the approver may have changed, and with the time that each batch adds.

    None for a run with a range of rates: the load decides how long it takes, and no later run is held against that.
    """
    planned = plan.candidate.summary.get("makespan_seconds")
    rate = plan.settings.throttle_bytes_per_second
    if planned is None or rate is None or plan.decision.throttle_from_bytes_per_second is not None:
        return None
    return with_controller(float(planned) * rate / plan.throttle_bytes_per_second, len(plan.candidate.batches))


def so_far(plan: ApprovedPlan, file: JsonFile[T]) -> T | None:
    """A file that an earlier task may not have written; None if it is absent or damaged. Raises StorageError."""
    try:
        return file.read_if_there(plan.folder)
    except StorageError:
        raise
    except ArtifactError:
        return None
