"""Samples of the ledger aggregated without Spark: bytes in of each partition that exists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from kafka_rebalance.planning.tables.history import EXISTING_SCHEMA, SAMPLES_SCHEMA, aggregated

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def sample(
    day: int, end: int, *, topic: str = "orders", size: int = 1000, start: int = 0, **more: Any
) -> dict[str, Any]:
    at = NOON + timedelta(days=day)
    row = {"observed_at": at, "topic": topic, "partition": 0, "size_bytes": size, "end_offset": end}
    return {**row, "start_offset": start, "topic_czxid": 7, **more}


def rows_of(
    *samples: dict[str, Any], topics: tuple[str, ...] = ("orders",), czxid: int | None = 7, tiered: bool | None = None
) -> list[dict[str, Any]]:
    existing = [{"topic": topic, "partition": 0, "topic_czxid": czxid, "tiered": tiered} for topic in topics]
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


def test_bytes_of_a_record_of_a_tiered_topic_are_those_on_disk_by_the_records_on_disk() -> None:
    """A record of 1,000 bytes a second; of 30 days, brokers keep one. By all offsets it would be 33 bytes a second."""
    days = [
        sample(day, 86_400 * (29 + day), size=86_400_000, local_start_offset=86_400 * (28 + day)) for day in range(1, 8)
    ]
    (one,) = rows_of(*days, tiered=True)
    assert one["intervals"] == 6
    assert one["mean_bytes_in_per_second"] == pytest.approx(1000)
    (one,) = rows_of(*days, tiered=None)
    assert one["p95_bytes_in_per_second"] == pytest.approx(1000), "it has one tier by now, and had two"


def test_a_sample_of_a_tiered_topic_that_does_not_know_what_is_on_disk_gives_no_figure() -> None:
    """A version that did not ask wrote it, or a broker did not tell."""
    days = [sample(day, 86_400 * (29 + day), size=86_400_000) for day in range(1, 8)]
    (one,) = rows_of(*days, tiered=True)
    assert (one["samples"], one["intervals"], one["mean_bytes_in_per_second"]) == (7, 0, None)
    known = [
        sample(day, 86_400 * (29 + day), size=86_400_000, local_start_offset=86_400 * (28 + day)) for day in (8, 9)
    ]
    (one,) = rows_of(*days, *known, tiered=True)
    assert (one["intervals"], one["mean_bytes_in_per_second"]) == (2, pytest.approx(1000))
    still = [sample(day, 86_400 * 30, size=86_400_000) for day in range(1, 8)]
    (one,) = rows_of(*still, tiered=True)
    assert (one["intervals"], one["mean_bytes_in_per_second"]) == (6, 0.0), "nothing was appended, of whatever size"


def test_no_sample_gives_no_row() -> None:
    assert rows_of() == []
    assert rows_of(topics=()) == []
