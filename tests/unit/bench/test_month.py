"""What happens to the simulated cluster in thirty nights: the plans are judged by it, so it must be possible."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from bench.clusters import LARGEST_SHARE, make_cluster
from bench.month import FILLED_IN_DAYS, NIGHTS, SIZE, SPREAD_A_DAY, TREND_A_DAY, Month


@pytest.fixture(scope="module")
def nights() -> list[list[dict[str, Any]]]:
    """The partitions of each night, as no plan moves them."""
    made = make_cluster(SIZE, "skew", 7528)
    month = Month(np.random.default_rng([7528, NIGHTS]), made.brokers, made.partitions)
    found = []
    for number in range(1, NIGHTS + 1):
        month.day(number)
        found.append([dict(row) for row in month.partitions])
    return found


@pytest.mark.slow
def test_a_topic_that_fills_keeps_more_each_night_and_receives_as_much_as_before(
    nights: list[list[dict[str, Any]]],
) -> None:
    first = by_topic(nights[0])
    arrived = {topic: number for number, rows in reversed([*enumerate(nights)]) for topic in by_topic(rows)}
    young = {topic: number for topic, number in arrived.items() if topic not in first and number < NIGHTS - 10}
    kept, receives = [], []
    for topic, number in young.items():
        then, full = by_topic(nights[number])[topic], by_topic(nights[number + FILLED_IN_DAYS - 1])[topic]
        kept.append(np.log(full[0] / then[0]))
        receives.append(np.log(full[1] / then[1]))
    drift = 4 * (SPREAD_A_DAY + TREND_A_DAY * FILLED_IN_DAYS) / np.sqrt(len(young)) * np.sqrt(FILLED_IN_DAYS)
    assert len(young) > 10
    assert np.mean(receives) == pytest.approx(0.0, abs=drift)
    assert np.mean(kept) == pytest.approx(np.log(FILLED_IN_DAYS), abs=drift)


def test_no_partition_is_larger_or_busier_than_in_a_cluster_of_the_benchmarks(
    nights: list[list[dict[str, Any]]],
) -> None:
    for rows in nights:
        for column in ("size_bytes", "bytes_in_per_second"):
            values = np.array([row[column] for row in rows], dtype=np.float64)
            mean = sum(value * len(row["replicas"]) for value, row in zip(values, rows, strict=True)) / SIZE.brokers
            # The cap is of the night before, so a day's growth is beyond it.
            assert values.max() <= 1.1 * LARGEST_SHARE * mean, column


def by_topic(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """{topic: (bytes kept, bytes in per second)}"""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        found[row["topic"]][0] += row["size_bytes"]
        found[row["topic"]][1] += row["bytes_in_per_second"]
    return {topic: (kept, receives) for topic, (kept, receives) in found.items()}
