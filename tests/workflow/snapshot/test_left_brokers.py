"""A run that the nightly check asks for knows which brokers each partition left lately. The cluster is simulated."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.parquet_files import read_rows
from kafka_rebalance.planning.tables.read_problem import PARTITIONS, SNAPSHOT_SCHEMAS
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance.report import read_report
from kafka_rebalance.run import ledger
from kafka_rebalance.run.inputs import StartedRun
from kafka_rebalance.run.requester import hand_on
from kafka_rebalance.run.run_folder import create_run_folder
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, given_run

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def earlier(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """A run of job `balance` that has taken orders-0 from broker 1, and is over."""
    run = given_run(tmp_path, cluster, monkeypatch, {ORDERS: (4, 2)})
    run.hold()
    run.reassign()
    run.finish()
    assert cluster.replicas("orders")[0] == [4, 2]
    return run


def proposed(folder: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, **params: Any) -> SimulatedRun:
    """The run that a nightly check starts, after its first tasks."""
    check = StartedRun("kafka_balance_check", "scheduled__now", kind="scheduled")
    made = SimulatedRun(folder, cluster, monkeypatch, "proposed__now")
    check_folder, _ = create_run_folder(airflow_deployment(), CONNECTION, check)
    made.dag_run.conf = hand_on(check_folder, {"kafka_conn_id": CONNECTION, **params}, check)
    made.dag_run.run_type, made.dag_run.triggering_user_name = "operator_triggered", None
    made.plan(**{key: value for key, value in made.dag_run.conf.items() if key != "kafka_conn_id"})
    return made


def left(run: SimulatedRun) -> dict[TopicPartition, list[int]]:
    """What the run's snapshot says; {} if it has no such column."""
    snapshot = run.folder / json_files.SNAPSHOT_FOLDER
    if "left_brokers" not in pq.read_schema(snapshot / PARTITIONS).names:
        return {}
    rows = read_rows(snapshot, PARTITIONS, SNAPSHOT_SCHEMAS[PARTITIONS], ["topic", "partition", "left_brokers"])
    return {TopicPartition(row["topic"], row["partition"]): row["left_brokers"] for row in rows if row["left_brokers"]}


@pytest.mark.usefixtures("earlier")
def test_a_proposal_of_the_nightly_check_gives_nothing_back_to_a_broker_that_a_plan_has_taken_it_from(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = proposed(tmp_path, cluster, monkeypatch)
    assert left(run) == {ORDERS: [1]}
    for name in ("light", "balanced"):
        for move in read_candidate(run.folder, name).moves:
            assert move.topic_partition != ORDERS or 1 not in move.added
    kept_away = read_report(run.folder).taken.kept_away
    assert kept_away is not None
    assert (kept_away.replicas, kept_away.days) == (1, 7)


@pytest.mark.usefixtures("earlier")
def test_a_run_that_a_person_starts_may_give_it_back(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = SimulatedRun(tmp_path, cluster, monkeypatch, "proposed__by_hand")
    by_hand.plan()
    assert left(by_hand) == {}
    assert read_report(by_hand.folder).taken.kept_away is None


@pytest.mark.usefixtures("earlier")
def test_a_drain_that_the_nightly_check_proposes_may_give_it_back(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert left(proposed(tmp_path, cluster, monkeypatch, job="drain", drain=[2])) == {}


def test_a_run_whose_folder_is_gone_or_cannot_be_read_counts_for_nothing(
    tmp_path: Path,
    cluster: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    earlier: SimulatedRun,
    caplog: pytest.LogCaptureFixture,
) -> None:
    moves = earlier.folder / "moves" / "part-0.parquet"
    moves.write_bytes(b"no parquet")
    assert left(proposed(tmp_path, cluster, monkeypatch)) == {}
    assert "Run one was approved, but its moves cannot be read, and do not count" in caplog.text
    shutil.rmtree(earlier.folder.parent)
    assert left(proposed(tmp_path, cluster, monkeypatch)) == {}


def test_a_run_that_failed_after_its_approval_counts_where_it_has_moved_something(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = given_run(tmp_path, cluster, monkeypatch, {ORDERS: (4, 2), TopicPartition("audit", 0): (4, 1)})
    answered(run, datetime.now(UTC))
    run.hold()
    assert run.request() == 1  # of two batches, each with one of the partitions
    while cluster.step():
        pass
    run.release()
    moved = {ORDERS} if cluster.replicas("orders")[0] == [4, 2] else {TopicPartition("audit", 0)}
    assert left(proposed(tmp_path, cluster, monkeypatch)).keys() == moved


def test_an_approved_run_that_has_moved_nothing_yet_keeps_nothing_away(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(given_run(tmp_path, cluster, monkeypatch, {ORDERS: (4, 2)}), datetime.now(UTC))
    assert left(proposed(tmp_path, cluster, monkeypatch)) == {}


def test_a_plan_of_more_than_a_week_ago_and_one_that_was_rejected_count_for_nothing(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, earlier: SimulatedRun
) -> None:
    shutil.rmtree(str(ledger.folder_of(airflow_deployment(), "outcomes", CONNECTION)))
    answered(earlier, datetime.now(UTC) - timedelta(days=7, minutes=1))
    assert left(proposed(tmp_path, cluster, monkeypatch)) == {}
    answered(earlier, datetime.now(UTC), choice="Reject")
    assert left(proposed(tmp_path, cluster, monkeypatch)) == {}
    answered(earlier, datetime.now(UTC) - timedelta(days=6))
    assert left(proposed(tmp_path, cluster, monkeypatch)) == {ORDERS: [1]}


def test_a_broker_that_a_run_was_to_empty_may_be_filled_again(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = given_run(tmp_path, cluster, monkeypatch, {ORDERS: (4, 2)}, job="drain", drain=[1])
    run.hold()
    run.reassign()
    run.release()
    answered(run, datetime.now(UTC))
    assert cluster.replicas("orders")[0] == [4, 2]
    assert left(proposed(tmp_path, cluster, monkeypatch)) == {}


def answered(run: SimulatedRun, at: datetime, choice: str = "given") -> None:
    row = {
        "dag_id": "kafka_rebalance",
        "run_id": run.dag_run.run_id,
        "choice": choice,
        "digest": run.decision["digest"],
    }
    ledger.append(airflow_deployment(), "decisions", CONNECTION, run.dag_run.run_id, at, [row])
