"""A run's row of the ledger: predicted and actual."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, StorageError, VerificationError
from kafka_rebalance.moves.eta import paused_seconds, with_controller
from kafka_rebalance.rebalance import report
from kafka_rebalance.run import late_tasks, ledger
from kafka_rebalance.run.approved_plan import ApprovedPlan, decider, read_approved
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
    return row | {"approver": decider(plan.decision)}


def _ended_at(plan: ApprovedPlan) -> datetime:
    """When the run came to its end, by its own files: a second try of this task must find the day of its first row."""
    batches = so_far(plan, json_files.BATCHES).get("batches", [])
    noted = max((batch.get("finished_at") or batch["created_at"] for batch in batches), default=None)
    at = so_far(plan, json_files.VERIFICATION).get("verified_at") or noted or plan.decision["approved_at"]
    return datetime.fromisoformat(at).astimezone(UTC)


def outcome_row(plan: ApprovedPlan, run_id: str) -> dict[str, Any]:
    verified = so_far(plan, json_files.VERIFICATION).get("passed", False)
    notes = so_far(plan, json_files.BATCHES)
    batches = notes.get("batches", [])
    done = [batch for batch in batches if batch["state"] == "done"]
    copied = [(batch, batch.get("measured_bytes")) for batch in done]
    seconds = None
    if done:
        begun = min(datetime.fromisoformat(batch["created_at"]) for batch in batches)
        ended = max(datetime.fromisoformat(batch["finished_at"]) for batch in done)
        pauses = [
            (datetime.fromisoformat(one["at"]), one["ended_at"] and datetime.fromisoformat(one["ended_at"]))
            for one in notes.get("pauses", ())
        ]
        # What later runs are held against is the time of copying, not of waiting for windows.
        seconds = (ended - begun).total_seconds() - paused_seconds(pauses, begun, ended)
    return {
        "run_id": run_id,
        "candidate": plan.candidate.name,
        "digest": plan.candidate.digest,
        "approved_by": plan.decision["approved_by"]["id"],
        "verified": bool(verified),
        "predicted_bytes": sum(move.bytes_to_copy for move in plan.candidate.moves),
        "copied_bytes": sum(batch["bytes"] if measured is None else measured for batch, measured in copied),
        "unmeasured_bytes": sum(batch["bytes"] for batch, measured in copied if measured is None),
        "predicted_seconds": _predicted_seconds(plan),
        "actual_seconds": seconds,
        "partitions": len(plan.candidate.moves),
        "batches": len(plan.candidate.batches),
        "throttle_bytes_per_second": plan.throttle_bytes_per_second,
    }


def _predicted_seconds(plan: ApprovedPlan) -> float | None:
    """At the approved throttle, which the approver may have changed, and with the time that each batch adds."""
    planned = plan.candidate.summary.get("makespan_seconds")
    rate = plan.snapshot["settings"]["throttle_bytes_per_second"]
    if planned is None:
        return None
    return with_controller(float(planned) * rate / plan.throttle_bytes_per_second, len(plan.candidate.batches))


def so_far(plan: ApprovedPlan, name: str) -> dict[str, Any]:
    """A file that an earlier task may not have written; empty if it is absent or damaged. Raises StorageError."""
    try:
        return json_files.read_json(plan.folder, name)
    except StorageError:
        raise
    except ArtifactError:
        return {}
