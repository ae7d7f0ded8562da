"""A damaged file of the ledger is named, and takes no other file, no plan and no page with it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, batched_run

DAY = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(tmp_path))


def damage(path: Path) -> None:
    """Overwrites a part of the first page; the footer stays whole. Arrow then raises a plain OSError."""
    data = bytearray(path.read_bytes())
    data[60:76] = b"\xff" * 16
    path.write_bytes(bytes(data))


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("table", sorted(ledger.TABLES))
def test_a_file_with_damaged_bytes_is_named_and_takes_no_other_with_it(table: str) -> None:
    sound, damaged = (
        Path(str(ledger.append(airflow_deployment(), table, "kafka_eu", run, DAY, [{}] * 50)))
        for run in ("sound", "damaged")
    )
    damage(damaged)
    found = ledger.read(airflow_deployment(), table, "kafka_eu", 1, now=DAY)
    assert len(found.rows) == 50
    assert found.unreadable == ("day=2026-11-21/damaged.parquet",)
    changed = bytearray(sound.read_bytes())
    changed[len(changed) // 4] ^= 1  # one bit of a value
    sound.write_bytes(bytes(changed))
    assert ledger.read(airflow_deployment(), table, "kafka_eu", 1, now=DAY).rows == []


@pytest.mark.usefixtures("root")
def test_times_and_columns_that_python_does_not_have_are_of_an_unreadable_file() -> None:
    sound = ledger.append(airflow_deployment(), "metrics", "kafka_eu", "sound", DAY, [{"topic": "orders"}])
    folder = Path(str(sound)).parent
    late = pyarrow.array([2**62], pyarrow.timestamp("us", tz="UTC"))
    pyarrow.parquet.write_table(pyarrow.table({"observed_at": late}), folder / "late.parquet")
    twice = pyarrow.Table.from_arrays([late.cast("int64"), late], names=["topic", "observed_at"])
    twice = twice.append_column("topic", pyarrow.array(["orders"]))
    pyarrow.parquet.write_table(twice, folder / "twice.parquet")
    found = ledger.read(airflow_deployment(), "metrics", "kafka_eu", 1, now=DAY)
    assert len(found.rows) == 1
    assert found.unreadable == ("day=2026-11-21/late.parquet", "day=2026-11-21/twice.parquet")


def test_a_damaged_file_stops_no_plan_and_the_report_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = batched_run(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    row = {"run_id": "x", "candidate": "light", "verified": True, "predicted_seconds": 1.0}
    now = datetime.now(UTC)
    damage(Path(str(ledger.append(airflow_deployment(), "outcomes", CONNECTION, "damaged", now, [row] * 50))))
    run.plan(job="drain", drain=[2], topics_out=["idle"])
    assert "damaged.parquet" in str(json_files.read_json(run.folder, json_files.ESTIMATE)["problems"])
