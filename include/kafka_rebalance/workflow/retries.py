"""How an error of a step ends an Airflow task: tried again, failed for good, or skipped with all that follows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.errors import NothingToDoError
from kafka_rebalance.steps.failures import final_text, is_final, telling_cluster_writes
from kafka_rebalance.workflow import airflow_deployment  # noqa: F401  (steps run where it says)

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
        except Exception as failed:
            if is_final(failed):
                raise AirflowFailException(final_text(failed)) from failed
            raise

    return call
