"""Sums of rows by partition, against adding them up one by one, however the groups are dealt to tasks and batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.kafka.partitioner import partition_for_key
from kafka_rebalance.spark.keys import Placements

PARTITIONS, COUNTS = 4, (4, 6, 9)
a_group = st.tuples(st.none() | st.binary(max_size=12), st.integers(0, PARTITIONS - 1), st.integers(1, 10**12))


def add(sums: Placements, groups: list[tuple[bytes | None, int, int]]) -> None:
    keys, partitions, rows = ([group[column] for group in groups] for column in range(3))
    sums.add(pa.array(keys, pa.binary()), np.array(partitions, np.int32), np.array(rows, np.int64))


@settings(deadline=None)
@given(st.lists(st.lists(st.lists(a_group, max_size=50), max_size=3), max_size=3))
def test_sums_are_those_of_adding_up_group_by_group(tasks: list[list[list[tuple[bytes | None, int, int]]]]) -> None:
    total = Placements(PARTITIONS, COUNTS)
    for batches in tasks:
        of_task = Placements(PARTITIONS, COUNTS)
        for batch in batches:
            add(of_task, batch)
        (row,) = of_task.to_batch().to_pylist()
        total.add_sums(row)
    groups = [group for batches in tasks for batch in batches for group in batch]
    keyed = [(key, partition, rows) for key, partition, rows in groups if key is not None]
    placed = {count: [partition_for_key(key, count) for key, _, _ in keyed] for count in COUNTS}
    rows_of = [rows for _, _, rows in keyed]
    assert total.found.tolist() == [sum(rows for _, at, rows in groups if at == p) for p in range(PARTITIONS)]
    assert total.without_key == sum(rows for key, _, rows in groups if key is None)
    assert total.foreign == sum(rows for (_, at, rows), own in zip(keyed, placed[PARTITIONS], strict=True) if at != own)
    for index, count in enumerate(COUNTS):
        expected = [sum(r for r, at in zip(rows_of, placed[count], strict=True) if at == p) for p in range(count)]
        assert total.murmur2[index].tolist() == expected
        moved = zip(rows_of, placed[PARTITIONS], placed[count], strict=True)
        assert total.moved[index] == sum(rows for rows, own, now in moved if own != now)


def test_without_any_group_all_sums_are_zero() -> None:
    sums = Placements(2, (2, 3))
    sums.add_sums(Placements(2, (2, 3)).to_batch().to_pylist()[0])
    assert sums.to_batch().to_pylist() == [
        {"found": [0, 0], "without_key": 0, "foreign": 0, "murmur2": [[0, 0], [0, 0, 0]], "moved": [0, 0]}
    ]
