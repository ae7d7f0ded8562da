"""Requests the approved batches, one after the other. Where a run stands is read from ZooKeeper each time."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.errors import ArtifactError, ExecutionError
from kafka_rebalance.execution.recovery import check_position, position
from kafka_rebalance.model import artifacts
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.proposal import Batch
from kafka_rebalance.workflow.approved import ApprovedPlan, read_approved, read_plan_view
from kafka_rebalance.workflow.elections import elect_preferred
from kafka_rebalance.workflow.freeze import check_not_frozen
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.preflight import check_before_write
from kafka_rebalance.workflow.throttling import check_throttle_in_force
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.writer import create_reassignment

log = logging.getLogger(__name__)


def request_next(decision: Mapping[str, Any]) -> tuple[ApprovedPlan, Batch | None]:
    """The approved plan, and the batch to follow now: the one in flight, else the next, which is requested here.

    None when all are in place. Asking again requests no batch twice.
    """
    plan = read_approved(decision)
    connection = read_connection(plan.connection_id)
    with open_client(connection.zookeeper) as client:
        return _next(plan, connection, client)


def finish(decision: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    """Notes how a batch ended and elects its leaders. Raises ExecutionError where it did not end as approved."""
    plan = read_approved(decision)
    note_batch(plan, event["batch"], event["state"])
    if event["state"] != "done":
        raise ExecutionError(event["message"])
    log.info("Batch %d of %d is in place", event["batch"], len(plan.candidate.batches))
    batch = next(b for b in plan.candidate.batches if b.number == event["batch"])
    with open_client(read_connection(plan.connection_id).zookeeper) as client:
        elect_preferred(client, batch.moves, allowed=lambda: check_not_frozen(plan.connection_id))


def _next(plan: ApprovedPlan, connection: ClusterConnection, client: KazooClient) -> tuple[ApprovedPlan, Batch | None]:
    """The batch to follow: the one in flight, else the next one, requested here; None when all are in place."""
    view = read_plan_view(client, plan)
    where = position(plan.candidate.batches, view)
    check_position(where)
    note_done(plan, where.done)
    if where.in_flight is not None:
        log.info("Batch %d is already under way; following it", where.in_flight.number)
        return plan, where.in_flight
    if where.next is None:
        return plan, None
    plan = check_before_write(connection, plan, view, where, requesting=where.next.number)
    where = position(plan.candidate.batches, view)
    note_done(plan, where.done)
    if where.next is None:
        return plan, None  # what was left has been left out
    check_throttle_in_force(client, plan)
    batch = where.next
    log.info(
        "Batch %d of %d: requesting %d partitions, %d bytes to copy",
        batch.number,
        len(plan.candidate.batches),
        len(batch.moves),
        sum(move.bytes_to_copy for move in batch.moves),
    )
    note_batch(plan, batch.number, "requested")
    create_reassignment(client, batch, plan.candidate.digest, view.brokers)
    return plan, batch


def note_batch(plan: ApprovedPlan, number: int, state: str) -> None:
    """Keeps batches.json: when each batch was requested and when it was over. ZooKeeper stays the truth."""
    noted = _read_notes(plan)
    batch = next(b for b in plan.candidate.batches if b.number == number)
    entry = noted.setdefault(
        number,
        {
            "number": number,
            "partitions": len(batch.moves),
            "bytes": sum(move.bytes_to_copy for move in batch.moves),
            "created_at": _now(),
            "finished_at": None,
        },
    )
    entry["state"] = state
    if state == "done" and not entry["finished_at"]:
        entry["finished_at"] = _now()
    _write_notes(plan, noted)


def note_done(plan: ApprovedPlan, numbers: Collection[int]) -> None:
    """Notes the end of batches that were noted as requested and, as ZooKeeper shows, ended while nobody looked."""
    noted = _read_notes(plan)
    unseen = [noted[number] for number in numbers if number in noted and not noted[number]["finished_at"]]
    for entry in unseen:
        entry.update(state="done", finished_at=_now())
    if unseen:
        _write_notes(plan, noted)


def _read_notes(plan: ApprovedPlan) -> dict[int, dict[str, Any]]:
    """The notes by batch; none where there are no readable ones."""
    try:
        return {b["number"]: b for b in artifacts.read_json(plan.folder, artifacts.BATCHES)["batches"]}
    except ArtifactError:
        return {}


def _write_notes(plan: ApprovedPlan, noted: Mapping[int, Mapping[str, Any]]) -> None:
    artifacts.write_json(plan.folder, artifacts.BATCHES, {"batches": [noted[n] for n in sorted(noted)]})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
