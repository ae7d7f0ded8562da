"""The freeze switch: what it stops, what stays allowed, and that it does not melt while it cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, VariableResult
from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend

from kafka_rebalance.errors import FrozenError, ReadError, SettingsError
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.run import freeze
from kafka_rebalance.run.freeze import frozen_clusters
from kafka_rebalance.workflow import airflow_deployment as freeze_variable
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import KafkaClusterHook
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun
from support.zookeeper.fake_zookeeper import ELECTION

ENVIRONMENT = "AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE"


@pytest.mark.parametrize("stored", ["true", f'["{CONNECTION}"]', f'["kafka_eu", "{CONNECTION}"]'])
def test_nothing_is_written_to_a_frozen_cluster(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    monkeypatch.setenv(ENVIRONMENT, stored)
    with (
        cluster.unchanged(),
        pytest.raises(AirflowFailException, match=r"FrozenError: .*changed nothing in the cluster"),
    ):
        run.hold()


@pytest.mark.parametrize("mistyped", [CONNECTION.upper(), f"{CONNECTION} ", CONNECTION.replace("_", "-"), "kafka_eu"])
def test_a_list_that_names_no_cluster_freezes_all_and_says_so(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, mistyped: str
) -> None:
    monkeypatch.setenv(ENVIRONMENT, json.dumps([mistyped]))
    with (
        cluster.unchanged(),
        pytest.raises(
            AirflowFailException, match=f"names '{mistyped}', but there is no Airflow connection of exactly this id"
        ),
    ):
        run.hold()


def test_a_list_that_cannot_be_compared_with_the_connections_is_not_off(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, '["kafka_eu"]')
    monkeypatch.setattr(KafkaClusterHook, "get_connection", lambda _: broken())
    with pytest.raises(ReadError, match="does not tell whether there is a connection 'kafka_eu'"):
        run.hold()


@pytest.mark.parametrize("stored", ["false", "[]", '["kafka_eu"]', "", None])
def test_other_clusters_go_on(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch, stored: str | None) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_EU", "kafka-zookeeper://zk1")
    if stored is not None:
        monkeypatch.setenv(ENVIRONMENT, stored)
    run.hold()
    assert run.request() == 1


def test_a_freeze_between_batches_stops_the_next_one_and_lets_throttles_be_put_back(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    monkeypatch.setenv(ENVIRONMENT, "true")
    with cluster.unchanged(), pytest.raises(AirflowFailException, match="FrozenError"):
        run.request()
    run.release()
    assert cluster.leftovers() == []


def test_a_freeze_stops_elections(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    run.reassign()
    monkeypatch.setenv(ENVIRONMENT, "true")
    assert run_step(elect_leaders, run.dag_run, run.decision) == [], "nothing is to be elected, so nothing is refused"
    move = run.candidate.moves[0]
    path = f"/brokers/topics/{move.topic_partition.topic}/partitions/{move.topic_partition.partition}/state"
    cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": move.after[1]})
    cluster.fake.writes.clear()
    with pytest.raises(AirflowFailException, match="FrozenError"):
        run_step(elect_leaders, run.dag_run, run.decision)
    assert ("create", ELECTION) not in cluster.fake.writes


@pytest.mark.parametrize("stored", ["yes", "1", "{}", '[""]', "[1]", "null", '"kafka_eu"', "[" * 90_000])
def test_a_switch_that_says_something_else_stops_everything(stored: str) -> None:
    with pytest.raises(SettingsError, match=r"must be JSON: true .*no run begins to write"):
        frozen_clusters(stored)


def api_answers(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Any]) -> None:
    """Airflow's supervisor as a task sees it."""
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=lambda message: answer()), raising=False)
    monkeypatch.setattr(freeze_variable, "ensure_secrets_backend_loaded", lambda: [ExecutionAPISecretsBackend()])


def test_the_switch_is_read_from_airflows_api(monkeypatch: pytest.MonkeyPatch) -> None:
    api_answers(monkeypatch, lambda: VariableResult(key=freeze.VARIABLE, value="true"))
    with pytest.raises(FrozenError):
        airflow_deployment().check_not_frozen("any")
    api_answers(monkeypatch, lambda: ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND))
    airflow_deployment().check_not_frozen("any")


def broken() -> Any:
    raise OSError("the socket is gone")


@pytest.mark.parametrize(
    "answer",
    [lambda: ErrorResponse(error=ErrorType.API_SERVER_ERROR), broken, lambda: None],
    ids=["server_error", "no_supervisor", "no_answer"],
)
def test_a_switch_that_cannot_be_read_is_not_off(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Any]) -> None:
    api_answers(monkeypatch, answer)
    with pytest.raises(ReadError, match="it is not known whether the cluster is frozen"):
        airflow_deployment().check_not_frozen("any")


def test_a_secrets_backend_that_fails_is_not_taken_for_one_without_the_switch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = SimpleNamespace(get_variable=lambda key: broken())
    monkeypatch.setattr(freeze_variable, "ensure_secrets_backend_loaded", lambda: [backend])
    with pytest.raises(ReadError, match="SimpleNamespace: OSError"):
        airflow_deployment().check_not_frozen("any")
