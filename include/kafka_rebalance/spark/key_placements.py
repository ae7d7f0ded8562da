"""In which partition records lie, and where murmur2 puts them with other numbers of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from kafka_rebalance.spark.murmur2 import hash_keys, partitions_of

_SUMS = "found array<long>, without_key long, foreign long, murmur2 array<array<long>>, moved array<long>"
_LONGS = pa.list_(pa.int64())
_ARROW = pa.schema(
    [
        ("found", _LONGS),
        ("without_key", pa.int64()),
        ("foreign", pa.int64()),
        ("murmur2", pa.list_(_LONGS)),
        ("moved", _LONGS),
    ]
)


class Placements:
    """Sums of rows, as `KeySample` names them; `murmur2` and `moved` have one entry for each of `counts`."""

    def __init__(self, partitions: int, counts: Sequence[int]) -> None:
        self.counts = tuple(counts)
        self.found = np.zeros(partitions, np.int64)
        self.without_key = 0
        self.foreign = 0
        self.murmur2 = [np.zeros(count, np.int64) for count in self.counts]
        self.moved = np.zeros(len(self.counts), np.int64)

    def add(self, keys: pa.Array, partitions: NDArray[np.int32], rows: NDArray[np.int64]) -> None:
        """Adds groups of rows: each with the key they share, or null, and the partition they lie in."""
        # As floats, rows are weights that numpy adds up without picking them out; exact up to 2**53.
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
        """Adds what `to_batch` gave, as a row of Spark."""
        self.found += np.array(sums["found"], np.int64)
        self.without_key += sums["without_key"]
        self.foreign += sums["foreign"]
        for index, rows in enumerate(sums["murmur2"]):
            self.murmur2[index] += np.array(rows, np.int64)
        self.moved += np.array(sums["moved"], np.int64)

    def to_batch(self) -> pa.RecordBatch:
        """One row."""
        sums = {
            "found": self.found.tolist(),
            "without_key": self.without_key,
            "foreign": self.foreign,
            "murmur2": [rows.tolist() for rows in self.murmur2],
            "moved": self.moved.tolist(),
        }
        return pa.RecordBatch.from_pylist([sums], _ARROW)


def place(grouped: DataFrame, partitions: int, counts: Sequence[int]) -> Placements:
    """Of [key binary, partition int, rows long]. One row of sums comes back from each task."""

    def place_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sums = Placements(partitions, counts)
        for batch in batches:
            sums.add(batch.column(0), batch.column(1).to_numpy(), batch.column(2).to_numpy())
        yield sums.to_batch()

    total = Placements(partitions, counts)
    for row in grouped.select("key", "partition", "rows").mapInArrow(place_batches, _SUMS).collect():
        total.add_sums(row.asDict())
    return total


def _sum_by(partitions: NDArray[np.int32], weights: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.bincount(partitions, weights, count).astype(np.int64)
