"""What Airflow knows of a run beside its files, in words for its page: what holds it up, and what came after it."""

from __future__ import annotations

from sqlalchemy.orm import Session

from kafka_rebalance.documents.json_files import BATCHES
from kafka_rebalance.documents.storage import is_there
from kafka_rebalance.errors import RebalanceError, SettingsError, StorageError
from kafka_rebalance.report.run_state import ACTIVE_STATES
from kafka_rebalance.steps.freeze import VARIABLE, frozen_clusters
from kafka_rebalance.steps.run_folder import RunFolder, open_run_folder
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.web.run_records import DagRun, is_paused, newer_rebalances, read_variable

NEWER_READ = 30  # runs of the Dag after this one that are looked at


def holds(session: Session, dag_id: str, connection_id: str) -> tuple[str, ...]:
    """What keeps the run from going on, and what to do."""
    said = []
    if is_paused(session, dag_id):
        said.append(
            f"The Dag {dag_id} is paused: Airflow starts none of its tasks, neither the next batch nor what takes the "
            "throttle off. Unpause it."
        )
    try:
        frozen = frozen_clusters(read_variable(VARIABLE))
    except SettingsError as unusable:
        return (*said, str(unusable))
    if frozen is True or (frozen and connection_id in frozen):
        said.append(
            f"Frozen by the Variable {VARIABLE}: no batch is requested. Copies that are under way go on. "
            "Unset it under Admin, Variables."
        )
    return tuple(said)


def superseded_by(session: Session, dag_run: DagRun, folder: RunFolder) -> str:
    """Which newer run of the same cluster has planned or moved since; empty where none has."""
    waiting = ""
    for newer in newer_rebalances(session, dag_run, NEWER_READ):
        other = _folder(newer.folder)
        if other is None or other.parent.parent != folder.parent.parent:
            continue
        try:
            has_moved = is_there(other / BATCHES)
        except StorageError:
            continue
        if has_moved:
            return (
                f"Superseded: the newer run {newer.run_id} has moved partitions of this cluster since this was "
                "planned. An approval here is held against the cluster first, and refused where it differs. Reject "
                "it, and start a new Dag run if there is still something to do."
            )
        if newer.state in ACTIVE_STATES:
            waiting = (
                waiting or f"A newer proposal for this cluster waits in run {newer.run_id}. Decide on one of them."
            )
    return waiting


def _folder(url: str | None) -> RunFolder | None:
    try:
        return open_run_folder(airflow_deployment(), url) if url else None
    except RebalanceError:
        return None
