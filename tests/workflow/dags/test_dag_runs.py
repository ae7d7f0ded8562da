"""Whole Dag runs in one process (`dag.test()`), on a simulated cluster; Spark and the answer are simulated too."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowTaskTimeout

from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.planning import planner
from kafka_rebalance.rebalance import request_batch
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.run.run_lock import read_standing
from kafka_rebalance.throttle import lease_files, release_throttle
from kafka_rebalance.throttle.janitor import look_after_lease
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.airflow.parsed_dags import read_dags
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import SimulatedCluster
from support.zookeeper.fake_zookeeper import put_topic

CONNECTION = "kafka_simulated"
# `dag.test()` runs have no known requester, so four eyes cannot be shown; the other tests do that.
POLICY = "approvers: [uma]\nmax_bytes_share: 1.0\nrequester_may_approve: true\n"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Everything on two of four brokers; the controller goes on by one stage with each look of the trigger."""
    simulated = SimulatedCluster(monkeypatch, {"orders": {0: (1, 2), 1: (1, 2), 2: (1, 3), 3: (1, 3)}})
    connection = {"conn_type": "kafka_zookeeper", "host": "simulated:2181", "extra": {"bootstrap_servers": "b:9092"}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(tmp_path / "runs"))
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER", str(tmp_path))
    monkeypatch.setattr("kafka_rebalance.run.snapshot_reader.STORM_PAUSE_SECONDS", 0)
    (tmp_path / f"{CONNECTION}.yaml").write_text(POLICY)
    look = BatchFollower.look

    def look_and_step(self: BatchFollower, *arguments: Any) -> Any:
        simulated.step()
        return look(self, *arguments)

    monkeypatch.setattr(BatchFollower, "look", look_and_step)
    return simulated


@pytest.fixture
def run(cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Runs a Dag and gives the state of each task, and of the run under the key `run`."""

    def plan(self: SparkSubmitOperator, context: Any) -> None:
        given = dict(zip(self.application_args[::2], self.application_args[1::2], strict=True))
        settings = Settings.from_mapping(json.loads(Path(given["--settings"]).read_text()))
        assert list(Path(given["--metrics"]).glob("day=*/*.parquet"))  # this snapshot's samples at least
        planner.run(Path(given["--snapshot"]), Path(given["--out"]), settings)

    def start(dag_id: str, *, choice: str = "", conf: dict[str, Any] | None = None) -> dict[str, str]:
        def answer(self: HITLOperator, context: Any) -> Any:
            event = {
                "chosen_options": [next(option for option in self.options if option.startswith(choice))],
                "params_input": {"throttle_bytes_per_second": 2_000_000, "note": None},
                "responded_at": datetime.now(UTC),
                "responded_by_user": {"id": "uma", "name": "uma"},
            }
            return self.execute_complete(context, event)

        monkeypatch.setattr(SparkSubmitOperator, "execute", plan)
        monkeypatch.setattr(HITLOperator, "execute", answer)
        dag: DAG = read_dags()[dag_id]
        dag.params = copy.deepcopy(dag.params)  # `test` puts the conf into them, and they are the module's own
        for task in dag.tasks:
            task.retries = 0
            if task.task_id == "reassign":
                task.poll_seconds = 0.01
        ended = dag.test(run_conf=conf)
        states = {instance.task_id: str(instance.state) for instance in ended.get_task_instances()}
        return {**states, "run": str(ended.state)}

    return start


def test_an_approved_run_goes_from_snapshot_to_ledger(
    run: Callable[..., dict[str, str]], cluster: SimulatedCluster, tmp_path: Path
) -> None:
    states = run("kafka_rebalance", choice="balanced", conf={"kafka_conn_id": CONNECTION})
    assert set(states.values()) == {"success"}
    assert cluster.requests
    assert cluster.leftovers() == []
    assert sorted({broker for replicas in cluster.replicas("orders").values() for broker in replicas}) == [1, 2, 3, 4]
    for table, rows in (("metrics", 4), ("plans", 4), ("outcomes", 1)):
        found = pyarrow.dataset.dataset(tmp_path / "runs" / "ledger" / table, partitioning="hive").to_table()
        assert found.num_rows == rows
        assert found["cluster"].to_pylist() == [CONNECTION] * rows
    assert found["verified"].to_pylist() == [True]


def test_a_run_that_starts_from_a_pasted_plan_executes_it_once_it_is_approved(
    run: Callable[..., dict[str, str]], cluster: SimulatedCluster
) -> None:
    asked = {TopicPartition("orders", 1): [4, 3], TopicPartition("orders", 0): [1, 2]}  # the second is as it is already
    states = run(
        "kafka_rebalance",
        choice="given",
        conf={"kafka_conn_id": CONNECTION, "plan": format_reassignment(asked), "candidates": ["balanced", "as_kafka"]},
    )
    assert set(states.values()) == {"success"}
    assert cluster.requests == [{("orders", 1): [4, 3]}]
    assert cluster.replicas("orders") == {0: [1, 2], 1: [4, 3], 2: [1, 3], 3: [1, 3]}
    assert cluster.leaders("orders")[1] == 4
    assert cluster.leftovers() == []


def test_leadership_comes_back_under_the_approval_of_the_demote_which_airflow_tells(
    run: Callable[..., dict[str, str]], cluster: SimulatedCluster, tmp_path: Path
) -> None:
    (tmp_path / f"{CONNECTION}.yaml").write_text(f"{POLICY}demote_approves_give_back: true\n")
    before = cluster.leaders("orders"), cluster.replicas("orders")
    demote = {"kafka_conn_id": CONNECTION, "job": "leaders", "drain": [1]}
    assert set(run("kafka_rebalance", choice="leaders_only", conf=demote).values()) == {"success"}
    assert 1 not in cluster.leaders("orders").values()
    back = {"kafka_conn_id": CONNECTION, "job": "give_back"}
    assert set(run("kafka_rebalance", choice="a request has no such button", conf=back).values()) == {"success"}
    assert (cluster.leaders("orders"), cluster.replicas("orders")) == before
    assert cluster.leftovers() == []


def test_a_rejected_run_is_a_success_that_wrote_nothing(
    run: Callable[..., dict[str, str]], cluster: SimulatedCluster
) -> None:
    before = cluster.tree()
    states = run("kafka_rebalance", choice="Reject", conf={"kafka_conn_id": CONNECTION})
    assert states["run"] == "success"
    for task in ("hold_throttle", "reassign", "release_throttle", "elect_leaders", "verify", "record"):
        assert states[task] == "skipped"
    assert cluster.tree() == before


def test_a_run_whose_moves_fail_puts_the_throttle_back_and_is_red(
    run: Callable[..., dict[str, str]], cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ExecutionError("refused for the test")

    monkeypatch.setattr(request_batch.Visit, "advance", refuse)
    states = run("kafka_rebalance", choice="balanced", conf={"kafka_conn_id": CONNECTION})
    assert states["reassign"] == "failed"
    assert states["release_throttle"] == "success"
    assert states["verify"] == "failed"
    assert states["record"] == "failed"
    assert states["run"] == "failed"
    assert cluster.leftovers() == []


def test_a_cluster_without_a_policy_is_planned_and_not_touched(
    run: Callable[..., dict[str, str]], cluster: SimulatedCluster, tmp_path: Path
) -> None:
    (tmp_path / f"{CONNECTION}.yaml").unlink()
    before = cluster.tree()
    states = run("kafka_rebalance", conf={"kafka_conn_id": CONNECTION})
    assert states["run"] == "success"
    assert states["plan"] == "success"
    assert states["hold_throttle"] == "skipped"
    assert cluster.tree() == before


@pytest.mark.parametrize("balanced", [False, True])
def test_the_check_proposes_past_the_limit_only_and_never_writes(
    run: Callable[..., dict[str, str]],
    cluster: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    balanced: bool,
) -> None:
    if balanced:
        put_topic(cluster.fake, "orders", {0: (1, 2), 1: (2, 4), 2: (3, 1), 3: (4, 3)})
    fleet = [CONNECTION] if balanced else ["kafka_dead", CONNECTION]
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEAD", '{"conn_type": "kafka_zookeeper", "host": "dead:2181"}')
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps(fleet))
    read_snapshot = check_cluster.read_snapshot

    def take(connection: Any, settings: Settings, **how: bool) -> Any:
        if connection.connection_id == "kafka_dead":
            raise AirflowTaskTimeout("ZooKeeper did not answer until the time was up")
        return read_snapshot(connection, settings, **how)

    monkeypatch.setattr(check_cluster, "read_snapshot", take)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(TriggerDagRunOperator, "execute", lambda self, context: asked.append(self.conf))
    before = cluster.tree()
    assert run("kafka_balance_check")["run"] == ("success" if balanced else "failed")  # a dead cluster is to be seen
    assert [conf["kafka_conn_id"] for conf in asked] == ([] if balanced else [CONNECTION])
    assert all("off their share" in conf["reason"] for conf in asked)
    assert cluster.tree() == before


def test_the_janitor_asks_airflow_and_takes_off_what_a_deleted_run_left(
    run: Callable[..., dict[str, str]], cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's own answers: its API, in this process, has never heard of a run that is deleted."""
    asked: list[AirflowState] = []

    def remember(*asked_of: Any) -> AirflowState:
        asked.append(read_standing(*asked_of))
        return asked[-1]

    def lose(*_: object) -> None:
        raise ExecutionError("lost for the test")

    with monkeypatch.context() as patched:
        patched.setattr(request_batch.Visit, "advance", lose)
        patched.setattr(release_throttle, "put_back", lose)  # the teardown never came to it
        assert run("kafka_rebalance", choice="balanced", conf={"kafka_conn_id": CONNECTION})["run"] == "failed"
    left = cluster.throttles()
    assert left
    monkeypatch.setattr(look_after_lease, "read_standing", remember)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", "[]")
    lease = open_lease("simulated-cluster-0001")
    assert lease is not None
    lease_files.write(airflow_deployment(), dataclasses.replace(lease, run="kafka_rebalance/deleted"))
    assert run("kafka_throttle_janitor")["tend"] == "success"
    # The lock still names the run that failed. It is asked for again after the wait for what that run has announced.
    assert asked == [AirflowState.GONE, AirflowState.OVER, AirflowState.OVER]
    assert cluster.leftovers() == []
