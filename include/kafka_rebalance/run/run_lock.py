"""The name under which a run holds a cluster's lock, and a note of the lock outside the cluster: `runs_url / locks`.

To find a lock, the janitor must know the cluster. A run that dies before it writes its lease leaves no other trace of
the connection, which need not be in any list.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from kafka_rebalance import clock
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.json_files import JsonFile, Time
from kafka_rebalance.documents.progress import BATCHES_FILE, DONE, PROGRESS_FILE
from kafka_rebalance.documents.storage import file_name, make_folder, names_in, remove
from kafka_rebalance.documents.throttle_lease import THROTTLE_FILE
from kafka_rebalance.errors import ArtifactError, LockHeldError, StorageError
from kafka_rebalance.model.lock_owner import AirflowState, Fence, LockOwner, is_same_airflow, marked
from kafka_rebalance.run.clusters import how_to_stop
from kafka_rebalance.run.inputs import Deployment, RunName, StartedRun
from kafka_rebalance.run.run_folder import (
    RunFolder,
    find_run_folder,
    folder_of_run,
    installation,
    newest_attempt,
)

log = logging.getLogger(__name__)

KEPT_SECONDS = 3600.0  # the note of a lock that nobody holds: after this time no run is still about to take it


def this_airflow(deployment: Deployment) -> str:
    """This Airflow: its address, for people, and the mark that tells it from any other Airflow."""
    return marked(deployment.address, installation(deployment))


def read_standing(deployment: Deployment, run: str, owner: str) -> AirflowState:
    """The state of the run that a lease or lock names. UNKNOWN if another Airflow has it, or this one does not tell."""
    dag_id, _, run_id = run.partition("/")
    if not is_same_airflow(owner, this_airflow(deployment)) or not run_id:
        return AirflowState.UNKNOWN
    return deployment.other_runs.state(dag_id, run_id)


def lock_owner(deployment: Deployment, digest: str, started: RunName) -> LockOwner:
    """This run, as people and other Airflows can find it; `digest` is the approved one."""
    return LockOwner(
        run=f"{started.dag_id}/{started.run_id}",
        digest=digest,
        owner=this_airflow(deployment),
        acquired_at=clock.now_text(),
    )


def take_lock(deployment: Deployment, cluster: OpenCluster, connection_id: str, owner: LockOwner) -> Fence:
    """Notes the lock, then takes it. Raises StorageError, and what `ClusterLock.acquire` raises. The error says until
    when the run that has the cluster waits for its window.
    """
    note_lock(deployment, connection_id, owner)
    try:
        return cluster.lock.acquire(owner)
    except LockHeldError as held:
        forget_lock(deployment, connection_id, owner)  # another run has it, so this one does not
        holder = cluster.lock.read()
        until = None if holder is None else _paused_until(deployment, connection_id, holder)
        if holder is None or until is None:
            raise
        raise LockHeldError(
            f"{held} That run pauses until {until:%Y-%m-%d %H:%M %Z}, when its window opens. To have the cluster "
            f"before that, {how_to_stop(holder.run)}."
        ) from held


def _paused_until(deployment: Deployment, connection_id: str, holder: LockOwner) -> datetime | None:
    """By the notes of a run of this Airflow; None if they say nothing of a pause."""
    dag_id, _, run_id = holder.run.partition("/")
    with suppress(ArtifactError, OSError):
        folder = newest_attempt(folder_of_run(deployment, connection_id, run_id), dag_id)
        progress = None if folder is None else PROGRESS_FILE.read_if_there(folder)
        if progress is not None and progress.state == "waiting":
            return progress.waiting_until
    return None


def note_lock(deployment: Deployment, connection_id: str, owner: LockOwner) -> None:
    """Notes that this run is about to take the cluster. Raises StorageError."""
    folder = deployment.runs_root / json_files.LOCKS
    make_folder(folder)
    _note_file(_note(connection_id, owner)).write(folder, LockNote(connection_id, clock.utc_now(), owner.run))


def forget_lock(deployment: Deployment, connection_id: str, owner: LockOwner) -> None:
    """Removes the note of a lock that this run has given back. If that fails, the janitor removes it later."""
    try:
        remove(deployment.runs_root / json_files.LOCKS / _note(connection_id, owner))
    except StorageError as away:
        log.info("The janitor will remove the note of the cluster's lock: %s", away)


def noted_connections(deployment: Deployment) -> list[str]:
    """The connections of the clusters whose lock a run may hold. Raises StorageError if the notes cannot be listed.

    A damaged note is logged and skipped.
    """
    return list(dict.fromkeys(note.connection_id for _, note in _notes(deployment)))


def forget_old_locks(deployment: Deployment, connection_id: str) -> None:
    """Removes the old notes of a cluster whose lock nobody holds. Raises StorageError."""
    for name, note in _notes(deployment):
        age = clock.utc_now() - note.noted_at
        if note.connection_id == connection_id and abs(age.total_seconds()) > KEPT_SECONDS:
            remove(deployment.runs_root / json_files.LOCKS / name)


def run_so_far_in_words(deployment: Deployment, started: StartedRun) -> str:
    """How far this run is, and what it holds of a cluster, by its own files; empty if it has begun nothing.

    This is the one place that looks. Code that refuses something does not know what other tasks and tries have written.
    """
    run = f"{started.dag_id}/{started.run_id}"
    sentences, noted = [], None
    try:
        noted = next((note for _, note in _notes(deployment) if note.run == run), None)
        connection = noted.connection_id if noted is not None else started.conf.get("kafka_conn_id")
        folder = find_run_folder(deployment, started, connection) if connection else None
        sentences = [] if folder is None else [*_batches_so_far(folder), *_throttle_so_far(folder)]
    except (ArtifactError, OSError) as unread:
        log.warning("How far the run is cannot be read: %s", unread)
        sentences.append("How far the run is cannot be read, so it may have copies in flight, and a throttle on them.")
    if noted is not None:
        sentences.append(
            "The run has taken its cluster's lock. So it may have copies in flight, and a throttle on them. Its page "
            "says how far it is. If it cannot go on, end it: kafka_throttle_janitor then puts back throttle and lock."
        )
    return " ".join(sentences)


def _batches_so_far(folder: RunFolder) -> list[str]:
    notes = BATCHES_FILE.read_if_there(folder)
    if notes is None or not notes.batches:
        return []
    done = sum(batch.state == DONE for batch in notes.batches)
    return [f"Batches that this run has requested so far: {len(notes.batches)}, of which {done} are in place."]


def _throttle_so_far(folder: RunFolder) -> list[str]:
    throttle = THROTTLE_FILE.read_if_there(folder)
    return ["Its throttle is set."] if throttle is not None and throttle.is_set else []


@dataclass(frozen=True, slots=True)
class LockNote:
    """A run is about to take the lock of a cluster, or has taken it."""

    connection_id: str
    noted_at: Time
    run: str = ""  # earlier versions did not write it


def _note_file(name: str) -> JsonFile[LockNote]:
    return JsonFile(name, LockNote)


def _notes(deployment: Deployment) -> Iterator[tuple[str, LockNote]]:
    """By the name of the file."""
    folder = deployment.runs_root / json_files.LOCKS
    for name in names_in(folder):
        if not name.endswith(".json") or name.startswith("."):
            continue
        try:
            noted = _note_file(name).read_if_there(folder)
            if noted is not None:
                yield name, noted
        except StorageError as away:
            log.error("The note of a lock cannot be read: %s", away)
        except ArtifactError as damaged:
            log.error(
                "%s is not a note of a lock (%s: %s). The janitor looks at its cluster only if a lease or the Variable "
                "of the clusters names it too. Find out which cluster that is, then remove the file.",
                folder / name,
                type(damaged).__name__,
                damaged,
            )


def _note(connection_id: str, owner: LockOwner) -> str:
    return f"{file_name(f'{connection_id} {owner.run}')}.json"
