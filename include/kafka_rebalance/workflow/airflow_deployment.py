"""The deployment that Airflow's configuration describes. Steps run in it, and pages read from it.

Dags import this module, and Airflow reads them every half minute. So it imports little by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow.sdk import ObjectStoragePath, conf
from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend
from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

from kafka_rebalance.documents.storage import FolderOfRuns
from kafka_rebalance.errors import ReadError
from kafka_rebalance.run.freeze import VARIABLE
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.workflow import airflow_state, hooks

SECTION = "kafka_rebalance"


def airflow_deployment() -> Deployment:
    """Reads the configuration now, because a task may have environment variables of its own."""
    return Deployment(
        runs_root=_runs_root(),
        open_folder=_open_folder,
        address=conf.get("api", "base_url", fallback=""),
        policies_folder=Path(conf.get(SECTION, "policies_folder", fallback="") or _project() / "include" / "policies"),
        plans_folder=Path(conf.get(SECTION, "plans_folder", fallback="") or _project() / "include" / "plans"),
        read_connection=hooks.read_connection,
        has_connection=hooks.has_connection,
        frozen_text=read_frozen_text,
        other_runs=airflow_state,
    )


def _runs_root() -> FolderOfRuns:
    """`[kafka_rebalance] runs_url`; by default a folder beside Airflow's Dags folder."""
    configured = conf.get(SECTION, "runs_url", fallback="")
    if configured:
        return _open_folder(configured)
    return _project() / "kafka_rebalance_runs"


def _project() -> Path:
    """The folder that holds the Dag folder."""
    return Path(conf.get("core", "dags_folder")).parent


def _open_folder(url: str) -> FolderOfRuns:
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else url).absolute()
    folder: Any = ObjectStoragePath(url)
    return folder  # type: ignore[no-any-return]


# Reads the freeze Variable from Airflow and its secrets backends. A backend that cannot answer never means "off".


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
