"""Samples of the ledger aggregated without Spark: bytes in of each partition that exists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from kafka_rebalance.planning.tables.history_table import EXISTING_SCHEMA, SAMPLES_SCHEMA
from kafka_rebalance.planning.tables.sample_aggregates import aggregated

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def sample(
    day: int, end: int, *, topic: str = "orders", size: int = 1000, start: int = 0, **more: Any
) -> dict[str, Any]:
    at = NOON + timedelta(days=day)
    row = {"observed_at": at, "topic": topic, "partition": 0, "size_bytes": size, "end_offset": end}
    return {**row, "start_offset": start, "topic_czxid": 7, **more}


def rows_of(
    *samples: dict[str, Any], topics: tuple[str, ...] = ("orders",), czxid: int | None = 7
) -> list[dict[str, Any]]:
    existing = [{"topic": topic, "partition": 0, "topic_czxid": czxid, "lifetime_ms": None} for topic in topics]
    table = aggregated(
        pa.Table.from_pylist(list(samples), schema=SAMPLES_SCHEMA),
        pa.Table.from_pylist(existing, schema=EXISTING_SCHEMA),
    )
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_bytes_in_are_records_appended_times_bytes_a_record() -> None:
    (one,) = rows_of(*(sample(day, 100 * day, size=100_000 * day) for day in range(1, 8)))
    assert (one["samples"], one["intervals"], one["measured_seconds"]) == (7, 6, 6 * 86_400.0)
    assert one["mean_bytes_in_per_second"] == pytest.approx(100_000 / 86_400)
    assert one["p95_bytes_in_per_second"] == pytest.approx(100_000 / 86_400)


def test_a_long_interval_counts_for_more_than_a_short_one() -> None:
    at = [NOON, NOON + timedelta(days=10), NOON + timedelta(days=10, hours=1)]
    samples = [
        sample(0, end, size=end, observed_at=when) for when, end in zip(at, (10, 864_010, 1_864_010), strict=True)
    ]
    (one,) = rows_of(*samples)
    assert one["p95_bytes_in_per_second"] == pytest.approx(1.0)


def test_other_creations_fallen_offsets_and_strange_topics_do_not_count() -> None:
    found = rows_of(
        sample(0, 10),
        sample(1, 5),
        sample(2, 20, topic_czxid=6),
        sample(3, 20, topic="gone"),
        sample(4, 25, size_bytes=None),
        topics=("orders", "silent"),
    )
    (one,) = found
    assert (one["topic"], one["samples"], one["intervals"], one["p95_bytes_in_per_second"]) == ("orders", 2, 0, None)


def test_samples_of_before_a_migration_off_zookeeper_still_count() -> None:
    """The topic stays. Only its czxid is not known any more."""
    after = [sample(day, 100 * day, topic_czxid=None) for day in range(4, 8)]
    (one,) = rows_of(*(sample(day, 100 * day) for day in range(1, 4)), *after, czxid=None)
    assert (one["samples"], one["intervals"]) == (7, 6)


def test_no_sample_gives_no_row() -> None:
    assert rows_of() == []
    assert rows_of(topics=()) == []
