"""The ledger's samples, and the table `history` with one row a partition. Both ways to plan read its file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.documents.proposals import RatesLeftOut
from kafka_rebalance.documents.storage import Folder, read_if_there, write_whole
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem
from kafka_rebalance.planning.problem.bytes_per_partition import (
    HOURS,
    MIN_INTERVALS,
    MIN_SECONDS,
    MIN_WEEKS,
    MONDAY,
    PERCENTILE,
    History,
    Retention,
    TopicRates,
    with_history,
)
from kafka_rebalance.planning.tables.parquet_files import (
    LARGEST_AMOUNT,
    Columns,
    one_array,
    parquet_bytes,
    parquet_table,
    read_parquet,
    write_table,
)
from kafka_rebalance.planning.tables.read_problem import PARTITIONS

HISTORY = "history"  # the folder, beside moves and scores
TIMES_READ = "times_read"
_TIME = pa.timestamp("us", tz="UTC")
# Each snapshot writes one sample of each partition to the ledger's table `metrics`.
SAMPLES_SCHEMA = pa.schema(
    [
        ("observed_at", _TIME),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("size_bytes", pa.int64()),
        ("end_offset", pa.int64()),
        ("bytes_in_per_second", pa.float64()),
        ("start_offset", pa.int64()),  # files of the first runs lack this column and the next
        ("topic_czxid", pa.int64()),
        # Of all consumer groups; files of earlier runs lack these columns. Null: they could not be read.
        ("committed_offsets", pa.int64()),  # the sum
        ("committed_groups", pa.int32()),
        ("committed_digest", pa.int64()),  # 48 bits of the digest of their names
        # Of tiered topics: the first record on the leader's disk, to which `size_bytes` belongs.
        ("local_start_offset", pa.int64()),
    ]
)
HISTORY_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        ("samples", pa.int64()),
        ("first_at", _TIME),
        ("last_at", _TIME),
        ("first_size_bytes", pa.int64()),
        ("last_size_bytes", pa.int64()),
        ("mean_size_bytes", pa.float64()),
        ("p95_size_bytes", pa.float64()),
        ("intervals", pa.int64()),
        ("measured_seconds", pa.float64()),
        ("mean_bytes_in_per_second", pa.float64()),
        ("p95_bytes_in_per_second", pa.float64()),
        ("lifetime_ms", pa.int64()),
        ("lifetime_bytes", pa.int64()),
        (TIMES_READ, pa.float64()),  # how often groups read each record; no row with a value: no such column
    ]
)
# Further columns, if the samples tell the hours of the week apart. `tables.worst_hour` says which hour it is.
WORST_HOUR_SCHEMA = pa.schema(
    [
        ("worst_hour", pa.int32()),  # 0 begins on Monday at 00:00 UTC; the same in all rows; null: not measured
        ("worst_hour_bytes_in_per_second", pa.float64()),
        ("weeks", pa.float64()),  # for which every hour of the week was measured
        ("samples_an_hour", pa.int64()),  # the least of any hour of the week
    ]
)
# The part of the snapshot for Spark: the partitions, and for how long their records count.
EXISTING_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_czxid", pa.int64()),
        ("lifetime_ms", pa.int64()),
        ("tiered", pa.bool_()),  # null as false
    ]
)
_FILES, _UNREADABLE = b"files", b"unreadable"


def _read_retention(snapshot_folder: Folder) -> Retention:
    """The columns of the table `partitions` that `read_problem` does not read, in the problem's order."""
    columns, order = _partitions(snapshot_folder)
    policies = columns.texts("cleanup_policy")
    return Retention(
        bytes_in_known=columns.amounts("bytes_in_per_second")[1][order],
        compacts=np.array(["compact" in (policy or "") for policy in policies], dtype=bool)[order],
        retention_ms=columns.amounts("retention_ms")[0][order],
        segment_bytes=columns.amounts("segment_bytes")[0][order],
    )


def _partitions(snapshot_folder: Folder) -> tuple[Columns, Ints]:
    """The table `partitions`, and the order of its rows in a problem."""
    where = f"{snapshot_folder}/{PARTITIONS}"
    columns = Columns(parquet_table(read_parquet(snapshot_folder, PARTITIONS), where), where)
    return columns, np.lexsort((columns.integers("partition"), columns.names("topic")[1]))


def existing_partitions(problem: Problem, snapshot_folder: Folder) -> pa.Table:
    """The snapshot's partitions in the columns of EXISTING_SCHEMA."""
    columns, order = _partitions(snapshot_folder)
    lifetime = _read_retention(snapshot_folder).lifetimes_ms(problem)
    czxid = columns.optional_integers("topic_czxid").take(pa.array(order))
    return pa.table(
        [
            pa.array(problem.topics, pa.string()).take(pa.array(problem.topic)),
            pa.array(problem.partition.astype(np.int32)),
            czxid,
            pa.array(lifetime, mask=lifetime < 0),
            pa.array(columns.flags("tiered")[order]),
        ],
        schema=EXISTING_SCHEMA,
    )


def write_history(folder: Folder, table: pa.Table, files: int, unreadable: Sequence[str]) -> bytes:
    """Writes `history/part-0.parquet`, rows by topic and partition; returns its bytes. Same rows, same bytes.

    `files` is the number of the ledger's files that gave samples; `unreadable` names the files that gave none.
    """
    hours = WORST_HOUR_SCHEMA if "worst_hour" in table.column_names else ()
    schema = pa.schema([*HISTORY_SCHEMA, *hours])
    rows = table.select(schema.names).cast(schema)
    if rows[TIMES_READ].null_count == len(rows):  # so that it changes no digest of a plan without it
        rows = rows.drop_columns(TIMES_READ)
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    return write_table(folder / HISTORY, _with_sources(rows, files, unreadable))


def _with_sources(rows: pa.Table, files: int, unreadable: Sequence[str]) -> pa.Table:
    return rows.replace_schema_metadata({_FILES: str(files), _UNREADABLE: json.dumps(sorted(unreadable))})


def read_history(content: bytes, where: str) -> History:
    """The history in a file. Raises ArtifactError, which names the file and the wrong column."""
    table = parquet_table(content, where)
    columns = Columns(table, where)
    try:
        metadata = table.schema.metadata or {}
        files, unreadable = int(metadata[_FILES]), tuple(map(str, json.loads(metadata[_UNREADABLE])))
    except (KeyError, TypeError, ValueError) as wrong:
        raise ArtifactError(
            f"{where} does not name its source files ({wrong!r}). Nothing was planned. Let a Spark job with --metrics "
            "write it again."
        ) from wrong
    topics, topic = columns.names("topic")
    partition = columns.integers("partition")
    columns.check_keys(topic, partition)
    lifetime_bytes, lifetime_known = columns.amounts("lifetime_bytes", required=True)
    times_read, times_read_known = columns.amounts(TIMES_READ)
    hour, in_hour = columns.amounts("worst_hour")
    if len(hours := np.unique(hour[in_hour])) > 1 or (hours >= HOURS).any():
        raise ArtifactError(
            f"{where} names {len(hours)} worst hours, or one that is none of the week. Nothing was planned. Let a "
            "Spark job with --metrics write it again."
        )
    return History(
        digest=digest_of_bytes(content),
        files=files,
        unreadable=unreadable,
        topics=topics,
        topic=topic,
        partition=partition,
        first_at=columns.times("first_at"),
        last_at=columns.times("last_at"),
        first_size_bytes=columns.amounts("first_size_bytes", required=True)[0],
        last_size_bytes=columns.amounts("last_size_bytes", required=True)[0],
        intervals=columns.integers("intervals"),
        measured_seconds=columns.amounts("measured_seconds", required=True)[0],
        bytes_in=columns.amounts("p95_bytes_in_per_second", required=True)[0],
        lifetime_ms=columns.amounts("lifetime_ms", required=True)[0],
        lifetime_bytes=lifetime_bytes,
        lifetime_known=lifetime_known,
        times_read=times_read,
        times_read_known=times_read_known,
        worst_hour=int(hours[0]) if len(hours) else None,
        in_worst_hour=in_hour,
        worst_hour_bytes_in=columns.amounts("worst_hour_bytes_in_per_second")[0],
        weeks=columns.amounts("weeks")[0],
        samples_an_hour=columns.amounts("samples_an_hour")[0],
    )


def planned_with(problem: Problem, snapshot_folder: Folder, content: bytes | None, where: str) -> Problem:
    """With a history's file, and with what a metrics server gave the snapshot. The same problem if there is neither."""
    server = read_topic_rates(snapshot_folder)
    if content is None:
        if server is None:
            return problem
        content = parquet_bytes(_with_sources(HISTORY_SCHEMA.empty_table(), 0, ()))
    return with_history(problem, _read_retention(snapshot_folder), read_history(content, where), server)


# The worst hour: the hour of the week, in UTC, in which all partitions together receive most bytes.
#
# Loads of one moment can be compared. The sum of each partition's own peak, of whichever hour, never happens.
# Sums are whole bytes a second, so that they are the same in whatever order Spark's tasks add them.


# A longer interval does not say in which hour its records came. A missed sample makes two hours of one.
LONGEST_HOURS = 2

HOURLY = "hourly_bytes_in_per_second"
HOURLY_SCHEMA = pa.schema(
    [
        *HISTORY_SCHEMA,
        *(WORST_HOUR_SCHEMA.field(name) for name in ("weeks", "samples_an_hour")),
        (HOURLY, pa.list_(pa.float64())),  # [hour of the week]; null: not every hour was measured for MIN_WEEKS
    ]
)

_FEWEST_INTERVALS = MIN_WEEKS * HOURS // LONGEST_HOURS  # with less, some hour is not known for MIN_WEEKS
_GROUPS_AT_ONCE = 4096
_HOUR_US = 3_600_000_000


def _hourly_columns(group: Ints, ends_at: Ints, length: Ints, appended: Floats, groups: int) -> dict[str, pa.Array]:
    """What HOURLY_SCHEMA adds to HISTORY_SCHEMA, one row for each of `groups`.

    All others are [interval], by group: its group, its end and length in microseconds, and the bytes appended in it.
    These are spread evenly over the interval. `weeks` and `samples_an_hour` are those of the hour that has least; 0 for
    a group with too few intervals to know all hours.
    """
    short = length <= LONGEST_HOURS * _HOUR_US
    short &= (np.bincount(group[short], minlength=groups) >= _FEWEST_INTERVALS)[group]
    which, group = np.unique(group[short], return_inverse=True)
    ends_at, length, appended = ends_at[short], length[short], appended[short]
    weeks, samples, known = np.zeros(groups), np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=bool)
    rates = [np.zeros(0)]
    for first in range(0, len(which), _GROUPS_AT_ONCE):  # all at once would take 4 kB for each
        of = which[first : first + _GROUPS_AT_ONCE]
        rows = slice(*np.searchsorted(group, (first, first + len(of))))
        taken, measured, counts = _by_hour(group[rows] - first, ends_at[rows], length[rows], appended[rows], len(of))
        least = measured.min(axis=1)
        weeks[of], samples[of], known[of] = least / _HOUR_US, counts.min(axis=1), least >= MIN_WEEKS * _HOUR_US
        rates.append((taken[known[of]] * 1e6 / measured[known[of]]).ravel())
    return {
        "weeks": pa.array(weeks),
        "samples_an_hour": pa.array(samples),
        HOURLY: _lists(np.concatenate(rates), known),
    }


def _by_hour(group: Ints, ends_at: Ints, length: Ints, appended: Floats, groups: int) -> tuple[Floats, Ints, Ints]:
    """[group, hour of the week] (bytes, microseconds, intervals)."""
    begins_at, cells = ends_at - length, groups * HOURS
    taken, measured = np.zeros(cells), np.zeros(cells, dtype=np.int64)
    intervals = np.zeros(cells, dtype=np.int64)
    for later in range(LONGEST_HOURS + 1):
        hour = begins_at // _HOUR_US + later
        inside = np.minimum(ends_at, (hour + 1) * _HOUR_US) - np.maximum(begins_at, hour * _HOUR_US)
        held = inside > 0
        cell = (group * HOURS + (hour + MONDAY) % HOURS)[held]
        taken += np.bincount(cell, (appended * inside / np.maximum(length, 1))[held], cells)
        measured += np.bincount(cell, inside[held], cells).astype(np.int64)  # below 2**53, so exact
        intervals += np.bincount(cell, minlength=cells)
    shape = groups, HOURS
    return taken.reshape(shape), measured.reshape(shape), intervals.reshape(shape)


def _lists(values: Floats, known: Bools) -> pa.Array:
    """[row] The next HOURS values where known, else null."""
    offsets = np.r_[0, np.cumsum(known) * HOURS].astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=pa.array(~known))


def hour_totals(rows: pa.Table, elsewhere: Collection[str] = ()) -> Ints | None:
    """[hour of the week] Bytes a second of all rows with rates by hour, without the topics `elsewhere`.

    None if there is no such row.
    """
    if elsewhere:
        rows = rows.filter(pc.invert(pc.is_in(rows["topic"], value_set=pa.array(elsewhere, pa.string()))))
    values = pc.list_flatten(pc.drop_null(rows[HOURLY])).to_numpy()
    if not len(values):
        return None
    totals: Ints = np.rint(values.reshape(-1, HOURS)).astype(np.int64).sum(axis=0)
    return totals


def worst_hour(totals: Iterable[Ints]) -> int | None:
    """The hour with the largest sum, the first of equal ones; None without totals."""
    known = list(totals)
    return int(np.sum(known, axis=0).argmax()) if known else None


def in_worst_hour(rows: pa.Table, server: TopicRates | None = None) -> pa.Table:
    """HISTORY_SCHEMA's columns of HOURLY_SCHEMA's; and WORST_HOUR_SCHEMA's, if samples or server tell hours apart.

    The hours of topics that a metrics server knows are the server's.
    """
    own = hour_totals(rows, () if server is None else server.topics_with_hours)
    totals = (own, None if server is None else server.hour_totals())
    return in_hour(rows, worst_hour(each for each in totals if each is not None))


def in_hour(rows: pa.Table, hour: int | None) -> pa.Table:
    """The same in a given hour."""
    if hour is None:
        return rows.select(HISTORY_SCHEMA.names)
    known = pc.is_valid(rows[HOURLY])
    rates = pc.list_element(pc.if_else(known, rows[HOURLY], None), hour)
    return (
        rows.drop_columns(HOURLY)
        .append_column("worst_hour", pc.if_else(known, pa.scalar(hour, pa.int32()), pa.scalar(None, pa.int32())))
        .append_column("worst_hour_bytes_in_per_second", rates)
        .select([*HISTORY_SCHEMA.names, *WORST_HOUR_SCHEMA.names])
    )


# `topic_rates.parquet` of a snapshot: the bytes in of whole topics, as a metrics server gave them, or why it did not.
#
# The file is there if the connection names a server. Then both ways to plan read it.


TOPIC_RATES = "topic_rates.parquet"
_HOURLY = "hourly_bytes_in_per_second"
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        ("hours", pa.int64()),  # with a rate
        ("first_at", _TIME),  # begin of the first of them
        ("last_at", _TIME),  # end of the last
        ("p95_bytes_in_per_second", pa.float64()),
        ("weeks", pa.int64()),  # the least of any hour of the week
        (_HOURLY, pa.list_(pa.float64())),  # [hour of the week] means; null: not each was measured for MIN_WEEKS
    ]
)
_LEFT_OUT, _PROBLEM = b"left_out", b"problem"


@dataclass(frozen=True, slots=True, eq=False)
class HourlyRates:
    """What a server gave."""

    topics: tuple[str, ...]  # sorted; each has a rate
    first_hour: int  # hours since 1970
    rates: Floats  # [topic, hour] bytes a second; NaN: none
    left_out: RatesLeftOut


def write_topic_rates(snapshot_folder: Folder, found: HourlyRates) -> None:
    """Same rates, same bytes."""
    count = (~np.isnan(found.rates)).sum(axis=1)
    first = np.argmax(~np.isnan(found.rates), axis=1)
    last = found.rates.shape[1] - np.argmax(~np.isnan(found.rates[:, ::-1]), axis=1)
    week = (found.first_hour + MONDAY + np.arange(found.rates.shape[1])) % HOURS
    by_hour = [found.rates[:, week == hour] for hour in range(HOURS)]
    weeks = np.stack([(~np.isnan(rates)).sum(axis=1) for rates in by_hour], axis=1).min(axis=1)
    known = weeks >= MIN_WEEKS
    means = np.stack([np.nanmean(rates[known], axis=1) for rates in by_hour], axis=1)
    offsets = np.r_[0, np.cumsum(known) * HOURS].astype(np.int32)
    p95 = np.nanquantile(found.rates, PERCENTILE, axis=1) if len(count) else np.zeros(0)
    columns = [
        pa.array(found.topics, pa.string()),
        pa.array(count),
        *(pa.array((found.first_hour + at) * _HOUR_US).cast(_TIME) for at in (first, last)),
        pa.array(p95),
        pa.array(weeks),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(means.ravel()), mask=pa.array(~known)),
    ]
    _write(snapshot_folder, pa.table(columns, schema=_SCHEMA), found.left_out, None)


def write_unread(snapshot_folder: Folder, problem: str) -> None:
    """`problem`: why the server could not be read."""
    _write(snapshot_folder, _SCHEMA.empty_table(), RatesLeftOut(), problem)


def _write(folder: Folder, table: pa.Table, left_out: RatesLeftOut, problem: str | None) -> None:
    metadata = {_LEFT_OUT: json.dumps(asdict(left_out)), _PROBLEM: json.dumps(problem)}
    write_whole(folder / TOPIC_RATES, parquet_bytes(table.replace_schema_metadata(metadata)))


def read_topic_rates(snapshot_folder: Folder) -> TopicRates | None:
    """None if there is no such file. Raises ArtifactError, which names the file and the wrong column."""
    content, where = read_if_there(snapshot_folder / TOPIC_RATES), f"{snapshot_folder}/{TOPIC_RATES}"
    if content is None:
        return None
    table = parquet_table(content, where)
    columns, metadata = Columns(table, where), table.schema.metadata or {}
    topics, topic = columns.names("topic")
    columns.check_keys(topic)
    try:
        problem, left_out = json.loads(metadata[_PROBLEM]), json.loads(metadata[_LEFT_OUT])
        knows_hours = pc.list_value_length(table[_HOURLY]).fill_null(0).to_numpy() == HOURS
        by_hour = np.zeros((len(table), HOURS))
        by_hour[knows_hours] = pc.list_flatten(table[_HOURLY]).to_numpy().reshape(-1, HOURS)
        if not ((by_hour >= 0) & (by_hour <= LARGEST_AMOUNT)).all():
            raise ValueError("a rate that is none")
    except (KeyError, ValueError, pa.ArrowException) as wrong:
        raise ArtifactError(
            f"{where} is not what a snapshot writes ({type(wrong).__name__}). Nothing was planned. Start a new Dag run."
        ) from wrong
    order = np.argsort(topic)
    return TopicRates(
        digest=digest_of_bytes(content),
        problem=None if problem is None else str(problem),
        left_out=decode(RatesLeftOut, left_out, where),
        topics=topics,
        hours=columns.integers("hours")[order],
        first_at=columns.times("first_at")[order],
        last_at=columns.times("last_at")[order],
        p95=columns.amounts("p95_bytes_in_per_second", required=True)[0][order],
        by_hour=by_hour[order],
        knows_hours=knows_hours[order],
        weeks=columns.amounts("weeks", required=True)[0][order],
    )


# The ledger's samples of one cluster, aggregated to one row a partition.
#
# A Spark job does this in many tasks, and the nightly check in its own process. A cluster of 150,000 partitions has
# four million samples in four weeks.


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
    columns |= _hourly_columns(group[told], at[told], microseconds[told], appended[told], len(begins))
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


# How often consumer groups read each record of a partition, as the offsets tell that they commit.


class Commits(NamedTuple):
    """[sample] What groups have committed: columns of SAMPLES_SCHEMA without `committed_`. NaN: not measured."""

    offsets: Floats
    groups: Floats
    digest: Floats  # below 2**48, so exact


def times_read(
    partition: Ints, told: Bools, seconds: Floats, records: Floats, committed: Commits, partitions: int
) -> pa.Array:
    """[partition] Records by which the groups went forward, over records appended; null: not measured.

    The others are [sample], by partition and time: the interval that ends with it, whether that interval counts, and
    the records appended in it. Of these intervals count those between samples of the same groups, whose sum did not
    fall: a group that is new, gone or set back gives no figure. At most each group counts as reading every record
    once. More is a backlog, which ends, or a jump over records that nobody read.
    """
    forward = np.diff(committed.offsets, prepend=np.nan)
    same = told & (np.diff(committed.digest, prepend=np.nan) == 0) & (forward >= 0)
    of = partition[same]
    read, appended, most, measured, intervals = (
        np.bincount(of, values, partitions)
        for values in (
            forward[same],
            records[same],
            records[same] * committed.groups[same],
            seconds[same],
            np.ones(len(of)),
        )
    )
    is_known = (intervals >= MIN_INTERVALS) & (measured >= MIN_SECONDS) & (appended > 0)
    return pa.array(np.minimum(read, most) / np.where(is_known, appended, 1.0), mask=~is_known)
