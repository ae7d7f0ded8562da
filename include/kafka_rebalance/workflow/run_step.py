"""Runs a step as an Airflow task. Its error ends the task: retried, failed for good, expired or skipped."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.errors import (
    ApprovalExpiredError,
    AuthenticationError,
    NothingToDoError,
)
from kafka_rebalance.run.inputs import StartedRun, StepInputs, check_params
from kafka_rebalance.run.retried_errors import final_text, is_final, telling_cluster_writes
from kafka_rebalance.run.run_lock import run_so_far_in_words
from kafka_rebalance.workflow import hooks
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment

log = logging.getLogger(__name__)

_known: ContextVar[list[StepInputs] | None] = ContextVar("inputs_of_this_task", default=None)

P = ParamSpec("P")
R = TypeVar("R")


class RequestExpired(HITLTimeoutError, AirflowFailException):  # type: ignore[misc]
    """Nobody answered: Airflow's error of an expired request, which no retry asks again."""


def fails_without_retry(function: Callable[P, R]) -> Callable[P, R]:
    """Turns errors that no retry can mend into Airflow's final failure with the same text."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        token = _known.set([])
        try:
            with telling_cluster_writes(_run_so_far):
                return _with_the_newest_connection(lambda: function(*args, **kwargs))
        except NothingToDoError as nothing:
            raise AirflowSkipException(str(nothing)) from nothing
        except ApprovalExpiredError as expired:
            raise RequestExpired(str(expired)) from expired
        except Exception as failed:
            if is_final(failed):
                raise AirflowFailException(final_text(failed)) from failed
            raise
        finally:
            _known.reset(token)

    return call


def _run_so_far() -> str:
    """How far the run of this task is, for its error; empty if the task failed before it knew its run."""
    known = _known.get()
    try:
        return run_so_far_in_words(known[-1].deployment, known[-1].run) if known else ""
    except Exception:  # the task's own error is what people must read
        log.exception("How far the run is cannot be told")
        return "How far the run is cannot be told, see the log."


def _with_the_newest_connection(function: Callable[[], R]) -> R:
    """Calls it. If the cluster refuses a connection that somebody has changed since it was read, once more.

    A password is rotated in the middle of a task. Every step may be called again, as for a retry.
    """
    with hooks.noting_connections() as read:
        try:
            return function()
        except AuthenticationError as refused:
            before = dict(read)
            if all(hooks.read_connection(name) == connection for name, connection in before.items()):
                raise
            log.warning("%s The Airflow connection has changed since it was read, so the step begins again", refused)
    return function()


@fails_without_retry
def run_step(step: Callable[..., R] | str, dag_run: Any, *arguments: Any, ti: Any = None) -> R:
    """Runs a step as a task of a Dag, with the Dag's `arguments`. Only with `ti` can the step push XComs."""
    run: Callable[..., R] = by_path(step) if isinstance(step, str) else step
    for given in arguments:
        if isinstance(given, Mapping):
            check_params(given)
    return run(step_inputs(dag_run, ti), *arguments)


def by_path(path: str) -> Any:
    """The object with this dotted path. Dags name steps by path, so that a step's heavy imports load with its task."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def step_inputs(dag_run: Any, ti: Any = None) -> StepInputs:
    inputs = StepInputs(started_run(dag_run), airflow_deployment(), _tell_nobody if ti is None else ti.xcom_push)
    known = _known.get()
    if known is not None:
        known.append(inputs)
    return inputs


def started_run(dag_run: Any) -> StartedRun:
    return StartedRun(
        dag_id=dag_run.dag_id,
        run_id=dag_run.run_id,
        started_by=dag_run.triggering_user_name or None,
        kind=str(getattr(dag_run.run_type, "value", dag_run.run_type)),
        conf=dict(getattr(dag_run, "conf", None) or {}),
    )


def _tell_nobody(key: str, value: Any) -> None:
    raise TypeError(f"The step pushes the XCom {key}, but its task does not allow it. Give `ti` to run_step.")
