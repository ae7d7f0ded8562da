"""What Airflow says of a run: a task may ask for one run's state and one Dag's, and for nothing of another Airflow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from kafka_rebalance.execution.janitor.lease_custody import AirflowState
from kafka_rebalance.model.same_airflow import is_same_airflow
from kafka_rebalance.workflow.fleet import JANITOR_DAG
from kafka_rebalance.workflow.run.lock import this_airflow

log = logging.getLogger(__name__)

T = TypeVar("T")


def read_standing(run: str, owner: str) -> AirflowState:
    """Of the run that a lease or lock names. UNKNOWN where it is another Airflow's, or this one does not tell."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    dag_id, _, run_id = run.partition("/")
    if not is_same_airflow(owner, this_airflow()) or not run_id:
        return AirflowState.UNKNOWN
    try:
        state = _asked(lambda: RuntimeTaskInstance.get_dagrun_state(dag_id, run_id))
        if state is None:
            return AirflowState.GONE
        if str(getattr(state, "value", state)) in ("success", "failed"):
            return AirflowState.OVER
        dag = _asked(lambda: RuntimeTaskInstance.get_dag(dag_id))
    except Exception as failed:  # whatever goes wrong between us and the API server: we do not know
        log.warning("Airflow does not tell of run %s (%s: %s)", run, type(failed).__name__, failed)
        return AirflowState.UNKNOWN
    if dag is None:
        return AirflowState.UNKNOWN
    return AirflowState.PAUSED if dag.is_paused else AirflowState.RUNNING


def is_skipped(dag_run: Any, task_id: str) -> bool:
    """Whether Airflow has skipped that task of the run; False where it does not tell."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        states = RuntimeTaskInstance.get_task_states(dag_run.dag_id, task_ids=[task_id], run_ids=[dag_run.run_id])
    except Exception as failed:
        log.warning("Airflow does not tell of %s (%s: %s)", task_id, type(failed).__name__, failed)
        return False
    state = (states.get(dag_run.run_id) or {}).get(task_id)
    return str(getattr(state, "value", state)) == "skipped"


def is_active(dag_id: str, run_id: str) -> bool:
    """Whether the run is queued or running, by Airflow's word; a run that does not exist is not. Raises what Airflow
    raises where it does not tell.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    state = _asked(lambda: RuntimeTaskInstance.get_dagrun_state(dag_id, run_id))
    return state is not None and str(getattr(state, "value", state)) in ("queued", "running")


def warn_without_janitor() -> None:
    """Says in the log that nobody will take care of a throttle that is left, where the janitor is paused or missing."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        dag = _asked(lambda: RuntimeTaskInstance.get_dag(JANITOR_DAG))
    except Exception as failed:
        log.info("Airflow does not tell whether %s is paused (%s)", JANITOR_DAG, type(failed).__name__)
        return
    if dag is None or dag.is_paused:
        log.warning(
            "The Dag %s is %s: if this run goes away while copies are in flight, nobody takes their throttle off. "
            "Unpause it.",
            JANITOR_DAG,
            "missing" if dag is None else "paused",
        )


def _asked(question: Callable[[], T]) -> T | None:
    """The answer; None where the API server says that there is no such thing, and nothing else."""
    try:
        return question()
    except Exception as failed:
        if _status(failed) == HTTPStatus.NOT_FOUND:
            return None
        raise


def _status(failed: Any) -> int | None:
    """The HTTP status of an answer, as a worker's supervisor passes it on, or as it comes in one process."""
    detail = getattr(getattr(failed, "error", None), "detail", None) or {}
    status = detail.get("status_code") if isinstance(detail, dict) else None
    return status if status is not None else getattr(getattr(failed, "response", None), "status_code", None)
