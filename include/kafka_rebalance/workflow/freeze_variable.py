"""Reads the freeze Variable from Airflow and its secrets backends. A backend that cannot answer never means "off"."""

from __future__ import annotations

from typing import Any

from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend
from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

from kafka_rebalance.errors import ReadError
from kafka_rebalance.run.freeze import VARIABLE


def read_frozen_text() -> str | None:
    """The Variable's text; None if no backend has it.

    Not `Variable.get`: if a backend fails or the API server is away, Airflow acts as if there were no Variable
    (airflow.sdk.execution_time.context._get_variable). A freeze must hold even while its store is down.
    """
    for backend in ensure_secrets_backend_loaded():
        try:
            from_api = isinstance(backend, ExecutionAPISecretsBackend)
            text = _from_api() if from_api else backend.get_variable(key=VARIABLE)
        except ReadError:
            raise
        except Exception as failed:
            raise _unreadable(f"{type(backend).__name__}: {type(failed).__name__}") from failed
        if text is not None:
            return str(text)
    return None


def _from_api() -> Any:
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable, VariableResult

    try:
        answer = task_runner.SUPERVISOR_COMMS.send(GetVariable(key=VARIABLE))
    except AirflowRuntimeError as refused:
        answer = refused.error
    if isinstance(answer, VariableResult):
        return answer.value
    if isinstance(answer, ErrorResponse) and answer.error == ErrorType.VARIABLE_NOT_FOUND:
        return None
    raise _unreadable(str(getattr(answer, "error", answer)))


def _unreadable(why: str) -> ReadError:
    return ReadError(
        f"The Variable {VARIABLE} cannot be read ({why}), so it is not known whether the cluster is frozen. "
        "Try again when Airflow's API server and secrets backends answer."
    )
