"""What Airflow says about runs and Dags, through the API that tasks may use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.lock_owner import AirflowState

log = logging.getLogger(__name__)

T = TypeVar("T")


def state(dag_id: str, run_id: str) -> AirflowState:
    """The state of a run of this Airflow; UNKNOWN if Airflow does not tell."""
    try:
        run_state = _asked(lambda: _tasks().get_dagrun_state(dag_id, run_id))
        if run_state is None:
            return AirflowState.GONE
        if _text(run_state) in ("success", "failed"):
            return AirflowState.OVER
        dag = _asked(lambda: _tasks().get_dag(dag_id))
    except Exception as failed:  # any error on the way to the API server leaves the state unknown
        log.warning(
            "Airflow does not give the state of run %s/%s (%s: %s)", dag_id, run_id, type(failed).__name__, failed
        )
        return AirflowState.UNKNOWN
    if dag is None:
        return AirflowState.UNKNOWN
    return AirflowState.PAUSED if dag.is_paused else AirflowState.RUNNING


def is_active(dag_id: str, run_id: str) -> bool:
    """Whether Airflow has the run as queued or running. Raises Airflow's own error if it does not tell."""
    run_state = _asked(lambda: _tasks().get_dagrun_state(dag_id, run_id))
    return run_state is not None and _text(run_state) in ("queued", "running")


def task_states(dag_id: str, run_id: str, task_ids: Sequence[str]) -> dict[str, str] | None:
    """The states of these tasks of the run, without those that Airflow has not looked at; None if it does not tell."""
    try:
        states = _tasks().get_task_states(dag_id, task_ids=list(task_ids), run_ids=[run_id]).get(run_id) or {}
    except Exception as failed:
        log.warning("Airflow does not give the states of tasks (%s: %s)", type(failed).__name__, failed)
        return None
    return {task: _text(state) for task, state in states.items() if state is not None}


def told_decision(dag_id: str, run_id: str) -> object:
    """The XCom `decision` of the run's task `approve`; None if there is none. Raises ReadError if nobody tells."""
    from airflow.sdk.execution_time.xcom import XCom

    try:
        return _asked(lambda: XCom.get_one(key="decision", dag_id=dag_id, task_id="approve", run_id=run_id))
    except Exception as failed:
        raise ReadError(
            f"Airflow does not tell what run {dag_id}/{run_id} was approved to do ({type(failed).__name__})."
        ) from failed


def is_paused(dag_id: str) -> bool | None:
    """None if there is no such Dag. Raises ReadError if Airflow does not tell."""
    try:
        dag = _asked(lambda: _tasks().get_dag(dag_id))
    except Exception as failed:
        raise ReadError(
            f"Airflow does not tell whether the Dag {dag_id} is paused ({type(failed).__name__})."
        ) from failed
    return None if dag is None else bool(dag.is_paused)


def _tasks() -> Any:
    """The class that asks Airflow's API on behalf of a task. Web server and Dag processor do not need to import it."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance


def _text(state: Any) -> str:
    return str(getattr(state, "value", state))


def _asked(question: Callable[[], T]) -> T | None:
    """The answer; None only if the API server says that there is no such thing."""
    try:
        return question()
    except Exception as failed:
        if _status(failed) == HTTPStatus.NOT_FOUND:
            return None
        raise


def _status(failed: Any) -> int | None:
    """The HTTP status of an error, from a worker's supervisor or from a client in the same process."""
    detail = getattr(getattr(failed, "error", None), "detail", None) or {}
    status = detail.get("status_code") if isinstance(detail, dict) else None
    return status if status is not None else getattr(getattr(failed, "response", None), "status_code", None)
