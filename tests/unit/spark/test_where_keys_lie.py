"""What the key forecast says of records whose partition no key chose: explicit ones, and those without a key.

The records lie where Kafka's own rule puts them; the sums and the forecast are the product's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_rebalance.documents.key_sample import KeySample, OffsetRange
from kafka_rebalance.kafka.partitioner import partition_for_key
from kafka_rebalance.spark.keys import Placements
from kafka_rebalance.topics.forecast import KeyForecast, Verdict, forecast_keys
from support.kafka.java.default_partitioner import DefaultPartitioner

BEFORE, AFTER = 6, 12
KEYS = [b"key-%d" % number for number in range(600)]


def placements(records: list[tuple[bytes | None, int]], rows: int = 10) -> Placements:
    """The sums of these records, each a key and its partition, `rows` times."""
    sums = Placements(BEFORE, (BEFORE, AFTER))
    keys, partitions = zip(*records, strict=True)
    sums.add(pa.array(keys, pa.binary()), np.array(partitions, np.int32), np.full(len(records), rows, np.int64))
    return sums


def forecast_of(sums: Placements) -> KeyForecast:
    found = [int(rows) for rows in sums.found]
    sample = KeySample(
        topic="orders",
        partitions=BEFORE,
        ranges=tuple(OffsetRange(partition, 0, rows) for partition, rows in enumerate(found)),
        not_before_ms=0,
        rows=sum(found),
        rows_without_key=sums.without_key,
        foreign_rows=sums.foreign,
        distinct_keys=len(KEYS),
        heaviest=(),
        oldest_ms=1,
        newest_ms=2,
        found_rows=tuple(found),
        murmur2_rows={count: tuple(map(int, rows)) for count, rows in zip(sums.counts, sums.murmur2, strict=True)},
        moved_rows=dict(zip(sums.counts, map(int, sums.moved), strict=True)),
    )
    return forecast_keys("orders", BEFORE, AFTER, sample)


def test_partitioner_explicit_partition_wins() -> None:
    """Seed 003, row 1: explicit partition wins."""
    producer = DefaultPartitioner(5)
    explicit = [(key, producer.partition(key, BEFORE, [0, 1], explicit=4)) for key in KEYS]
    sums = placements(explicit)
    assert sums.found.tolist() == [0, 0, 0, 0, 6000, 0], "the records count where they lie, whatever their keys"
    elsewhere = sum(partition_for_key(key, BEFORE) != 4 for key in KEYS)
    assert sums.foreign == 10 * elsewhere > 0
    told = forecast_of(sums)
    assert told.verdict is Verdict.OTHER_PARTITIONER, "where these records will lie is not foretold from their keys"
    assert "The forecast of rows does not apply" in told.text


@pytest.mark.parametrize(("available", "fullest"), [([4, 0, 2], 2.0), ([], 1.0)])
def test_partitioner_null_key_takes_turns_over_available_partitions(available: list[int], fullest: float) -> None:
    """Seed 003, row 2: null key: random start then +1, positive, modulo available partitions; none: modulo all."""
    producer = DefaultPartitioner(7)
    without_key: list[tuple[bytes | None, int]] = [
        (None, producer.partition(None, BEFORE, available)) for _ in range(len(KEYS))
    ]
    sums = placements(without_key)
    lies = set(available or range(BEFORE))
    assert sums.found.tolist() == [6000 // len(lies) if partition in lies else 0 for partition in range(BEFORE)]
    assert (sums.without_key, sums.foreign, sums.moved.tolist()) == (6000, 0, [0, 0])
    told = forecast_of(sums)
    assert told.verdict is Verdict.NO_KEYS
    assert told.skew_before == 1.0, "after the expansion they take turns over all partitions"
    assert told.chosen is not None
    assert (told.chosen.skew, told.chosen.moved_rows) == (1.0, 0.0)
    assert max(sums.found) * BEFORE / sums.found.sum() == fullest


def test_records_without_a_key_make_those_with_one_more_even() -> None:
    keyed: list[tuple[Any, int]] = [(key, partition_for_key(key, BEFORE)) for key in KEYS]
    turns = [(None, number % BEFORE) for number in range(len(KEYS))]
    alone, mixed = forecast_of(placements(keyed)), forecast_of(placements([*keyed, *turns]))
    assert alone.chosen is not None
    assert mixed.chosen is not None
    assert mixed.chosen.skew == pytest.approx((alone.chosen.skew + 1) / 2)
