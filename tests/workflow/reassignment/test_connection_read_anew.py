"""A password that is rotated in the middle of a task: the step begins again with the connection as it is now."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.errors import AuthenticationError
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.workflow.run_step import run_step

RUN = SimpleNamespace(dag_id="kafka_rebalance", run_id="one", triggering_user_name="olive", run_type="manual")


def stored(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_EU", json.dumps({"conn_type": "kafka_admin_api", "host": host}))


def test_a_step_whose_connection_has_changed_begins_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stored(monkeypatch, "old:9092")
    seen: list[str] = []

    def step(inputs: StepInputs) -> str:
        seen.append(inputs.deployment.read_connection("kafka_eu").kafka.bootstrap_servers)
        if seen[-1] == "old:9092":
            stored(monkeypatch, "new:9092")
            raise AuthenticationError("refused")
        return seen[-1]

    assert run_step(step, RUN) == "new:9092"
    assert seen == ["old:9092", "new:9092"]


def test_a_step_whose_connection_is_the_same_is_not_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stored(monkeypatch, "old:9092")
    calls: list[int] = []

    def step(inputs: StepInputs) -> None:
        inputs.deployment.read_connection("kafka_eu")
        calls.append(1)
        raise AuthenticationError("refused")

    with pytest.raises(AirflowFailException, match="AuthenticationError: refused"):
        run_step(step, RUN)
    assert len(calls) == 1
