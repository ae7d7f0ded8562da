"""The ledger: partitioned Parquet that any reader understands, one file a run, and what a run's row says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.dataset
import pytest
from airflow.sdk.exceptions import AirflowFailException

from in_process_run import CONNECTION
from kafka_rebalance.model import artifacts
from kafka_rebalance.workflow import ledger, tasks
from simulated_cluster import RATE, SIZE_BYTES, TOPICS, SimulatedCluster, SimulatedRun, batched_run

DAY = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)
ROW = {"topic": "orders", "partition": 0, "size_bytes": 5, "end_offset": None}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(tmp_path))
    return tmp_path / "ledger"


def read(root: Path, table: str) -> pyarrow.Table:
    return pyarrow.dataset.dataset(root / table, partitioning="hive").to_table()


def test_rows_are_found_by_cluster_and_day(root: Path) -> None:
    ledger.append("metrics", "kafka_eu", "one", DAY, [ROW])
    ledger.append("metrics", "kafka_us", "one", DAY.replace(day=22), [ROW, ROW])
    found = read(root, "metrics")
    assert sorted(zip(found["cluster"].to_pylist(), map(str, found["day"].to_pylist()), strict=True)) == [
        ("kafka_eu", "2026-11-21"),
        ("kafka_us", "2026-11-22"),
        ("kafka_us", "2026-11-22"),
    ]
    assert found["observed_at"].to_pylist()[0] == DAY
    only = pyarrow.dataset.dataset(root / "metrics", partitioning="hive").to_table(
        filter=pyarrow.dataset.field("cluster") == "kafka_us"
    )
    assert only.num_rows == 2


def test_a_task_that_is_cleared_counts_once_and_another_run_beside_it(root: Path) -> None:
    for _ in range(2):
        ledger.append("metrics", "kafka_eu", "manual__2026-11-21T00:00:00+00:00", DAY, [ROW])
    ledger.append("metrics", "kafka_eu", "manual__2026-11-21T00:00:00-00:00", DAY, [ROW])
    assert read(root, "metrics").num_rows == 2


@pytest.mark.parametrize("table", list(ledger.TABLES))
def test_a_table_keeps_its_columns_when_a_run_has_nothing_to_say(root: Path, table: str) -> None:
    path = ledger.append(table, "kafka_eu", "one", DAY, [])
    found = pyarrow.dataset.dataset(str(path)).to_table()
    assert found.schema.equals(ledger.TABLES[table])
    assert found.num_rows == 0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, TOPICS)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return batched_run(tmp_path, cluster, monkeypatch)


def only_row(tmp_path: Path, table: str) -> dict[str, Any]:
    (row,) = read(tmp_path / "runs" / "ledger", table).to_pylist()
    return dict(row)


def test_a_run_leaves_what_was_measured_proposed_and_reached(run: SimulatedRun, tmp_path: Path) -> None:
    run.hold()
    run.reassign()
    run.finish()
    measured = read(tmp_path / "runs" / "ledger", "metrics").to_pylist()
    assert {
        (row["topic"], row["partition"], row["size_bytes"], row["start_offset"], row["end_offset"]) for row in measured
    } == {(topic, partition, SIZE_BYTES, 0, 1) for topic, partitions in TOPICS.items() for partition in partitions}
    assert all(row["topic_czxid"] is not None for row in measured)
    proposals = artifacts.read_json(run.folder, artifacts.PROPOSALS)
    planned = {row["candidate"]: row for row in read(tmp_path / "runs" / "ledger", "plans").to_pylist()}
    assert {name: row["digest"] for name, row in planned.items()} == {
        candidate["name"]: candidate["digest"] for candidate in proposals["candidates"]
    }
    assert [name for name, row in planned.items() if row["recommended"]] == [proposals["recommended"]]
    assert planned["light"]["moved_bytes"] == 4 * SIZE_BYTES
    outcome = only_row(tmp_path, "outcomes")
    assert outcome["verified"] is True
    assert outcome["predicted_bytes"] == outcome["copied_bytes"] == 4 * SIZE_BYTES
    assert (outcome["partitions"], outcome["batches"]) == (4, 2)
    assert (outcome["approved_by"], outcome["throttle_bytes_per_second"]) == ("uma", RATE)
    assert outcome["digest"] == planned["light"]["digest"]
    assert outcome["cluster"] == CONNECTION


def test_a_lower_throttle_than_planned_is_predicted_to_take_longer(
    run: SimulatedRun, tmp_path: Path, cluster: SimulatedCluster
) -> None:
    planned_at = artifacts.read_json(run.folder, artifacts.SNAPSHOT)["settings"]["throttle_bytes_per_second"]
    makespan = run.candidate.summary["makespan_seconds"]
    run.hold()
    run.reassign()
    run.finish()
    assert only_row(tmp_path, "outcomes")["predicted_seconds"] == pytest.approx(makespan * planned_at / RATE)


def test_a_run_that_stopped_after_its_first_batch_is_recorded_as_that(run: SimulatedRun, tmp_path: Path) -> None:
    run.hold()
    run.request()
    run.cluster.controller.run()
    run.request()  # notes the first as done and requests the second, which nobody follows
    with pytest.raises(AirflowFailException, match="did not reach the approved end"):
        tasks.record(run.decision, run.dag_run)
    outcome = only_row(tmp_path, "outcomes")
    assert outcome["verified"] is False
    assert outcome["copied_bytes"] == 2 * SIZE_BYTES
    assert outcome["predicted_bytes"] == 4 * SIZE_BYTES


def test_a_run_that_never_began_has_no_duration(run: SimulatedRun, tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="did not reach the approved end"):
        tasks.record(run.decision, run.dag_run)
    outcome = only_row(tmp_path, "outcomes")
    assert (outcome["actual_seconds"], outcome["copied_bytes"], outcome["verified"]) == (None, 0, False)
