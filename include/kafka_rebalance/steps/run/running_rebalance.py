"""The rebalance that is at work on a cluster, and those that were: found by the lock and the runs' folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import is_there, names_in
from kafka_rebalance.errors import ApprovalError, ArtifactError, LockHeldError
from kafka_rebalance.execution.approval_rules import REJECT
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.same_airflow import is_same_airflow, is_same_run
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.steps.clusters import REBALANCE_DAG
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import RunName
from kafka_rebalance.steps.run.approved_plan import ApprovedPlan, check_digest, plan_in
from kafka_rebalance.steps.run.run_lock import lock_owner, this_airflow
from kafka_rebalance.steps.run_folder import RunFolder, attempts, file_name
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client

GOING_ON = (
    "Copies in flight go on. To let the run go on, mark its task approve as success: it keeps what was approved. To "
    "plan anew, start a new Dag run when this one has ended."
)


@dataclass(frozen=True, slots=True)
class Running:
    """The run that holds the cluster, and what it was approved to do."""

    holder: cluster_lock.LockOwner
    plan: ApprovedPlan


def find_running(deployment: Deployment, client: KazooClient, connection_id: str) -> Running | None:
    """The rebalance that holds the cluster's lock; None where nobody does, or only a change of a topic.

    Raises LockHeldError where the holder belongs to another Airflow, or was started with another connection: it cannot
    be reached from here.
    """
    holder = cluster_lock.read(client)
    if holder is None or not holder.run.startswith(f"{REBALANCE_DAG}/"):
        return None
    here = this_airflow(deployment)
    if not is_same_airflow(holder.owner, here):
        raise LockHeldError(
            f"The cluster is held by run {holder.run} of {holder.owner}, and this is {here}. Nothing was changed. "
            "Cancel it from the Airflow that runs it."
        )
    unreadable: ArtifactError | None = None
    for folder in _attempts(deployment, connection_id, holder.run.removeprefix(f"{REBALANCE_DAG}/")):
        try:
            plan = approved_in(folder, holder.digest)
        except ArtifactError as problem:  # another attempt may be the one that runs: its digest says so
            unreadable = unreadable or problem
            continue
        if plan is not None:
            return Running(holder, plan)
    if unreadable is not None:
        raise unreadable
    raise LockHeldError(
        f"The cluster is held by run {holder.run}, whose files are not below {deployment.runs_root} for the connection "
        f"{connection_id!r}. Nothing was changed. Start this again with the connection that the run was started with."
    )


def still_running(deployment: Deployment, client: KazooClient, run: str, digest: str) -> bool:
    """Whether that very run still holds the cluster. Raises LockHeldError where another one does."""
    holder = cluster_lock.read(client)
    if holder is None:
        return False
    if holder.digest != digest or not is_same_run(holder.run, holder.owner, run, this_airflow(deployment)):
        raise LockHeldError(
            f"The cluster is now held by run {holder.run} of {holder.owner}, no longer by {run}. Nothing was changed. "
            "Start a new run of kafka_rebalance_cancel to see what that one does."
        )
    return True


def held_digest(deployment: Deployment, connection: ClusterConnection, started: RunName) -> str | None:
    """The digest under which this very run holds the cluster; None where it does not."""
    with open_client(connection.zookeeper) as client:
        holder = cluster_lock.read(client)
    return holder.digest if holder is not None and holder.is_same_run(lock_owner(deployment, "-", started)) else None


def check_plans_nothing_meanwhile(deployment: Deployment, connection: ClusterConnection, started: RunName) -> None:
    """Raises LockHeldError while this run executes a plan: another one is not put under its moves."""
    digest = held_digest(deployment, connection, started)
    if digest is not None:
        raise LockHeldError(
            f"This run holds the cluster with the plan {digest[:8]} that was approved in it, so nothing else is "
            f"planned in it now. Nothing was written. {GOING_ON}"
        )


def check_not_begun(folder: RunFolder) -> None:
    """Raises ApprovalError where batches of the plan in this folder were requested: it is not made again."""
    if is_there(folder / json_files.BATCHES):
        raise ApprovalError(
            f"Batches of the plan in {folder} were already started, so it is not made again. Nothing was written. "
            f"{GOING_ON}"
        )


def find_moved(deployment: Deployment, connection_id: str, run_id: str | None) -> ApprovedPlan | None:
    """What a run that has moved something was approved to move: of that run, or of the one that began last.

    None where there is none. Whether it still holds the cluster is not asked here.
    """
    found: list[tuple[str, ApprovedPlan]] = []
    for folder in _attempts(deployment, connection_id, run_id) if run_id else _all_attempts(deployment, connection_id):
        try:
            begun = _begun(folder)
            plan = approved_in(folder, None) if begun else None
        except ArtifactError as unreadable:
            remedy = "" if run_id else " Which run began last can therefore not be told: name it in run_id."
            raise type(unreadable)(f"{unreadable}{remedy}") from unreadable
        if plan is not None:
            found.append((min(begun), plan))
    return max(found, key=lambda one: one[0])[1] if found else None


def _begun(folder: RunFolder) -> list[str]:
    """When its batches were requested, ISO 8601 in UTC; none where none was."""
    document = json_files.read_json_if_there(folder, json_files.BATCHES) or {}
    return [batch["created_at"] for batch in document.get("batches", ())]


def approved_in(folder: RunFolder, digest: str | None) -> ApprovedPlan | None:
    """What was approved in this folder, under that digest where one is given; None where that is something else.

    Raises ApprovalError where the moves no longer give the approved digest.
    """
    written = json_files.read_json_if_there(folder, json_files.DECISION) or {}
    if written.get("choice") in (None, REJECT) or digest not in (None, written.get("digest")):
        return None
    snapshot = json_files.read_json(folder, json_files.SNAPSHOT)
    candidate = read_candidate(folder, written["choice"])
    check_digest(f"Candidate {candidate.name}", candidate.digest, written)
    return plan_in(folder, snapshot, written, candidate)


def _all_attempts(deployment: Deployment, connection_id: str) -> Iterator[RunFolder]:
    connection = deployment.runs_root / file_name(connection_id)
    for run in names_in(connection):
        yield from _numbered(connection / run)


def _attempts(deployment: Deployment, connection_id: str, run_id: str) -> Iterator[RunFolder]:
    """The attempts of one run, the latest first."""
    return _numbered(deployment.runs_root / file_name(connection_id) / file_name(run_id))


def _numbered(run: RunFolder) -> Iterator[RunFolder]:
    yield from (run / str(number) for number in reversed(attempts(run)))
