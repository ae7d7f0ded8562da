"""Whole runs of a Dag in one process (`dag.test()`), in which somebody answers the request for approval at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, Param

from support.airflow.parsed_dags import read_dags

Run = Callable[..., dict[str, str]]


def read_dag(dag_id: str) -> DAG:
    """Its tasks fail without a retry."""
    dag: DAG = read_dags()[dag_id]
    for task in dag.tasks:
        task.retries = 0
    return dag


def defaults_of(params: Mapping[str, Param]) -> dict[str, Any]:
    """Of a form, before the first run: `dag.test()` leaves a run's params in the Dag."""
    return {name: param.value for name, param in params.items()}


def runs_of(dag: DAG, connection_id: str, defaults: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Starts a run with `defaults` and some other params. Gives the state of each task, and of the run as `run`.

    uma answers with the first option that begins with `choice`.
    """

    def start(choice: str = "", **given: Any) -> dict[str, str]:
        def answer(operator: HITLOperator, context: Any) -> Any:
            event = {
                "chosen_options": [next(option for option in operator.options if option.startswith(choice))],
                "params_input": {"note": None},
                "responded_at": datetime.now(UTC),
                "responded_by_user": {"id": "uma", "name": "uma"},
            }
            return operator.execute_complete(context, event)

        monkeypatch.setattr(HITLOperator, "execute", answer)
        ended = dag.test(run_conf={**defaults, "kafka_conn_id": connection_id, **given})
        states = {instance.task_id: str(instance.state) for instance in ended.get_task_instances()}
        return {**states, "run": str(ended.state)}

    return start
