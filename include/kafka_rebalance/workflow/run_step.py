"""How an error of a step ends an Airflow task: tried again, failed for good, expired, or skipped with what follows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.errors import ApprovalExpiredError, NothingToDoError
from kafka_rebalance.steps.inputs import StartedRun, StepInputs
from kafka_rebalance.steps.retried_errors import final_text, is_final, telling_cluster_writes
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment

P = ParamSpec("P")
R = TypeVar("R")


def fails_without_retry(function: Callable[P, R]) -> Callable[P, R]:
    """Turns errors that no retry can mend into Airflow's final failure, with their text."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with telling_cluster_writes():
                return function(*args, **kwargs)
        except NothingToDoError as nothing:
            raise AirflowSkipException(str(nothing)) from nothing
        except ApprovalExpiredError as expired:
            raise HITLTimeoutError(str(expired)) from expired
        except Exception as failed:
            if is_final(failed):
                raise AirflowFailException(final_text(failed)) from failed
            raise

    return call


@fails_without_retry
def run_step(step: Callable[..., R], dag_run: Any, *arguments: Any, ti: Any = None) -> R:
    """A step, as the task of a Dag: `arguments` are what the Dag hands over. Without `ti` it has nothing to tell."""
    return step(step_inputs(dag_run, ti), *arguments)


def step_inputs(dag_run: Any, ti: Any = None) -> StepInputs:
    """What Airflow knows of a task, for its step."""
    return StepInputs(started_run(dag_run), airflow_deployment(), _tell_nobody if ti is None else ti.xcom_push)


def started_run(dag_run: Any) -> StartedRun:
    """Airflow's own record of a run, as steps know it."""
    return StartedRun(
        dag_id=dag_run.dag_id,
        run_id=dag_run.run_id,
        started_by=dag_run.triggering_user_name or None,
        kind=str(getattr(dag_run.run_type, "value", dag_run.run_type)),
        conf=dict(getattr(dag_run, "conf", None) or {}),
    )


def _tell_nobody(key: str, value: Any) -> None:
    raise TypeError(f"A step tells {key}, and its task gives it nobody to tell: hand `ti` to run_step.")
