"""How often groups read a partition, from the offsets that they had committed at each sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kafka_rebalance.admin.offsets import LocalStarts
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.history import EXISTING_SCHEMA, SAMPLES_SCHEMA, aggregated
from kafka_rebalance.run.ledger import metric_rows

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
Groups = Mapping[str, int] | None  # the offset of each; None: they could not be read
NIGHTS = 7


def samples(groups: Sequence[Groups], partition: int = 0, first_night: int = 0) -> list[dict[str, Any]]:
    """A sample a night, with 100 records more each, as a snapshot writes it."""
    found = []
    for night, committed in enumerate(groups, first_night):
        tp = TopicPartition("orders", partition)
        row = {"topic": "orders", "partition": partition, "size_bytes": 1000 * (night + 1), "topic_czxid": 7}
        taken = SimpleNamespace(
            partitions=[row],
            end_offsets={tp: 100 * (night + 1)},
            start_offsets={tp: 0},
            local_starts=LocalStarts(),
            committed=None if committed is None else {tp: committed},
        )
        (metric,) = metric_rows(taken)  # type: ignore[arg-type]
        found.append({"observed_at": NOON + timedelta(days=night), **metric})
    return found


def times_read(rows: list[dict[str, Any]], partitions: int = 1) -> list[float | None]:
    existing = [{"topic": "orders", "partition": number, "topic_czxid": 7} for number in range(partitions)]
    table = aggregated(
        pa.Table.from_pylist(rows, schema=SAMPLES_SCHEMA), pa.Table.from_pylist(existing, schema=EXISTING_SCHEMA)
    )
    found: list[float | None] = table["times_read"].to_pylist()
    return found


def at_the_end(night: int, **groups: int) -> dict[str, int]:
    """Each group is so many records behind the end."""
    return {name: 100 * (night + 1) - behind for name, behind in groups.items()}


def test_each_group_that_keeps_up_reads_every_record_once() -> None:
    two = [at_the_end(night, billing=0, audit=7) for night in range(NIGHTS)]
    assert times_read(samples(two)) == [2.0]
    half = [{"billing": 50 * night} for night in range(NIGHTS)]
    assert times_read(samples(half)) == [0.5]


def test_a_partition_without_a_group_and_one_whose_group_stands_still_are_read_zero_times() -> None:
    rows = samples([{}] * NIGHTS) + samples([{"gone": 12}] * NIGHTS, 1)
    assert times_read(rows, 2) == [0.0, 0.0]


def test_a_group_that_is_new_or_gone_gives_no_figure_of_its_first_and_last_interval() -> None:
    """The new one has already a million records behind it: as a delta, it would be giant."""
    nights: list[Groups] = [at_the_end(night, billing=0) for night in range(4)]
    nights += [at_the_end(night, billing=0) | {"mirror": 1_000_000 + 100 * night} for night in range(4, 8)]
    assert times_read(samples(nights)) == [pytest.approx((3 * 1 + 3 * 2) / 6)]
    nights += [at_the_end(night, billing=0) for night in range(8, 12)]
    assert times_read(samples(nights)) == [pytest.approx((3 * 1 + 3 * 2 + 3 * 1) / 9)]
    swapped = [at_the_end(night, **{"even" if night % 2 else "odd": 0}) for night in range(20)]
    assert times_read(samples(swapped)) == [None], "as many, but never the same"


def test_an_interval_in_which_a_group_is_set_back_or_the_log_cut_does_not_count() -> None:
    half = [{"billing": read} for read in (0, 50, 100, 0, 50, 100, 150)]
    assert times_read(samples(half)) == [0.5]
    cut = samples([{"billing": 50 * night} for night in range(NIGHTS)])
    for row in cut[3:]:
        row["end_offset"] -= 150
    assert times_read(cut) == [0.5]


def test_a_jump_over_a_large_backlog_counts_as_reading_everything_once() -> None:
    rows = samples([{"billing": 0}, *({"billing": 1_000_000 + 100 * night} for night in range(1, NIGHTS))])
    assert times_read(rows) == [1.0]


def test_samples_that_could_not_read_the_groups_are_no_zero() -> None:
    known: list[Groups] = [at_the_end(night, billing=0) for night in range(2 * NIGHTS)]
    some = [groups if night % 7 else None for night, groups in enumerate(known)]
    assert times_read(samples(some)) == [1.0]
    assert times_read(samples([None] * NIGHTS)) == [None]
    every_other = [groups if night % 2 else None for night, groups in enumerate(known)]
    assert times_read(samples(every_other)) == [None]


@pytest.mark.parametrize("nights", [5, 6])
def test_as_for_bytes_in_it_takes_five_intervals(nights: int) -> None:
    found = times_read(samples([at_the_end(night, billing=0) for night in range(nights)]))
    assert found == ([1.0] if nights == 6 else [None])


def test_partitions_that_are_added_have_figures_of_their_own() -> None:
    old = samples([at_the_end(night, billing=0, audit=0) for night in range(2 * NIGHTS)])
    new = samples([at_the_end(night, billing=0) for night in range(NIGHTS, 2 * NIGHTS)], 1, NIGHTS)
    newer = samples([at_the_end(night, billing=0) for night in range(11, 2 * NIGHTS)], 2, 11)
    assert times_read(old + new + newer, 3) == [2.0, 1.0, None]


def test_a_partition_that_nobody_writes_to_has_no_ratio() -> None:
    rows = samples([{"billing": 100 * night} for night in range(NIGHTS)])
    for row in rows:
        row["end_offset"] = 700
    assert times_read(rows) == [None]
