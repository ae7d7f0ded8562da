"""The hour of the week in which a cluster takes most bytes in: of samples, and as a plan uses it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.tables import history as module
from kafka_rebalance.planning.tables.history import (
    EXISTING_SCHEMA,
    HISTORY_SCHEMA,
    SAMPLES_SCHEMA,
    aggregated,
    in_worst_hour,
    planned_with,
    read_history,
    write_history,
)
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import broker_rows, partition_rows

MONDAY = datetime(2026, 5, 4, tzinfo=UTC)
WEEKS = 15 * 24  # hours of samples, a little more than two weeks
NOON, TUESDAY_3 = 12, 24 + 3  # hours of the week
Rate = Callable[[int], float]  # bytes a second in this hour of the week


def sampled(partition: int, rate: Rate, hours: int = WEEKS, every: float = 1.0, **more: Any) -> list[dict[str, Any]]:
    """Samples of records of one byte, from Monday on, `every` so many hours."""
    ends = np.r_[0, np.cumsum([rate(hour % 168) * 3600 for hour in range(hours)])]
    at = np.arange(0, hours + 1e-9, every)
    return [
        {
            "observed_at": MONDAY + timedelta(hours=hour),
            "topic": "orders",
            "partition": partition,
            "size_bytes": int(end),
            "end_offset": int(end),
            "start_offset": 0,
            **more,
        }
        for hour, end in zip(at.tolist(), np.interp(at, np.arange(hours + 1), ends), strict=True)
    ]


def history_of(*samples: list[dict[str, Any]], partitions: int) -> pa.Table:
    existing = [{"topic": "orders", "partition": number} for number in range(partitions)]
    rows = pa.Table.from_pylist([row for some in samples for row in some], schema=SAMPLES_SCHEMA)
    return in_worst_hour(aggregated(rows, pa.Table.from_pylist(existing, schema=EXISTING_SCHEMA)))


def planned(folder: Path, table: pa.Table, lists: list[list[int]], **settings: Any) -> Problem:
    write_snapshot(folder, broker_rows([1, 2, 3]), partition_rows(lists))
    content = write_history(folder, table, 15, [])
    return planned_with(prepare(folder, Settings.from_mapping(settings)), folder, content, "history")


def at_noon(hour: int) -> float:
    return 100.0 if hour == NOON else 10.0


def on_tuesday(hour: int) -> float:
    return 70.0 if hour == TUESDAY_3 else 10.0


def test_the_worst_hour_is_that_of_the_sum_not_of_the_largest_partition() -> None:
    table = history_of(sampled(0, at_noon), sampled(1, on_tuesday), sampled(2, on_tuesday), partitions=3)
    assert set(table["worst_hour"].to_pylist()) == {TUESDAY_3}
    assert table["worst_hour_bytes_in_per_second"].to_pylist() == pytest.approx([10.0, 70.0, 70.0])
    assert table["weeks"].to_pylist() == [2.0, 2.0, 2.0]
    assert table["samples_an_hour"].to_pylist() == [2, 2, 2]


def test_a_sample_within_an_hour_gives_both_hours_their_part() -> None:
    late = [{**row, "observed_at": row["observed_at"] + timedelta(minutes=15)} for row in sampled(0, at_noon)]
    table = history_of(late, partitions=1)
    assert table["worst_hour"].to_pylist() == [NOON]
    assert table["worst_hour_bytes_in_per_second"].to_pylist() == pytest.approx([0.75 * 100 + 0.25 * 10])


def test_partitions_that_are_looked_at_in_several_parts_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [sampled(0, at_noon), sampled(1, on_tuesday, 100), sampled(2, on_tuesday), sampled(3, at_noon)]
    whole = history_of(*every, partitions=4)
    assert whole["worst_hour"].to_pylist() == [NOON, None, NOON, NOON]
    for size in (1, 2):
        monkeypatch.setattr(module, "_GROUPS_AT_ONCE", size)
        assert history_of(*every, partitions=4).equals(whole)


@pytest.mark.parametrize(
    "samples",
    [
        sampled(0, at_noon, hours=14 * 24 - 1),
        sampled(0, at_noon, every=3.0),
        sampled(0, at_noon, hours=28 * 24, every=24.0),
        [row for row in sampled(0, at_noon) if not 36 <= (row["observed_at"] - MONDAY).total_seconds() / 3600 <= 39],
        [],
    ],
    ids=["less than two weeks", "three hours apart", "every night", "hours missing in one of two weeks", "none"],
)
def test_samples_that_do_not_show_every_hour_in_two_weeks_give_no_worst_hour(samples: list[dict[str, Any]]) -> None:
    table = history_of(samples, partitions=1)
    assert table.schema.names == HISTORY_SCHEMA.names, "the file is that of an earlier version"


def test_a_missed_sample_and_a_third_week_still_tell_the_hours_apart() -> None:
    every = sampled(0, at_noon, hours=21 * 24)
    table = history_of([row for number, row in enumerate(every) if number not in (13, 200)], partitions=1)
    assert table["worst_hour"].to_pylist() == [NOON]
    assert table["worst_hour_bytes_in_per_second"].to_pylist() == pytest.approx([(55.0 + 100.0 + 100.0) / 3])


def test_a_plan_evens_out_the_worst_hour_only_if_it_is_asked_to(tmp_path: Path) -> None:
    lists = [[1, 2], [2, 3], [3, 1], [1, 2]]
    # The fourth partition is new: nobody knows its hours, so it gets the mean of its topic's by size.
    table = history_of(
        sampled(0, at_noon), sampled(1, on_tuesday), sampled(2, on_tuesday), sampled(3, at_noon, 100), partitions=4
    )
    asked = planned(tmp_path, table, lists, even_at_worst_hour=True)
    assert asked.rates.knows_in
    assert asked.rates.bytes_in.tolist() == pytest.approx([10.0, 70.0, 70.0, 50.0])
    assert asked.rates.history is not None
    told = in_json(asked.rates.history)
    assert told["worst_hour"] == {"hour": TUESDAY_3, "weeks": 2.0, "samples": 2}
    assert told["partitions"] == {"history": 3, "snapshot": 0, "topic": 1, "cluster": 0}
    other = planned(tmp_path, table, lists)
    assert other.rates.knows_in
    assert other.rates.bytes_in.tolist() == pytest.approx([10.0, 10.0, 10.0, 10.0])
    assert other.rates.history is not None
    assert "worst_hour" not in in_json(other.rates.history)


def test_without_a_worst_hour_the_plan_keeps_the_percentile_and_says_so(tmp_path: Path) -> None:
    table = history_of(sampled(0, at_noon, hours=200), partitions=1)
    problem = planned(tmp_path, table, [[1, 2]], even_at_worst_hour=True)
    assert problem.rates.knows_in
    assert problem.rates.bytes_in.tolist() == pytest.approx([10.0])
    assert problem.rates.history is not None
    assert in_json(problem.rates.history)["worst_hour"] == {"hour": None, "weeks": 0.0, "samples": 0}


@pytest.mark.parametrize("hours", [[3, 4], [168, 168]])
def test_a_file_with_two_worst_hours_or_one_of_no_week_is_refused(tmp_path: Path, hours: list[int]) -> None:
    table = history_of(sampled(0, at_noon), sampled(1, at_noon), partitions=2)
    column = table.schema.get_field_index("worst_hour")
    content = write_history(tmp_path, table.set_column(column, "worst_hour", pa.array(hours, pa.int32())), 1, [])
    with pytest.raises(ArtifactError, match="worst hours, or one that is none of the week"):
        read_history(content, "history")
