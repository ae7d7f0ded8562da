"""In which partition records lie, and where murmur2 puts them with other numbers of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_rebalance.spark.murmur2 import hash_keys, partitions_of

_LONGS = pa.list_(pa.int64())
_SUMS = {
    "found": _LONGS,
    "without_key": pa.int64(),
    "foreign": pa.int64(),
    "murmur2": pa.list_(_LONGS),
    "moved": _LONGS,
}


class Placements:
    """The sums of `KeySample`. `murmur2` and `moved` have an entry for each number of partitions in `counts`."""

    def __init__(self, partitions: int, counts: Sequence[int]) -> None:
        self.counts = tuple(counts)
        self.found = np.zeros(partitions, np.int64)
        self.without_key = 0
        self.foreign = 0
        self.murmur2 = [np.zeros(count, np.int64) for count in self.counts]
        self.moved = np.zeros(len(self.counts), np.int64)

    def add(self, keys: pa.Array, partitions: NDArray[np.int32], rows: NDArray[np.int64]) -> None:
        """Adds groups of rows. A group has one key, or null, and one partition; `rows` is their number."""
        # numpy sums weights, which are floats; they are exact up to 2**53.
        weights = rows.astype(np.float64)
        self.found += _sum_by(partitions, weights, len(self.found))
        if keys.null_count:
            keyed = keys.is_valid().to_numpy(zero_copy_only=False)
            self.without_key += int(rows[~keyed].sum())
            keys, partitions, weights = keys.drop_null(), partitions[keyed], weights[keyed]
        hashes = hash_keys(keys)
        own = partitions_of(hashes, len(self.found))
        self.foreign += int(weights @ (own != partitions))
        for index, count in enumerate(self.counts):
            placed = partitions_of(hashes, count)
            self.murmur2[index] += _sum_by(placed, weights, count)
            self.moved[index] += int(weights @ (own != placed))

    def add_sums(self, sums: Mapping[str, Any]) -> None:
        self.found += np.array(sums["found"], np.int64)
        self.without_key += sums["without_key"]
        self.foreign += sums["foreign"]
        for index, rows in enumerate(sums["murmur2"]):
            self.murmur2[index] += np.array(rows, np.int64)
        self.moved += np.array(sums["moved"], np.int64)

    def to_batch(self) -> pa.RecordBatch:
        sums = {name: getattr(self, name) for name in _SUMS}
        return pa.RecordBatch.from_pylist([sums], pa.schema(_SUMS.items()))


def place(grouped: DataFrame, partitions: int, counts: Sequence[int]) -> Placements:
    """The sums of [key binary, partition int, rows long]. Each task returns one row of sums."""

    def place_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sums = Placements(partitions, counts)
        for batch in batches:
            sums.add(batch.column(0), batch.column(1).to_numpy(), batch.column(2).to_numpy())
        yield sums.to_batch()

    total = Placements(partitions, counts)
    for row in (
        grouped.select("key", "partition", "rows")
        .mapInArrow(place_batches, from_arrow_schema(pa.schema(_SUMS.items())))
        .collect()
    ):
        total.add_sums(row.asDict())
    return total


def _sum_by(partitions: NDArray[np.int32], weights: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.bincount(partitions, weights, count).astype(np.int64)
