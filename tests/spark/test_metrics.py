"""The ledger's samples as Spark aggregates them: against figures by hand, and the same bytes however it is spread."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.documents.proposals import RatesLeftOut
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import prepare, run
from kafka_rebalance.planning.tables.history import (
    HISTORY,
    SAMPLES_SCHEMA,
    HourlyRates,
    aggregated,
    existing_partitions,
    in_worst_hour,
    read_topic_rates,
    write_history,
    write_topic_rates,
)
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.spark import job
from kafka_rebalance.spark.job import newest_days, read_metrics
from kafka_rebalance.spark.one_file_a_day import merge, publish
from support.plans.small_snapshots import broker_rows

NIGHT = datetime(2026, 11, 14, 2, 15, tzinfo=UTC)
DAY, DAY_MS = 86_400, 86_400_000
COMMITTED = ("committed_offsets", "committed_groups", "committed_digest")
LATER = ("start_offset", "topic_czxid", *COMMITTED, "local_start_offset")
OLD_SCHEMA = pa.schema([field for field in SAMPLES_SCHEMA if field.name not in LATER])
COLUMNS = (
    *("samples", "intervals", "measured_seconds", "mean_bytes_in_per_second", "p95_bytes_in_per_second"),
    *("first_size_bytes", "last_size_bytes", "mean_size_bytes", "lifetime_bytes"),
)


def write(
    ledger: Path, at: datetime, rows: list[dict[str, Any]], name: str = "a", schema: pa.Schema = SAMPLES_SCHEMA
) -> None:
    """One run's file, as the ledger has it."""
    folder = ledger / f"day={at:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    known = [{"observed_at": at, **{key: row[key] for key in row if key in schema.names}} for row in rows]
    pq.write_table(pa.Table.from_pylist(known, schema=schema), folder / f"{name}.parquet")


def sample(topic: str, partition: int, size: int, end: int, start: int = 0, czxid: int | None = 7) -> dict[str, Any]:
    offsets = {"end_offset": end, "start_offset": start, "topic_czxid": czxid}
    return {"topic": topic, "partition": partition, "size_bytes": size, **offsets}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Seven nights; records of 10 bytes, so that a byte a second is 8,640 of them a night."""
    folder = tmp_path / "metrics" / "cluster=kafka_eu"
    ends = [0, 1, 3, 6, 10, 15, 21]
    for night in range(7):
        grown, at = 8_640 * ends[night], NIGHT + timedelta(days=night)
        cut = grown if night < 3 else grown // 3
        rows = [
            # 1, 2, … 6 bytes a second, night by night.
            sample("orders", 0, 10 * grown, grown),
            # Stopped after the third night.
            sample("orders", 1, 20 * min(grown, 8_640 * 3), min(grown, 8_640 * 3)),
            # Made again before the fourth night, with more records than before.
            *([sample("orders", 2, 10 * grown, grown, czxid=5 if night < 3 else 7)] if night else []),
            # Truncated before the fourth night: that is no interval.
            sample("audit", 0, 10 * cut, cut, czxid=None),
            # Retention keeps one night of it.
            sample("audit", 1, 86_400, 8_640 * (night + 1), 8_640 * night),
            sample("deleted", 0, 5, 5),
        ]
        write(folder, at, rows, schema=SAMPLES_SCHEMA if night else OLD_SCHEMA)
    write(folder, at, [sample("orders", 0, 10 * grown, grown)], name="the-same-time")
    write(folder, NIGHT - timedelta(days=40), [sample("orders", 0, 1, 1)])
    (folder / "day=2026-11-15" / "cut.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"topic": ["orders"], "found": [1]}), folder / "day=2026-11-16" / "other.parquet")
    pq.write_table(pa.table({"topic": ["orders"]}), folder / "of-no-day.parquet")
    return folder


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Three brokers, the partitions of the ledger that still exist, and one that it does not know."""
    lifetimes = {
        ("orders", 0): 2 * DAY_MS,
        ("orders", 1): 2 * DAY_MS,
        ("orders", 2): 6 * DAY_MS,  # there are three nights of it
        ("audit", 0): 4 * DAY_MS,  # reaches into the truncation
        ("audit", 1): None,
        ("quiet", 0): DAY_MS,
    }
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": [1, 2],
            "size_bytes": 1_000_000,
            "topic_czxid": 7,
            "cleanup_policy": "delete",
            "retention_ms": lifetime,
            "segment_bytes": 1000,
        }
        for (topic, partition), lifetime in lifetimes.items()
    ]
    folder = tmp_path / "snapshot"
    folder.mkdir()
    write_snapshot(folder, broker_rows([1, 2, 3]), rows)
    return folder


# samples, intervals, their seconds, mean and p95 bytes in; first, last and mean size; bytes within the lifetime
FIGURES = {
    ("orders", 0): (7, 6, 6 * DAY, 3.5, 6.0, 0, 1_814_400, 691_200.0, 950_400),
    ("orders", 1): (7, 6, 6 * DAY, 1.0, 4.0, 0, 518_400, 394_971.4286, 0),
    ("orders", 2): (4, 3, 3 * DAY, 5.0, 6.0, 518_400, 1_814_400, 1_123_200.0, None),
    ("audit", 0): (7, 5, 5 * DAY, 1.6, 2.0, 0, 604_800, 263_314.2857, None),
    ("audit", 1): (7, 6, 6 * DAY, 1.0, 1.0, 86_400, 86_400, 86_400.0, None),
}


def test_samples_become_figures_that_a_hand_can_check_however_spark_is_spread(
    ledger: Path, snapshot: Path, tmp_path: Path, spark: Any
) -> None:
    session = spark("local[1]", shuffle_partitions=1)
    found = read_metrics(session, ledger, existing_partitions(prepare(snapshot, Settings()), snapshot))
    session.stop()
    rows = {(row["topic"], row["partition"]): row for row in found.rows.to_pylist()}
    assert {key: tuple(row[name] for name in COLUMNS) for key, row in rows.items()} == {
        key: pytest.approx(figures) for key, figures in FIGURES.items()
    }
    assert rows["orders", 0]["p95_size_bytes"] == pytest.approx(1_658_880)  # 0.7 of the way from 1,296,000 to the last
    assert found.files == 8
    assert found.unreadable == (
        "day=2026-11-15/cut.parquet",
        "day=2026-11-16/other.parquet",
        "of-no-day.parquet",
    )
    content = write_history(tmp_path / "one", found.rows, found.files, found.unreadable)

    # One day compacted, by a driver that died before it removed the first of the files.
    day = ledger / "day=2026-11-20"
    files = {path.name: path.read_bytes() for path in day.iterdir()}
    publish(day, merge(files))
    (day / "a.parquet").write_bytes(files["a.parquet"])
    assert sorted(path.name for path in day.iterdir()) == ["a.parquet", "compacted~1.parquet"]

    spark("local[2]", shuffle_partitions=5, files_maxPartitionBytes=2000, files_openCostInBytes=100)
    two, here = tmp_path / "two", tmp_path / "here"
    assert job.main(["--snapshot", str(snapshot), "--out", str(two), "--metrics", str(ledger)]) == 0
    assert (two / HISTORY / "part-0.parquet").read_bytes() == content
    run(snapshot, here, Settings(), history=content)
    assert (two / "proposals.json").read_bytes() == (here / "proposals.json").read_bytes()
    assert (two / "moves" / "part-0.parquet").read_bytes() == (here / "moves" / "part-0.parquet").read_bytes()


@pytest.mark.parametrize(
    ("served", "worst"),
    [(1000.0, 30), *(pytest.param(*other, marks=pytest.mark.long) for other in ((None, 160), (5000.0, 5)))],
)
def test_spark_finds_the_worst_hour_that_one_process_finds(
    snapshot: Path, tmp_path: Path, spark: Any, served: float | None, worst: int
) -> None:
    """Fifteen days of samples an hour apart; each of four partitions has an hour of its own with more bytes in.

    A metrics server may have hours of the topic audit. They count in place of the ledger's, beside those of orders.
    """
    if served is not None:
        rates = np.array([[served * (hour % 168 == 5) for hour in range(2 * 168)]])
        begin = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp()) // 3600
        write_topic_rates(snapshot, HourlyRates(("audit",), begin, rates, RatesLeftOut()))
    hours = range(15 * 24 + 1)
    busy = {("orders", 0): 30, ("orders", 1): 30, ("audit", 0): 7, ("audit", 1): 160}
    columns: dict[str, list[Any]] = {name: [] for name in SAMPLES_SCHEMA.names}
    for number, (key, hour) in enumerate(busy.items(), 1):
        end = 0
        for at in hours:
            row = sample(*key, 10 * end, end, czxid=None)
            row["observed_at"] = datetime(2026, 11, 2, tzinfo=UTC) + timedelta(hours=at, minutes=7)
            for name, column in columns.items():
                column.append(row.get(name))
            end += 3600 * number * (50 if at % 168 == hour else 1)
    samples = pa.table(columns, schema=SAMPLES_SCHEMA)
    ledger, existing = tmp_path / "metrics", existing_partitions(prepare(snapshot, Settings()), snapshot)
    for day in range(16):  # a file of several samples, as compaction makes it
        folder = ledger / f"day=2026-11-{2 + day:02}"
        folder.mkdir(parents=True)
        pq.write_table(samples.slice(day * 91, 91), folder / "a.parquet")
    rows = in_worst_hour(aggregated(samples, existing), read_topic_rates(snapshot))
    assert set(rows["worst_hour"].to_pylist()) == {worst}
    here, two = tmp_path / "here", tmp_path / "two"
    content = write_history(here, rows, 16, [])
    settings = {"even_at_worst_hour": True}
    run(snapshot, here, Settings.from_mapping(settings), history=content)

    (tmp_path / "settings.json").write_text(json.dumps(settings))
    spark("local[2]", shuffle_partitions=3)
    asked = ["--snapshot", str(snapshot), "--out", str(two), "--settings", str(tmp_path / "settings.json")]
    assert job.main([*asked, "--metrics", str(ledger)]) == 0
    assert (two / HISTORY / "part-0.parquet").read_bytes() == content
    assert (two / "proposals.json").read_bytes() == (here / "proposals.json").read_bytes()
    assert json.loads((two / "proposals.json").read_bytes())["history"]["worst_hour"]["hour"] == worst
    assert job.main(asked) == (2 if served is None else 0), "no samples were given"


def test_spark_counts_how_often_groups_read_as_one_process_does(snapshot: Path, tmp_path: Path, spark: Any) -> None:
    """Two groups read orders-0; orders-1 has none; the first and one more night could not read the groups."""
    ledger, tables = tmp_path / "metrics", []
    existing = existing_partitions(prepare(snapshot, Settings()), snapshot)
    for night in range(9):
        end, at = 8_640 * (night + 1), NIGHT + timedelta(days=night)
        groups = {"committed_offsets": 2 * end - 5, "committed_groups": 2, "committed_digest": 77}
        none = {"committed_offsets": 0, "committed_groups": 0, "committed_digest": 99}
        rows = [{**sample("orders", 0, 10 * end, end), **groups}, {**sample("orders", 1, 10 * end, end), **none}]
        rows.append(sample("orders", 2, 10 * end, end))
        schema = SAMPLES_SCHEMA if night else OLD_SCHEMA
        if night == 4:
            rows = [{key: row[key] for key in row if not key.startswith("committed")} for row in rows]
        write(ledger, at, rows, schema=schema)
        known = [{"observed_at": at, **{key: row[key] for key in row if key in schema.names}} for row in rows]
        tables.append(pa.Table.from_pylist(known, schema=SAMPLES_SCHEMA))
    rows = in_worst_hour(aggregated(pa.concat_tables(tables), existing))
    found = dict(zip(rows["partition"].to_pylist(), rows["times_read"].to_pylist(), strict=True))
    assert found == {0: 2.0, 1: 0.0, 2: None}
    here, two = tmp_path / "here", tmp_path / "two"
    content = write_history(here, rows, 9, [])
    run(snapshot, here, Settings(), history=content)

    spark("local[2]", shuffle_partitions=3)
    assert job.main(["--snapshot", str(snapshot), "--out", str(two), "--metrics", str(ledger)]) == 0
    assert (two / HISTORY / "part-0.parquet").read_bytes() == content
    assert (two / "proposals.json").read_bytes() == (here / "proposals.json").read_bytes()
    history = json.loads((two / "proposals.json").read_bytes())["history"]
    assert (history["groups"]["partitions"], history["groups"]["unread"]) == (2, 1)


def test_too_few_samples_give_spark_no_work(ledger: Path, snapshot: Path) -> None:
    for folder in sorted(ledger.glob("day=*"))[:4]:
        shutil.rmtree(folder)
    existing = existing_partitions(prepare(snapshot, Settings()), snapshot)
    found = read_metrics(None, ledger, existing)  # type: ignore[arg-type]
    assert (found.rows.num_rows, found.files, found.unreadable) == (0, 5, ("of-no-day.parquet",))


def test_a_ledger_that_is_not_there_is_named(snapshot: Path, tmp_path: Path) -> None:
    existing = existing_partitions(prepare(snapshot, Settings()), snapshot)
    with pytest.raises(ReadError, match=r"cluster=none cannot be read.*Nothing was planned"):
        read_metrics(None, tmp_path / "cluster=none", existing)  # type: ignore[arg-type]


def test_the_newest_days_count_back_from_the_newest_file() -> None:
    names = [f"day=2026-{day}/one.parquet" for day in ("11-21", "10-25", "10-24", "13-01")]
    assert newest_days([*names, "one.parquet"], 28) == (
        ["day=2026-10-25/one.parquet", "day=2026-11-21/one.parquet"],
        ["day=2026-13-01/one.parquet", "one.parquet"],
    )
    assert newest_days([], 28) == ([], [])
