"""The ledger through Spark: its days compacted, and every block of docs/notebooks.md run as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame

from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.run import ledger
from kafka_rebalance.run.run_folder import create_run_folder
from kafka_rebalance.spark import ledger_job
from kafka_rebalance.spark.ledger import read_ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.plans.small_snapshots import broker_rows

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks.md"
EU, US = "kafka_eu", "kafka_us"
GIB = 1024**3
NOW = datetime.now(UTC)


def days_ago(days: int, hour: int = 12) -> datetime:
    return (NOW - timedelta(days=days)).replace(hour=hour, minute=0, second=0, microsecond=0)


def sample(topic: str, size: int) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition, "size_bytes": size} for partition in range(2)]


def outcome(run_id: str, actual: float, verified: bool = True) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "digest": f"digest of {run_id}",
        "verified": verified,
        "copied_bytes": 5 * GIB,
        "predicted_seconds": 1000.0,
        "actual_seconds": actual,
    }


def fill() -> None:
    """Two clusters: nights, answers and runs, several of some days; by the product's own append."""
    for age, orders, audit in ((27, 10, 7), (9, 15, 7), (2, 30, 5)):
        for hour, more in ((2, 0), (14, 1)):
            rows = [*sample("orders", orders * GIB + more), *sample("audit", audit * GIB)]
            ledger.append(airflow_deployment(), "metrics", EU, f"night-{age}-{hour}", days_ago(age, hour), rows)
    ledger.append(airflow_deployment(), "metrics", EU, "now", NOW, sample("orders", 31 * GIB))
    ledger.append(airflow_deployment(), "metrics", EU, "now too", NOW, sample("audit", 5 * GIB))
    ledger.append(airflow_deployment(), "metrics", EU, "too old", days_ago(40), sample("orders", 1))
    for number, actual in enumerate((1000.0, 1500.0, 2000.0)):
        ledger.append(
            airflow_deployment(), "outcomes", EU, f"run-{number}", days_ago(5), [outcome(f"run-{number}", actual)]
        )
    ledger.append(airflow_deployment(), "outcomes", EU, "failed", days_ago(5), [outcome("failed", 9e9, verified=False)])
    ledger.append(airflow_deployment(), "outcomes", US, "run-9", days_ago(5), [outcome("run-9", 500.0)])
    for run_id, choice in (("run-0", "light"), ("run-7", "Reject")):
        at = days_ago(5)
        answer = {"dag_id": "kafka_rebalance", "run_id": run_id, "choice": choice, "by": "uma", "at": at, "note": ""}
        ledger.append(
            airflow_deployment(),
            "decisions",
            EU,
            run_id,
            at,
            [{**answer, "digest": f"digest of {run_id}", "expired": False}],
        )
        plan = {"run_id": run_id, "digest": f"digest of {run_id}", "candidate": "light", "moved_bytes": 4 * GIB}
        scores = {"disk_max_over_mean_before": 1.5, "disk_max_over_mean_after": 1.125}
        ledger.append(airflow_deployment(), "plans", EU, run_id, at, [{**plan, **scores}])


def write_snapshots() -> None:
    """Broker 1 has its share on the first night and twice it on the second."""
    for run_id, size in (("night-1", 100), ("night-2", 300)):
        folder, _ = create_run_folder(
            airflow_deployment(), EU, SimpleNamespace(dag_id="kafka_balance_check", run_id=run_id)
        )
        partitions = [
            {"topic": "orders", "partition": 0, "replicas": [1], "size_bytes": size},
            {"topic": "orders", "partition": 1, "replicas": [2], "size_bytes": 100},
        ]
        write_snapshot(folder / "snapshot", broker_rows([1, 2]), partitions)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(root))
        fill()
        write_snapshots()
        yield root


def files(runs: Path, table: str) -> list[str]:
    return sorted(path.name for path in (runs / "ledger" / table).rglob("*.parquet"))


def test_days_that_are_over_become_one_file_each_and_their_rows_stay(
    runs: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark("local[1]", shuffle_partitions=1)
    cut = (
        Path(str(ledger.folder_of(airflow_deployment(), "outcomes", EU)))
        / f"day={days_ago(5):%Y-%m-%d}"
        / "cut.parquet"
    )
    cut.write_bytes(b"PAR1")
    before = {
        table: ledger.read(airflow_deployment(), table, EU, 90)
        for table in ("metrics", "outcomes", "decisions", "plans")
    }
    assert ledger_job.main(["--ledger", f"file://{runs / 'ledger'}"]) == 0
    said = capsys.readouterr()
    assert "cut.parquet" in said.out + said.err
    assert files(runs, "metrics").count("compacted~1.parquet") == 3
    assert len(files(runs, "metrics")) == 3 + 3, "one day with one file and today's two are left alone"
    assert files(runs, "outcomes") == ["compacted~1.parquet", "cut.parquet", "run-9.parquet"]

    def in_order(found: Any) -> list[str]:
        return sorted(map(str, found.rows))

    for table, found in before.items():
        now = ledger.read(airflow_deployment(), table, EU, 90)
        assert in_order(now) == in_order(found)
        assert now.unreadable == found.unreadable
    cut.unlink()

    # A cleared task writes its file again: Spark's reader takes that one, as ours does.
    plan = {"run_id": "run-7", "digest": "digest of run-7", "candidate": "light", "moved_bytes": 7}
    ledger.append(airflow_deployment(), "plans", EU, "run-7", days_ago(5), [plan])
    session = spark("local[1]", shuffle_partitions=1)
    moved = {row["run_id"]: row["moved_bytes"] for row in read_ledger(session, str(runs), "plans").collect()}
    assert moved == {
        row["run_id"]: row["moved_bytes"] for row in ledger.read(airflow_deployment(), "plans", EU, 90).rows
    }
    assert moved == {"run-0": 4 * GIB, "run-7": 7}


def test_the_blocks_of_the_notebooks_page_answer_their_questions(
    runs: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark("local[1]", shuffle_partitions=1)
    names: dict[str, Any] = {}
    shown: list[Any] = []
    # Each block ends by printing its answer, which would be computed once more to be compared.
    monkeypatch.setattr(DataFrame, "show", lambda frame, *_, **__: shown.append((frame, frame.collect())))
    blocks = re.findall(r"^```python\n(.*?)^```", NOTEBOOKS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, str(NOTEBOOKS), "exec"), names)

    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        (answer,) = [found for frame, found in shown if frame is names[name]]
        return [tuple(row[column] for column in columns) for row in answer]

    assert rows("topics", "cluster", "topic", "grown_bytes") == [
        (EU, "orders", 2 * 21 * GIB),
        (EU, "audit", 2 * -2 * GIB),
    ]
    assert rows("etas", "cluster", "runs", "p10", "median", "p90") == [
        (EU, 3, pytest.approx(1.1), 1.5, pytest.approx(1.9)),
        (US, 1, 0.5, 0.5, 0.5),
    ]
    assert rows("costs", "run_id", "by", "moved_bytes", "copied_bytes", "gain") == [
        ("run-0", "uma", 4 * GIB, 5 * GIB, 0.375)
    ]
    assert rows("drift", "connection", "broker", "first_over_mean", "last_over_mean") == [
        (EU, 1, 1.0, 1.5),
        (EU, 2, 1.0, 0.5),
    ]
