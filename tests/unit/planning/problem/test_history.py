"""What the ledger's history changes about a problem: rates, bytes that will be gone, and the account of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.__main__ import main
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.planner import prepare, run
from kafka_rebalance.planning.problem.arrays import METRICS, Problem
from kafka_rebalance.planning.tables.history import (
    HISTORY_SCHEMA,
    existing_partitions,
    planned_with,
    read_history,
    write_history,
)
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import Rows, broker_rows, partition_rows

NOW = datetime(2026, 11, 21, 2, 15, tzinfo=UTC)
DAY_MS = 86_400_000
LISTS = [[1, 2], [2, 3], [3, 1], [1, 2]]


def history_row(partition: int, rate: float | None, *, topic: str = "orders", **changes: Any) -> dict[str, Any]:
    """Fourteen nights of one partition, unless said otherwise."""
    return {
        "topic": topic,
        "partition": partition,
        "samples": 15,
        "first_at": NOW - timedelta(days=14),
        "last_at": NOW,
        "first_size_bytes": 1000,
        "last_size_bytes": 1000,
        "mean_size_bytes": 1000.0,
        "p95_size_bytes": 1000.0,
        "intervals": 0 if rate is None else 14,
        "measured_seconds": 0.0 if rate is None else 14 * 86_400.0,
        "mean_bytes_in_per_second": rate,
        "p95_bytes_in_per_second": rate,
        **changes,
    }


def planned(folder: Path, partitions: Rows, rows: list[dict[str, Any]], **settings: Any) -> Problem:
    """The problem of three brokers with this history."""
    write_snapshot(folder, broker_rows([1, 2, 3]), partitions)
    content = write_history(
        folder, pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA), 15, ["day=2026-11-03/bad.parquet"]
    )
    return planned_with(prepare(folder, Settings.from_mapping(settings)), folder, content, "history")


def rates(problem: Problem) -> list[float]:
    assert problem.rates.knows_in
    return [round(rate, 9) for rate in problem.rates.bytes_in.tolist()]


def account(problem: Problem) -> dict[str, Any]:
    assert problem.rates.history is not None
    return dict(in_json(problem.rates.history))


def test_rates_are_the_95th_percentile_in_whatever_order_the_rows_come(tmp_path: Path) -> None:
    rows = [history_row(number, float(number)) for number in (3, 0, 2, 1)]
    assert rates(planned(tmp_path, partition_rows(LISTS), rows)) == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "little", [{"intervals": 4}, {"measured_seconds": 86_399.0}, {"intervals": 0, "p95_bytes_in_per_second": None}]
)
def test_too_few_or_too_short_intervals_leave_the_snapshots_own_rate(tmp_path: Path, little: dict[str, Any]) -> None:
    partitions = partition_rows(LISTS, bytes_in_per_second=[70.0, 71.0, 72.0, 73.0])
    rows = [history_row(0, 5.0), history_row(1, 5.0, **little)]
    problem = planned(tmp_path, partitions, rows)
    assert rates(problem) == [5.0, 71.0, 72.0, 73.0]
    assert account(problem)["partitions"] == {"history": 1, "snapshot": 3, "topic": 0, "cluster": 0}


def test_what_nobody_measured_is_estimated_by_size_from_its_topic_else_from_all_and_named(tmp_path: Path) -> None:
    partitions = [
        *partition_rows(LISTS[:3], size_bytes=[1000, 3000, 500]),
        *partition_rows(LISTS[:1], topic="audit", size=10_000),
        *partition_rows(LISTS[:1], topic="new", size=200),
    ]
    problem = planned(
        tmp_path, partitions, [history_row(0, 2.0), history_row(1, 2.0), history_row(0, 1.4, topic="audit")]
    )
    assert problem.topics == ("audit", "new", "orders")
    # orders takes 0.001 a second for each byte it holds; all that is known 5.4 for 14,000 bytes.
    assert rates(problem) == [1.4, round(200 * 5.4 / 14_000, 9), 2.0, 2.0, 0.5]
    told = account(problem)
    assert told["partitions"] == {"history": 3, "snapshot": 0, "topic": 1, "cluster": 1}
    assert told["estimated_first"] == [
        {"topic": "orders", "partitions": 1, "from": "topic"},
        {"topic": "new", "partitions": 1, "from": "cluster"},
    ]
    assert (told["share_of_partitions"], told["share_of_bytes"]) == (0.6, round(14_000 / 14_700, 4))


def test_of_empty_partitions_the_mean_is_taken(tmp_path: Path) -> None:
    rows = [history_row(0, 2.0), history_row(1, 4.0)]
    assert rates(planned(tmp_path, partition_rows(LISTS, size=0), rows)) == [2.0, 4.0, 3.0, 3.0]


def test_where_nothing_is_known_bytes_in_stay_unknown_and_moves_are_as_without_history(tmp_path: Path) -> None:
    partitions = partition_rows(LISTS * 3, size_bytes=range(100, 1300, 100))
    problem = planned(tmp_path, partitions, [history_row(number, None) for number in range(12)])
    assert not problem.rates.knows_in
    alone = prepare(tmp_path, Settings())
    assert propose(problem, "balanced").candidate == propose(alone, "balanced").candidate


def test_partitions_that_are_gone_have_no_say(tmp_path: Path) -> None:
    gone = [history_row(9, 5.0), history_row(0, 5.0, topic="deleted")]
    assert not planned(tmp_path, partition_rows(LISTS), gone).rates.knows_in
    assert not planned(tmp_path, partition_rows(LISTS), []).rates.knows_in


def test_the_account_says_how_much_there_is_from_when_to_when_and_how_it_grows(tmp_path: Path) -> None:
    rows = [history_row(0, 1.0, last_size_bytes=2400), history_row(1, 1.0, first_at=NOW - timedelta(days=2))]
    told = account(planned(tmp_path, partition_rows(LISTS, size=1000), rows))
    assert (told["days"], told["samples"]) == (14.0, 15)
    assert (told["first_at"], told["last_at"]) == ("2026-11-07T02:15:00+00:00", "2026-11-21T02:15:00+00:00")
    assert told["growth_bytes_per_day"] == 1400 * 2 / 14  # of both replicas
    assert (told["unreadable_files"], told["unreadable_first"]) == (1, ["day=2026-11-03/bad.parquet"])


# --- bytes out ---


def out(problem: Problem) -> list[float] | None:
    return [round(rate, 9) for rate in problem.rates.bytes_out.tolist()] if problem.rates.knows_out else None


def test_consumers_read_as_often_as_measured_else_once_and_the_account_says_how_much_is_measured(
    tmp_path: Path,
) -> None:
    rows = [history_row(0, 6.0, times_read=2.0), history_row(1, 3.0, times_read=0.0), history_row(2, 1.0)]
    problem = planned(tmp_path, partition_rows(LISTS[:3]), rows)
    assert out(problem) == [12.0, 0.0, 1.0]
    assert account(problem)["groups"] == {"partitions": 2, "unread": 1, "share_of_bytes_in": 0.9}
    estimated = planned(tmp_path, partition_rows(LISTS), rows)
    assert rates(estimated)[3] == round(10 / 3, 9)
    assert out(estimated) == [12.0, 0.0, 1.0, round(10 / 3, 9)], "by size from the topic, and once"


def test_without_a_measured_partition_bytes_out_stay_unknown_and_the_file_is_as_before(tmp_path: Path) -> None:
    rows = [history_row(number, 2.0) for number in range(4)]
    problem = planned(tmp_path, partition_rows(LISTS), rows)
    assert (out(problem), "groups" in account(problem)) == (None, False)
    content = write_history(tmp_path, pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA), 15, [])
    assert "times_read" not in pq.read_table(pa.BufferReader(content)).column_names
    nowhere = planned(tmp_path, partition_rows(LISTS), [history_row(0, None, times_read=2.0)])
    assert (nowhere.rates.knows_in, out(nowhere)) == (False, None)


def test_what_a_snapshot_tells_of_bytes_out_stays(tmp_path: Path) -> None:
    partitions = partition_rows(LISTS, bytes_out_per_second=[9.0, 8.0, 7.0, 6.0])
    problem = planned(tmp_path, partitions, [history_row(0, 6.0, times_read=2.0)])
    assert (out(problem), "groups" in account(problem)) == ([9.0, 8.0, 7.0, 6.0], False)


# --- retention ---

WEEK: dict[str, Any] = {"cleanup_policy": ["delete"] * 4, "retention_ms": [7 * DAY_MS] * 4, "segment_bytes": [10] * 4}
LASTING: dict[str, Any] = {"lifetime_ms": 7 * DAY_MS // 2}  # a copy that takes half of the retention


def lasting(folder: Path, partitions: Rows, rows: list[dict[str, Any]]) -> list[int]:
    problem = planned(folder, partitions, rows)
    assert problem.size_bytes.tolist() == [row["size_bytes"] for row in partitions]  # what is copied and approved
    return problem.rates.lasting_bytes.tolist()


def test_growth_is_of_each_partition_by_day_and_only_where_samples_span_one(tmp_path: Path) -> None:
    grown: dict[str, Any] = {"first_size_bytes": 1000, "last_size_bytes": 2400}
    short: dict[str, Any] = {"first_at": NOW - timedelta(hours=23), **grown}
    rows = [history_row(0, 1.0, **grown), history_row(1, 1.0), history_row(2, 1.0, **short)]
    rates = planned(tmp_path, partition_rows(LISTS), rows).rates
    assert rates.knows_growth
    assert rates.growth_bytes_per_day.tolist() == [100.0, 0.0, 0.0, 0.0]
    assert not planned(tmp_path, partition_rows(LISTS), rows[2:]).rates.knows_growth


def test_a_topic_that_goes_on_as_ever_keeps_its_size_and_one_that_stopped_loses_all(tmp_path: Path) -> None:
    rows = [
        history_row(0, 1.0, **LASTING, lifetime_bytes=500),  # 1000 in a week, as it holds
        history_row(1, 1.0, **LASTING, lifetime_bytes=0),
        history_row(2, 1.0, **LASTING, lifetime_bytes=100),  # slower: 200 a week, and a segment that is not whole
        history_row(3, 1.0, **LASTING, lifetime_bytes=9000),
    ]
    partitions = partition_rows(LISTS, **WEEK)
    assert lasting(tmp_path, partitions, rows) == [1000, 0, 210, 1000]
    told = account(planned(tmp_path, partitions, rows))
    assert (told["expiring_partitions"], told["expiring_bytes"]) == (2, 2 * (1000 + 790))


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ({"cleanup_policy": ["compact"] * 4, "retention_ms": [None] * 4}, {}),
        ({"cleanup_policy": ["compact,delete"] * 4}, {}),
        ({"retention_ms": [None] * 4}, {}),
        ({"segment_bytes": [None] * 4}, {}),
        ({}, {"lifetime_bytes": None}),  # the samples do not reach back as far
        ({}, {"lifetime_ms": None}),
        ({}, {"intervals": 4}),
    ],
)
def test_nothing_is_said_to_expire_where_that_is_not_known(
    tmp_path: Path, columns: dict[str, Any], changes: dict[str, Any]
) -> None:
    row = history_row(0, 1.0, **LASTING | {"lifetime_bytes": 0} | changes)
    assert lasting(tmp_path, partition_rows(LISTS, **WEEK | columns), [row]) == [1000] * 4


def test_disks_are_balanced_by_what_stays_and_moves_cost_what_is_copied(tmp_path: Path) -> None:
    """Broker 1 holds most today, and what it holds more will expire: there is nothing to move."""
    partitions = partition_rows(
        [[1], [1], [2], [3]],
        size_bytes=[1000] * 4,
        cleanup_policy=["delete"] * 4,
        retention_ms=[DAY_MS] * 4,
        segment_bytes=[1] * 4,
    )
    rows = [history_row(0, None, intervals=14, measured_seconds=1e6, lifetime_ms=1, lifetime_bytes=0)]
    with_it = propose(planned(tmp_path, partitions, rows, candidates=["balanced"]), "balanced")
    disk = METRICS.index("disk")
    assert with_it.loads_before[:, disk].tolist() == [1000, 1000, 1000]
    alone = propose(prepare(tmp_path, Settings()), "balanced")
    assert alone.loads_before[:, disk].tolist() == [2000, 1000, 1000]


@pytest.mark.parametrize(
    ("throttle", "columns", "found"),
    [
        (None, {}, [7 * DAY_MS] * 2),
        (1000, {}, [7 * DAY_MS - 1000, 7 * DAY_MS - 2000]),  # 1000 and 2000 bytes
        (1, {"retention_ms": [1_500_000] * 2}, [500_000, None]),  # the second would not be copied in time
        (1000, {"cleanup_policy": ["compact"] * 2}, [None, None]),
    ],
)
def test_spark_is_told_for_how_long_records_count(
    tmp_path: Path, throttle: int | None, columns: dict[str, Any], found: list[int | None]
) -> None:
    week = {name: values[:2] for name, values in WEEK.items()} | columns
    rows = partition_rows(LISTS[:2], size_bytes=[1000, 2000], topic_czxid=[(7 << 58) + 1, None], **week)
    write_snapshot(tmp_path, broker_rows([1, 2, 3]), rows[::-1])
    problem = prepare(tmp_path, Settings(throttle_bytes_per_second=throttle))
    table = existing_partitions(problem, tmp_path)
    assert table["lifetime_ms"].to_pylist() == found
    assert table["topic_czxid"].to_pylist() == [(7 << 58) + 1, None]
    assert table["partition"].to_pylist() == [0, 1]


def test_a_creation_id_that_is_no_number_is_named(tmp_path: Path) -> None:
    planned(tmp_path, partition_rows(LISTS), [])
    table = pq.read_table(tmp_path / "partitions.parquet").drop_columns(["topic_czxid"])
    pq.write_table(table.append_column("topic_czxid", pa.array(["x"] * 4)), tmp_path / "partitions.parquet")
    with pytest.raises(ArtifactError, match=r"partitions.parquet: column topic_czxid is string"):
        existing_partitions(prepare(tmp_path, Settings()), tmp_path)


# --- the file ---


@pytest.mark.slow
def test_the_command_plans_with_the_file_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [history_row(number, float(number)) for number in range(4)]
    planned(tmp_path, partition_rows(LISTS), rows)
    arguments = ["--snapshot", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--history", str(tmp_path / "history" / "part-0.parquet")]) == 0
    assert "history: 15 samples over 14.0 days give the bytes in of 4 partitions" in capsys.readouterr().err
    proposals = json.loads((tmp_path / "out" / "proposals.json").read_bytes())
    assert proposals["history"]["share_of_partitions"] == 1.0
    run(tmp_path, tmp_path / "alone", Settings())
    assert "history" not in json.loads((tmp_path / "alone" / "proposals.json").read_bytes())


def test_the_same_rows_in_another_order_are_the_same_bytes(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([history_row(number, 1.0) for number in range(4)], schema=HISTORY_SCHEMA)
    one = write_history(tmp_path, rows, 15, ["b", "a"])
    two = write_history(tmp_path, pa.concat_tables([rows.slice(2), rows.slice(0, 2)]), 15, ["a", "b"])
    assert one == two
    assert read_history(one, "here").unreadable == ("a", "b")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (None, "cannot be read"),
        (lambda table: table.drop_columns(["intervals"]), "column intervals is missing"),
        (lambda table: table.drop_columns(["last_at"]), "column last_at is missing"),
        (lambda table: table.replace_schema_metadata(), "does not name its source files"),
    ],
)
def test_a_file_that_is_no_history_ends_the_command_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Any, said: str
) -> None:
    planned(tmp_path, partition_rows(LISTS), [history_row(0, 1.0)])
    path = tmp_path / "history" / "part-0.parquet"
    if spoil is None:
        path.unlink()
    else:
        pq.write_table(spoil(pq.read_table(path)), path)
    arguments = ["--snapshot", str(tmp_path), "--out", str(tmp_path / "out"), "--history", str(path)]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Nothing was planned" in told
    assert "Traceback" not in told


def test_what_is_not_parquet_is_named() -> None:
    with pytest.raises(ArtifactError, match="history is not a Parquet file"):
        read_history(b"no", "history")


def test_two_rows_of_one_partition_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="orders-0"):
        planned(tmp_path, partition_rows(LISTS), [history_row(0, 1.0), history_row(0, 2.0)])
