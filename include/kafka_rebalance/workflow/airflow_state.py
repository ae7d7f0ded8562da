"""What Airflow says of runs and Dags, by the API that a task may ask."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from kafka_rebalance.errors import ReadError
from kafka_rebalance.execution.janitor.lease_custody import AirflowState

log = logging.getLogger(__name__)

T = TypeVar("T")


def state(dag_id: str, run_id: str) -> AirflowState:
    """Of a run of this Airflow; UNKNOWN where it does not tell."""
    try:
        found = _asked(lambda: _tasks().get_dagrun_state(dag_id, run_id))
        if found is None:
            return AirflowState.GONE
        if _text(found) in ("success", "failed"):
            return AirflowState.OVER
        dag = _asked(lambda: _tasks().get_dag(dag_id))
    except Exception as failed:  # whatever goes wrong between us and the API server: we do not know
        log.warning("Airflow does not tell of run %s/%s (%s: %s)", dag_id, run_id, type(failed).__name__, failed)
        return AirflowState.UNKNOWN
    if dag is None:
        return AirflowState.UNKNOWN
    return AirflowState.PAUSED if dag.is_paused else AirflowState.RUNNING


def is_active(dag_id: str, run_id: str) -> bool:
    """Whether the run is queued or running, by Airflow's word; a run that does not exist is not. Raises what Airflow
    raises where it does not tell.
    """
    found = _asked(lambda: _tasks().get_dagrun_state(dag_id, run_id))
    return found is not None and _text(found) in ("queued", "running")


def is_skipped(dag_id: str, run_id: str, task_id: str) -> bool:
    """Whether Airflow has skipped that task of the run; False where it does not tell."""
    try:
        states = _tasks().get_task_states(dag_id, task_ids=[task_id], run_ids=[run_id])
    except Exception as failed:
        log.warning("Airflow does not tell of %s (%s: %s)", task_id, type(failed).__name__, failed)
        return False
    return _text((states.get(run_id) or {}).get(task_id)) == "skipped"


def is_paused(dag_id: str) -> bool | None:
    """None where there is no such Dag. Raises ReadError where Airflow does not tell."""
    try:
        dag = _asked(lambda: _tasks().get_dag(dag_id))
    except Exception as failed:
        raise ReadError(f"Airflow does not tell of the Dag {dag_id} ({type(failed).__name__}).") from failed
    return None if dag is None else bool(dag.is_paused)


def _tasks() -> Any:
    """Who asks Airflow's API for a task. Read when it is needed: neither web server nor Dag processor need it."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance


def _text(state: Any) -> str:
    return str(getattr(state, "value", state))


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
