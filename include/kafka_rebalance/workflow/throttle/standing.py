"""What is known of other runs: a task may ask for one run's state and one Dag's, and for nothing of another Airflow."""

from __future__ import annotations

import logging

from kafka_rebalance.errors import ReadError
from kafka_rebalance.execution.janitor.lease_custody import AirflowState
from kafka_rebalance.model.same_airflow import is_same_airflow
from kafka_rebalance.steps.deployment import current
from kafka_rebalance.steps.inputs import RunName
from kafka_rebalance.workflow.fleet import JANITOR_DAG
from kafka_rebalance.workflow.run.lock import this_airflow

log = logging.getLogger(__name__)


def read_standing(run: str, owner: str) -> AirflowState:
    """Of the run that a lease or lock names. UNKNOWN where it is another Airflow's, or this one does not tell."""
    dag_id, _, run_id = run.partition("/")
    if not is_same_airflow(owner, this_airflow()) or not run_id:
        return AirflowState.UNKNOWN
    return current().other_runs.state(dag_id, run_id)


def is_skipped(started: RunName, task_id: str) -> bool:
    """Whether that task of the run was skipped; False where it is not told."""
    return current().other_runs.is_skipped(started.dag_id, started.run_id, task_id)


def is_active(dag_id: str, run_id: str) -> bool:
    """Whether the run is queued or running; a run that does not exist is not. Raises where it is not told."""
    return current().other_runs.is_active(dag_id, run_id)


def warn_without_janitor() -> None:
    """Says in the log that nobody will take care of a throttle that is left, where the janitor is paused or missing."""
    try:
        paused = current().other_runs.is_paused(JANITOR_DAG)
    except ReadError as unread:
        log.info("Whether %s is paused is not known: %s", JANITOR_DAG, unread)
        return
    if paused is not False:
        log.warning(
            "The Dag %s is %s: if this run goes away while copies are in flight, nobody takes their throttle off. "
            "Unpause it.",
            JANITOR_DAG,
            "missing" if paused is None else "paused",
        )
