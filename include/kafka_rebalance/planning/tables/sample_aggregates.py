"""The ledger's samples of one cluster, aggregated to one row a partition.

A Spark job does this in many tasks, and the nightly check in its own process. A cluster of 150,000 partitions has four
million samples in four weeks.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.topic_rates import PERCENTILE
from kafka_rebalance.planning.tables.checked_columns import one_array
from kafka_rebalance.planning.tables.history_table import HISTORY_SCHEMA, TIMES_READ
from kafka_rebalance.planning.tables.times_read import Commits, times_read
from kafka_rebalance.planning.tables.worst_hour import HOURLY_SCHEMA, hourly_columns

DAYS = 28  # four weeks have each weekday four times; older samples no longer describe the cluster


def aggregated(samples: pa.Table, existing: pa.Table) -> pa.Table:
    """HOURLY_SCHEMA's columns for the partitions that exist (EXISTING_SCHEMA) and have samples (SAMPLES_SCHEMA).

    An interval lies between two samples of one topic (of one creation, if that is known) whose offsets did not fall.
    Its bytes in are the appended records times the bytes of a record. These are size / (end offset - first offset), as
    at the end of the interval. Compaction and deleted records make this figure too small, never too large.

    The size of a tiered topic is that of the leader's disk, so the first offset there counts. A sample without it, as
    those of earlier versions, gives no figure.
    """
    sound = pc.and_(pc.is_valid(samples["topic"]), pc.is_valid(samples["partition"]))
    sound = pc.and_(sound, pc.fill_null(pc.greater_equal(samples["size_bytes"], 0), False))
    samples = samples.filter(sound)
    of = _rows_of(samples, existing)
    czxid, known_czxid = _numbers(samples["topic_czxid"]), _numbers(existing["topic_czxid"])
    same = np.isnan(czxid) | np.isnan(known_czxid[of]) | (czxid == known_czxid[of]) if len(existing) else of >= 0
    at = samples["observed_at"].cast(pa.int64()).to_numpy()
    end, start, size = (_numbers(samples[name]) for name in ("end_offset", "start_offset", "size_bytes"))
    local = _numbers(samples["local_start_offset"])
    if len(existing):
        start[(of >= 0) & _flags(existing["tiered"])[of]] = np.nan
    start = np.where(np.isnan(local), start, local)
    committed = Commits(*(_numbers(samples[f"committed_{name}"]) for name in Commits._fields))
    rows = np.flatnonzero((of >= 0) & same)
    rows = rows[np.lexsort((size[rows], start[rows], end[rows], at[rows], of[rows]))]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (np.diff(of[rows]) != 0) | (np.diff(at[rows]) != 0)
    rows = rows[first]  # two samples of one time count once
    committed = Commits(*(values[rows] for values in committed))
    return _figures(existing, of[rows], at[rows], end[rows], start[rows], size[rows], committed)


def _figures(
    existing: pa.Table, of: Ints, at: Ints, end: Floats, start: Floats, size: Floats, committed: Commits
) -> pa.Table:
    """All but the first are [sample], by partition and time; `of` is the row of `existing`."""
    begins = np.flatnonzero(np.r_[True, of[1:] != of[:-1]]) if len(of) else np.zeros(0, dtype=np.int64)
    ends = np.r_[begins[1:], len(of)] - 1 if len(begins) else begins
    follows = np.ones(len(of), dtype=bool)
    follows[begins] = False
    microseconds, records = np.diff(at, prepend=at[:1]), np.diff(end, prepend=end[:1])
    held = end - start
    with np.errstate(divide="ignore", invalid="ignore"):
        appended = np.where(records == 0, 0.0, np.round(records * size / np.where(held > 0, held, np.nan)))
    told = follows & (records >= 0) & ~np.isnan(appended) & (microseconds > 0)
    group = np.searchsorted(begins, np.arange(len(of)), side="right") - 1
    seconds = np.where(told, microseconds / 1e6, 0.0)
    intervals = np.bincount(group[told], minlength=len(begins))
    measured = np.bincount(group, seconds, len(begins))
    total = np.bincount(group[told], appended[told], len(begins))
    counts = np.bincount(group, minlength=len(begins))
    p95 = _percentile(group[told], appended[told] / np.maximum(seconds[told], 1e-9), seconds[told], len(begins))
    at_table = existing.take(pa.array(of[begins]))
    # Known if the samples reach back as far as the records do, and each interval since then has figures.
    oldest = at[ends] - 1000 * _numbers(at_table["lifetime_ms"])
    young = at > oldest[group]
    young_bytes = np.bincount(group[young & told], appended[young & told], len(begins))
    is_known = (at[begins] <= oldest) & (np.bincount(group[young & ~told], minlength=len(begins)) == 0)
    time = HISTORY_SCHEMA.field("first_at").type
    columns = {
        "topic": at_table["topic"],
        "partition": at_table["partition"],
        "samples": pa.array(counts),
        "first_at": pa.array(at[begins]).cast(time),
        "last_at": pa.array(at[ends]).cast(time),
        "first_size_bytes": pa.array(size[begins].astype(np.int64)),
        "last_size_bytes": pa.array(size[ends].astype(np.int64)),
        "mean_size_bytes": pa.array(np.bincount(group, size, len(begins)) / np.maximum(counts, 1)),
        "p95_size_bytes": pa.array(_percentile(group, size, np.ones(len(of)), len(begins))),
        "intervals": pa.array(intervals),
        "measured_seconds": pa.array(measured),
        "mean_bytes_in_per_second": pa.array(total / np.where(measured > 0, measured, 1.0), mask=measured <= 0),
        "p95_bytes_in_per_second": pa.array(p95, mask=intervals == 0),
        "lifetime_ms": at_table["lifetime_ms"],
        "lifetime_bytes": pa.array(young_bytes.astype(np.int64), mask=~is_known),
        TIMES_READ: times_read(group, told, seconds, records, committed, len(begins)),
    }
    columns |= hourly_columns(group[told], at[told], microseconds[told], appended[told], len(begins))
    return pa.table([columns[name] for name in HOURLY_SCHEMA.names], names=HOURLY_SCHEMA.names).cast(HOURLY_SCHEMA)


def _percentile(group: Ints, values: Floats, weights: Floats, groups: int) -> Floats:
    """[group] The exact percentile. Each value counts as often as its weight says; a long interval counts for more."""
    order = np.lexsort((values, group))
    group, values = group[order], values[order]
    times = np.maximum(1, np.round(weights[order])).astype(np.int64)
    many = np.bincount(group, times, groups).astype(np.int64)
    before = np.cumsum(many) - many
    upto = np.cumsum(times)
    position = np.maximum(many - 1, 0) * PERCENTILE
    low, high = np.floor(position), np.ceil(position)
    if not len(values):
        return np.zeros(groups)

    low_value, high_value = (
        values[np.minimum(np.searchsorted(upto, before + place, side="right"), len(values) - 1)]
        for place in (low, high)
    )
    result: Floats = low_value + (position - low) * (high_value - low_value)
    return result


def _rows_of(samples: pa.Table, existing: pa.Table) -> Ints:
    """[sample] The row of its partition in `existing`; -1: its partition does not exist."""
    topics = one_array(pc.unique(existing["topic"]))
    keys, known = (
        pc.add(pc.multiply(pc.index_in(table["topic"], value_set=topics).cast(pa.int64()), 2**31), table["partition"])
        for table in (samples, existing)
    )
    rows: Ints = pc.fill_null(pc.index_in(keys, value_set=one_array(known)), -1).to_numpy().astype(np.int64)
    return rows


def _flags(column: pa.ChunkedArray) -> Bools:
    """Null becomes False."""
    values: Bools = pc.fill_null(column, False).to_numpy().astype(bool)
    return values


def _numbers(column: pa.ChunkedArray) -> Floats:
    """As floats; null becomes NaN."""
    values: Floats = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy().copy()
    return values
