"""The switch that stops every write: the Airflow Variable `kafka_rebalance_freeze`, for all clusters or for some.

It is read before every write. What takes load off a cluster stays allowed while it is set: putting throttles back, and
cancelling.
"""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend
from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

from kafka_rebalance.errors import FrozenError, ReadError, SettingsError

VARIABLE = "kafka_rebalance_freeze"


def check_not_frozen(connection_id: str) -> None:
    """Raises FrozenError while the cluster is frozen, ReadError where that cannot be told, SettingsError where the
    Variable holds something else than `true`, `false` or a list of connection ids.
    """
    frozen = frozen_clusters(_stored())
    if frozen is True or (frozen and connection_id in frozen):
        which = "all clusters" if frozen is True else f"the cluster {connection_id}"
        raise FrozenError(
            f"The Variable {VARIABLE} freezes {which}: nothing was written. Copies that are under way go on, and "
            "cancelling and putting throttles back stay allowed. Unset it under Admin, Variables, then clear this task."
        )


def frozen_clusters(stored: str | None) -> bool | frozenset[str]:
    """Whether all clusters are frozen, or the connection ids of those that are."""
    if stored is None or not stored.strip():
        return False
    try:
        value = json.loads(stored)
    except ValueError:
        value = stored
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and all(isinstance(name, str) and name for name in value):
        return frozenset(value)
    raise SettingsError(
        f"The Variable {VARIABLE} holds {stored[:100]!r}; it must be JSON: true (all clusters), false, or a list of "
        'connection ids, as in ["kafka_eu"]. Nothing was written. Correct it under Admin, Variables.'
    )


def _stored() -> str | None:
    """The Variable's text; None where no backend has it.

    Not `Variable.get`: Airflow takes a backend that fails, and an API server that is away, for one that does not have
    the Variable (airflow.sdk.execution_time.context._get_variable), and a freeze must not melt while its store is down.
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
        f"Whether the cluster is frozen cannot be told: the Variable {VARIABLE} cannot be read ({why}). Nothing was "
        "written. Try again when Airflow's API server and secrets backends answer."
    )
