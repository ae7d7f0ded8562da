"""A run's row of the ledger: predicted and actual."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.documents.json_files import JsonFile, T
from kafka_rebalance.documents.progress import BATCHES_FILE, DONE, BatchNotes
from kafka_rebalance.errors import ArtifactError, StorageError, VerificationError
from kafka_rebalance.moves.eta import paused_seconds, with_controller
from kafka_rebalance.rebalance import report
from kafka_rebalance.run import late_tasks, ledger
from kafka_rebalance.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.run.check_result import VERIFICATION_FILE
from kafka_rebalance.run.inputs import StepInputs


def record(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the row, and returns it with the approver's name. Raises VerificationError if the run was not verified."""
    plan = read_approved(inputs, decision)
    row = outcome_row(plan, inputs.run.run_id)
    ledger.append(inputs.deployment, "outcomes", plan.connection_id, inputs.run.run_id, _ended_at(plan), [row])
    report.write_report(plan.folder)
    if not row["verified"]:
        if late_tasks.was_passed_over(inputs, "verify"):
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
    }


def _predicted_seconds(plan: ApprovedPlan) -> float | None:
    """At the approved throttle, which the approver may have changed, and with the time that each batch adds."""
    planned = plan.candidate.summary.get("makespan_seconds")
    rate = plan.settings.throttle_bytes_per_second
    if planned is None or rate is None:
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
