"""batches.json: when each batch was requested, how it ended, and why no batch followed.

ZooKeeper tells what became of a batch. Only these notes tell that this run requested it. Notes of an unknown version
are neither read nor overwritten: FormatVersionError.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.lock_owner import Fence
from kafka_rebalance.steps.clock import now_text
from kafka_rebalance.steps.reassignment.batch_seen import BatchState
from kafka_rebalance.steps.reassignment.progress_notes import read_measured
from kafka_rebalance.steps.run.approved_plan import ApprovedPlan
from kafka_rebalance.steps.run.asked_batches import REQUESTING, entries, read_notes


def note_batch(plan: ApprovedPlan, batch: Batch, state: str, **more: Any) -> None:
    """Notes the state of a batch. The times of its request and its end are noted once."""
    document = read_notes(plan.folder)
    entry = entries(document).setdefault(
        batch.number,
        {
            "number": batch.number,
            "partitions": len(batch.moves),
            "bytes": sum(move.bytes_to_copy for move in batch.moves),
            "created_at": now_text(),
            "finished_at": None,
        },
    )
    entry.update(state=state, **more)
    if state == BatchState.DONE and not entry["finished_at"]:
        entry["finished_at"] = now_text()
    _write(plan, document, entry)


def note_requesting(plan: ApprovedPlan, batch: Batch, fence: Fence) -> None:
    """Notes that the batch is about to be requested under this fence, which the request raises.

    If it is noted already, an earlier try or another worker may have requested it: then it gets no generation.
    """
    first = batch.number not in entries(read_notes(plan.folder))
    note_batch(plan, batch, REQUESTING, generation=fence.generation if first else None)


def note_done(plan: ApprovedPlan, numbers: Collection[int]) -> None:
    """Notes the end of these requested batches, which have ended by what ZooKeeper shows.

    `measured_bytes` are those of their new replicas, None if nobody measured them.
    """
    document = read_notes(plan.folder)
    noted = entries(document)
    unseen = [noted[number] for number in numbers if number in noted and not noted[number].get("finished_at")]
    for entry in unseen:
        entry.update(
            state=BatchState.DONE, finished_at=now_text(), measured_bytes=read_measured(plan.folder, entry["number"])
        )
    if unseen:
        _write(plan, document, *unseen)


def note_stop(plan: ApprovedPlan, why: str) -> None:
    document = read_notes(plan.folder)
    document["stopped"] = {"at": now_text(), "why": why}
    _write(plan, document)


def note_going_on(plan: ApprovedPlan) -> None:
    """Removes the note of `note_stop`: nothing stops the run any more."""
    document = read_notes(plan.folder)
    if document.pop("stopped", None) is not None:
        _write(plan, document)


def read_batch_note(plan: ApprovedPlan, number: int) -> Mapping[str, Any]:
    return entries(read_notes(plan.folder)).get(number, {})


def not_moved(plan: ApprovedPlan, view: ClusterView) -> dict[str, Any] | None:
    """The approved partitions that were not moved because the run was stopped, and why; None: it was not stopped."""
    stopped = read_notes(plan.folder).get("stopped")
    if not isinstance(stopped, Mapping):
        return None
    left = [
        move.topic_partition
        for move in plan.candidate.moves
        if (partition := view.partitions.get(move.topic_partition)) is not None
        and partition.replicas == move.before != move.after
        and move.topic_partition not in view.moving
    ]
    return {"why": str(stopped.get("why")), "partitions": [str(tp) for tp in sorted(left)]}


def _write(plan: ApprovedPlan, document: Mapping[str, Any], *changed: dict[str, Any]) -> None:
    noted = entries(document) | {entry["number"]: entry for entry in changed}
    json_files.write_json(
        plan.folder, json_files.BATCHES, {**document, "batches": [noted[number] for number in sorted(noted)]}
    )
