"""Whole runs of `kafka_topics` in one process (`dag.test()`), on a real broker; Spark and the answer are simulated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException

from kafka_rebalance.dags.kafka_topics_dag import TOPICS_PARAMS
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.topics.rules import TopicRequest
from support.airflow.answered_dag import Run, defaults_of, read_dag, runs_of
from support.runs.rebalance_run import set_up_airflow

CONNECTION = "kafka_topics_dag"
DEFAULTS = defaults_of(TOPICS_PARAMS)
# `dag.test()` runs have no known requester, so four eyes cannot be shown; other tests do that.
POLICY = "approvers: [uma]\nrequester_may_approve: true\n"
BEHIND = ("sample_keys", "forecast", "approve", "write", "verify")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, racks=3, one_jvm=True) as running:
        yield running


@pytest.fixture(scope="module")
def topics_dag() -> DAG:
    return read_dag("kafka_topics")


@pytest.fixture
def run(cluster: LocalCluster, topics_dag: DAG, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    set_up_airflow(monkeypatch, tmp_path, cluster, CONNECTION, POLICY)

    def fail(operator: SparkSubmitOperator, context: Any) -> None:
        raise AirflowException("simulated: Spark is not there")

    monkeypatch.setattr(SparkSubmitOperator, "execute", fail)
    return runs_of(topics_dag, CONNECTION, DEFAULTS, monkeypatch)


def test_looking_ends_after_the_request(run: Run) -> None:
    for action in ("list", "describe"):
        states = run(action=action)
        assert (states["request"], states["run"]) == ("success", "success")
        assert {states[task] for task in BEHIND} == {"skipped"}


def test_a_creation_asks_nobody_and_an_expansion_waits_for_an_answer(run: Run) -> None:
    made = run(action="create", topic="orders", partitions=3, replication_factor=2)
    assert made["sample_keys"] == "skipped"
    assert {state for task, state in made.items() if task != "sample_keys"} == {"success"}
    rejected = run(choice="Reject", action="alter", topic="orders", partitions=4, sample_rows=0)
    assert (rejected["approve"], rejected["write"], rejected["verify"]) == ("success", "skipped", "skipped")
    assert rejected["run"] == "success"
    grown = run(choice="alter", action="alter", topic="orders", partitions=4, sample_rows=0)
    assert (grown["write"], grown["verify"], grown["run"]) == ("success", "success", "success")


def test_a_bad_request_fails_the_run_before_anything_else(run: Run) -> None:
    states = run(action="create", topic="a b", partitions=1, replication_factor=1)
    assert (states["request"], states["run"]) == ("failed", "failed")
    assert {states[task] for task in BEHIND} <= {"upstream_failed", "skipped"}


def test_the_forms_defaults_ask_for_a_list_and_nothing_else() -> None:
    asked = TopicRequest.from_params(DEFAULTS)
    assert asked == TopicRequest("list", sample_rows=200_000)


def test_the_approval_stands_before_every_write(topics_dag: DAG) -> None:
    upstream = {task.task_id: set(task.upstream_task_ids) for task in topics_dag.tasks}
    assert upstream == {
        "request": set(),
        "route": {"request"},
        "sample_keys": {"request", "route"},
        "forecast": {"request", "route", "sample_keys"},
        "approve": {"forecast", "request"},
        "write": {"approve"},
        "verify": {"approve", "write"},
    }
