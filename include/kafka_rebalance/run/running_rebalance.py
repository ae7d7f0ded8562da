"""The run that holds a cluster: what it has asked for, and what people ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Generic, TypeVar

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.progress import BATCHES_FILE, REQUESTING, BatchNote, BatchNotes
from kafka_rebalance.documents.storage import file_name, is_there, names_in
from kafka_rebalance.errors import ApprovalError, ArtifactError, FormatVersionError, LockHeldError, StorageError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import LockOwner, is_same_airflow, is_same_run
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.approval_rules import DECISION_FILE
from kafka_rebalance.run.approved_plan import ApprovedPlan, read_plan
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.run_folder import RunFolder, attempts, folder_of_run
from kafka_rebalance.run.run_lock import lock_owner, this_airflow

# The rebalance that holds a cluster, and earlier ones, found by the lock and the runs' folders.


GOING_ON = (
    "Copies in flight go on. To let the run go on, mark its task approve as success: it keeps what was approved. To "
    "plan anew, start a new Dag run when this one has ended."
)


Plan = TypeVar("Plan")


@dataclass(frozen=True, slots=True)
class Running(Generic[Plan]):
    holder: LockOwner
    plan: Plan


def find_running(deployment: Deployment, cluster: OpenCluster, connection_id: str) -> Running[ApprovedPlan] | None:
    """The rebalance that holds the cluster's lock; None if no rebalance holds it. Errors as in `find_holder`."""
    return find_holder(deployment, cluster, connection_id, REBALANCE_DAG, approved_in)


def find_holder(
    deployment: Deployment,
    cluster: OpenCluster,
    connection_id: str,
    dag_id: str,
    approved_in: Callable[[RunFolder, str], Plan | None],
) -> Running[Plan] | None:
    """The run of that Dag that holds the cluster's lock; None if none holds it.

    `approved_in` gives the plan of a run's folder that has this digest. Raises LockHeldError if the holder belongs to
    another Airflow, or was started with another connection.
    """
    holder = cluster.lock.read()
    if holder is None or not holder.run.startswith(f"{dag_id}/"):
        return None
    here = this_airflow(deployment)
    if not is_same_airflow(holder.owner, here):
        raise LockHeldError(
            f"The cluster is held by run {holder.run} of {holder.owner}, and this is {here}. Nothing was changed. "
            "Cancel it from the Airflow that runs it."
        )
    unreadable: ArtifactError | None = None
    for folder in _attempts(folder_of_run(deployment, connection_id, holder.run.removeprefix(f"{dag_id}/"))):
        try:
            plan = approved_in(folder, holder.digest)
        except ArtifactError as problem:  # another attempt may be the one that runs
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


def still_running(deployment: Deployment, cluster: OpenCluster, run: str, digest: str) -> bool:
    """Whether this run still holds the cluster. Raises LockHeldError if another run holds it."""
    holder = cluster.lock.read()
    if holder is None:
        return False
    if holder.digest != digest or not is_same_run(holder.run, holder.owner, run, this_airflow(deployment)):
        raise LockHeldError(
            f"Run {holder.run} of {holder.owner} now holds the cluster, no longer {run}. Nothing was changed. "
            "Start a new run of kafka_rebalance_cancel to see what that run does."
        )
    return True


def held_digest(inputs: StepInputs, connection: ClusterConnection) -> str | None:
    """The digest under which this run holds the cluster; None if it does not hold it."""
    with open_cluster(connection) as cluster:
        holder = cluster.lock.read()
    this_run = lock_owner(inputs.deployment, "-", inputs.run)
    return holder.digest if holder is not None and holder.is_same_run(this_run) else None


def check_plans_nothing_meanwhile(inputs: StepInputs, connection: ClusterConnection) -> None:
    """Raises LockHeldError while this run executes a plan."""
    digest = held_digest(inputs, connection)
    if digest is not None:
        raise LockHeldError(
            f"This run is executing its approved plan {digest[:8]}, so it makes no other plan. {GOING_ON}"
        )


def check_not_begun(folder: RunFolder) -> None:
    """Raises ApprovalError if batches of the plan in this folder were requested."""
    if is_there(folder / json_files.BATCHES):
        raise ApprovalError(
            f"Batches of the plan in {folder} were already started, so it is not made again. {GOING_ON}"
        )


def find_moved(deployment: Deployment, connection_id: str, run_id: str | None) -> ApprovedPlan | None:
    """The plan of this run, or of the run that began last, if it has requested a batch; else None.

    The run may still hold the cluster.
    """
    moved: list[tuple[datetime, ApprovedPlan]] = []
    connection = deployment.runs_root / file_name(connection_id)
    runs = [file_name(run_id)] if run_id else names_in(connection)
    for folder in (attempt for run in runs for attempt in _attempts(connection / run)):
        try:
            notes = BATCHES_FILE.read_if_there(folder) or BatchNotes()
            begun = [note.created_at for note in notes.batches if note.created_at is not None]
            plan = approved_in(folder, None) if begun else None
        except ArtifactError as unreadable:
            remedy = "" if run_id else " So it is unknown which run began last. Name the run in run_id."
            raise type(unreadable)(f"{unreadable}{remedy}") from unreadable
        if plan is not None:
            moved.append((min(begun), plan))
    return max(moved, key=itemgetter(0))[1] if moved else None


def approved_in(folder: RunFolder, digest: str | None) -> ApprovedPlan | None:
    """The plan that was approved in this folder; None if there is none, or it has another digest than the given one.

    Raises ApprovalError if the moves no longer give the approved digest.
    """
    decision = DECISION_FILE.read_if_there(folder)
    if decision is None or not decision.is_approval or digest not in (None, decision.digest):
        return None
    return read_plan(folder, decision)


def _attempts(run: RunFolder) -> Iterator[RunFolder]:
    """The latest first."""
    return (run / str(number) for number in reversed(attempts(run)))


# Which moves this run has requested. Only batches.json and the fence tell that, and never the cluster.


def asked_for(folder: RunFolder, moves: Iterable[Move], cluster: OpenCluster) -> frozenset[TopicPartition]:
    """The partitions of these moves that this run has requested; only the cluster tells what became of them.

    Read it after the cluster, because a request is noted before it is made. A move counts too if a worker died when it
    was about to request it, unless the fence is as it was noted: a request would have raised it. Raises ReadError,
    StorageError, FormatVersionError.
    """
    notes = read_notes(folder).by_number
    is_doubtful = any(note.state == REQUESTING for note in notes.values())
    now = cluster.lock.read_fence().generation if is_doubtful else ""
    parts = {number: _asked_part(note, now) for number, note in notes.items()}
    return frozenset(
        move.topic_partition
        for move in moves
        if move.batch in parts and (parts[move.batch] is None or str(move.topic_partition) in (parts[move.batch] or ()))
    )


def _asked_part(note: BatchNote, now: str) -> frozenset[str] | None:
    """The partitions of a batch that were requested; None: all."""
    is_certain = note.state != REQUESTING or note.generation != now
    if note.asked is not None:
        return frozenset((*note.asked, *((note.asking or ()) if is_certain else ())))
    return None if is_certain else frozenset()


def gone_through(folder: RunFolder) -> frozenset[int]:
    """Numbers of the batches that were noted as ended. Raises StorageError, FormatVersionError."""
    return frozenset(note.number for note in read_notes(folder).batches if note.finished_at is not None)


def read_notes(folder: RunFolder) -> BatchNotes:
    """batches.json; empty if it is absent or damaged. Raises StorageError, FormatVersionError."""
    try:
        return BATCHES_FILE.read_if_there(folder) or BatchNotes()
    except (FormatVersionError, StorageError):
        raise
    except ArtifactError:
        return BatchNotes()
