"""A day's many files of the ledger as one: what a crash, a late run or a file that cannot be read leaves. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.documents.ledger_files import SOURCE_FILE, files_that_count
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.spark import one_file_a_day
from kafka_rebalance.spark.one_file_a_day import closed_days, merge, publish

AT = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)


class Crash(Exception):
    """The driver dies here."""


def write(folder: Path, name: str, *values: int, **columns: object) -> None:
    table = pa.table(
        {
            "observed_at": pa.array([AT] * len(values), pa.timestamp("us", tz="UTC")),
            "value": pa.array(values, pa.int64()),
            **{key: pa.array([value] * len(values)) for key, value in columns.items()},
        }
    )
    pq.write_table(table, folder / f"{name}.parquet")


def rows(folder: Path) -> list[int]:
    """What a reader finds, by the rule of `model.ledger_files`."""
    names = [path.name for path in folder.glob("*.parquet")]
    found: list[int] = []
    for name in files_that_count(names):
        table = pq.read_table(folder / name)
        sources = table[SOURCE_FILE].to_pylist() if SOURCE_FILE in table.column_names else [None] * len(table)
        found += [
            value for value, source in zip(table["value"].to_pylist(), sources, strict=True) if source not in names
        ]
    return sorted(found)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def compact(folder: Path) -> list[str]:
    merged = merge(contents(folder))
    return publish(folder, merged) if merged.content else []


@pytest.fixture
def day(tmp_path: Path) -> Path:
    write(tmp_path, "a", 1, 2)
    write(tmp_path, "b", 3)
    write(tmp_path, "nothing")
    return tmp_path


def test_a_days_files_become_one_with_their_rows(day: Path) -> None:
    assert compact(day) == []
    assert [path.name for path in day.iterdir()] == ["compacted~1.parquet"]
    assert rows(day) == [1, 2, 3]
    table = pq.read_table(day / "compacted~1.parquet")
    assert table.schema.field("observed_at").type == pa.timestamp("us", tz="UTC")
    assert table[SOURCE_FILE].to_pylist() == ["a.parquet", "a.parquet", "b.parquet"]
    assert merge(contents(day)).content == b"", "one file is left alone"


def test_a_late_run_is_merged_the_next_time(day: Path) -> None:
    compact(day)
    write(day, "late", 4, column_of_a_newer_version=7)
    assert rows(day) == [1, 2, 3, 4]
    compact(day)
    assert [path.name for path in day.iterdir()] == ["compacted~2.parquet"]
    assert rows(day) == [1, 2, 3, 4]
    newer = pq.read_table(day / "compacted~2.parquet")["column_of_a_newer_version"].to_pylist()
    assert sorted(newer, key=str) == [7, None, None, None]


def test_a_cleared_task_replaces_its_own_rows_even_after_they_were_merged(day: Path) -> None:
    compact(day)
    write(day, "a", 10)
    assert rows(day) == [3, 10]
    compact(day)
    assert rows(day) == [3, 10]


@pytest.mark.parametrize("calls", range(6))
def test_a_crash_at_any_point_loses_no_row_and_counts_none_twice(
    day: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact(day)
    write(day, "c", 4)
    write(day, "d", 5)
    left = calls

    def crashing(call: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: object) -> None:
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1
            call(*arguments)

        return counted

    with monkeypatch.context() as patched:
        patched.setattr(one_file_a_day, "write_whole", crashing(one_file_a_day.write_whole))
        patched.setattr(one_file_a_day, "remove", crashing(one_file_a_day.remove))
        # Written, and three files removed: with a fifth call allowed nothing crashes any more.
        if calls < 4:
            with pytest.raises(Crash):
                compact(day)
        else:
            compact(day)
    assert rows(day) == [1, 2, 3, 4, 5]
    compact(day)
    assert rows(day) == [1, 2, 3, 4, 5]
    assert len(list(day.iterdir())) == 1, "the next run takes away what the crash left"


def test_what_a_run_writes_while_its_day_is_merged_stays(day: Path) -> None:
    merged = merge(contents(day))
    write(day, "a", 10)
    write(day, "new", 11)
    assert publish(day, merged) == ["a.parquet"]
    assert rows(day) == [3, 10, 11]


def test_nothing_is_removed_where_the_new_file_does_not_read_as_it_was_written(
    day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(day)
    monkeypatch.setattr(one_file_a_day, "write_whole", lambda file, data: file.write_bytes(data[:-1]))
    with pytest.raises(ArtifactError, match="No file was removed"):
        compact(day)
    assert contents(day).items() >= before.items()


def test_what_cannot_be_read_or_is_of_no_ledger_stays_and_is_named(day: Path) -> None:
    (day / "cut.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"value": [9]}), day / "foreign.parquet")
    merged = merge(contents(day))
    assert [why.partition(":")[0] for why in merged.skipped] == ["cut.parquet", "foreign.parquet"]
    publish(day, merged)
    assert sorted(path.name for path in day.iterdir()) == ["compacted~1.parquet", "cut.parquet", "foreign.parquet"]


def test_a_day_whose_compacted_file_cannot_be_read_is_left_as_it_is(day: Path) -> None:
    compact(day)
    write(day, "late", 4)
    (day / "compacted~1.parquet").write_bytes(b"PAR1")
    merged = merge(contents(day))
    assert (merged.content, len(merged.skipped)) == (b"", 1)


def test_columns_that_cannot_be_one_leave_the_day_as_it_is(day: Path) -> None:
    pq.write_table(
        pa.table({"observed_at": pa.array([AT], pa.timestamp("us", tz="UTC")), "value": ["much"]}), day / "odd.parquet"
    )
    merged = merge(contents(day))
    assert merged.content == b""
    assert "columns differ" in merged.skipped[0]


def test_only_days_that_are_over_and_have_several_files_are_merged() -> None:
    def day(table: str, on: str, *names: str) -> list[str]:
        return [f"{table}/cluster=kafka_eu/day={on}/{name}" for name in names]

    names = [
        *day("metrics", "2026-11-20", "a.parquet", "b.parquet", "_compacted~1.parquet.part"),
        *day("plans", "2026-11-20", "a.parquet"),
        *day("metrics", "2026-11-21", "a.parquet", "b.parquet"),
        *day("audits", "not-a-day", "a.parquet", "b.parquet"),
        "kafka_rebalance.zip",
        "metrics/readme.parquet",
    ]
    assert closed_days(names, date(2026, 11, 21)) == {
        "metrics/cluster=kafka_eu/day=2026-11-20": ["a.parquet", "b.parquet"]
    }
