"""Bytes in and out of partitions: from the ledger's samples, or from a metrics server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from kafka_rebalance.documents.proposals import (
    HistoryUsed,
    MetricsServerUsed,
    RatesFrom,
    RatesLeftOut,
    ReadByGroups,
    WorstHour,
)
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, Rates, replication

# What the ledger's samples say about a snapshot's partitions: bytes in and out, and what retention will delete.
#
# `spark.job` and `tables.history` aggregate the samples to one row per partition. This module puts them
# into the problem, and counts for people what was measured, what was estimated, and how old it is.


# With less, a 95th percentile may be chance. The samples have to cover a day, with its night and noon.
MIN_INTERVALS, MIN_SECONDS = 5, 86_400.0
TOPICS_NAMED, FILES_NAMED = 50, 5

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The aggregate: one row for each partition with samples. Times are microseconds since 1970."""

    digest: str  # SHA-256 of its file
    files: int  # of the ledger with samples, one for each snapshot
    unreadable: tuple[str, ...]  # names of files without samples
    topics: tuple[str, ...]
    topic: Ints  # [row] index into topics
    partition: Ints
    first_at: Ints
    last_at: Ints
    first_size_bytes: Floats
    last_size_bytes: Floats
    intervals: Ints  # between two samples that show what was appended
    measured_seconds: Floats  # of all intervals together
    bytes_in: Floats  # 95th percentile, bytes a second; 0 without an interval
    lifetime_ms: Floats  # 0: the aggregation knew no time limit
    lifetime_bytes: Floats  # appended within `lifetime_ms` before the last sample
    lifetime_known: Bools
    times_read: Floats  # how often groups read each record
    times_read_known: Bools
    worst_hour: int | None  # of the week in UTC, 0 from Monday 00:00; None: the samples do not tell hours apart
    in_worst_hour: Bools  # its bytes in of this hour are known
    worst_hour_bytes_in: Floats  # the mean of all weeks, bytes a second
    weeks: Floats  # for which every hour of the week was measured
    samples_an_hour: Floats  # the least of any hour of the week


@dataclass(frozen=True, slots=True, eq=False)
class Retention:
    """Columns of the snapshot that only history needs, in the order of the problem's rows."""

    bytes_in_known: Bools  # from the snapshot itself
    compacts: Bools  # compaction deletes records too, of any age
    retention_ms: Floats  # 0: without end, or unknown
    segment_bytes: Floats  # 0 where unknown

    def lifetimes_ms(self, problem: Problem) -> Ints:
        """[partition row] The greatest age of a record now, if it is to exist when a copy of its partition ends.

        This is the retention less the time of the copy at the whole throttle; -1 if nothing is known to expire by then.
        No copy ends sooner, so no more bytes count as deleted than will be.
        """
        throttle = problem.settings.throttle_bytes_per_second
        copying = problem.size_bytes / throttle * 1000.0 if throttle else 0.0
        left = np.floor(self.retention_ms - copying).astype(np.int64)
        return np.where((self.retention_ms > 0) & ~self.compacts & (self.segment_bytes > 0) & (left > 0), left, -1)


def with_history(problem: Problem, retention: Retention, history: History, server: TopicRates | None = None) -> Problem:
    """The problem with what history knows better than one snapshot, and an account of it in `history`.

    Bytes in of a topic are a metrics server's, spread over its partitions as the ledger or the sizes say. Of other
    topics they are the 95th percentile of at least MIN_INTERVALS over MIN_SECONDS, else the snapshot's, else estimated.
    With `even_at_worst_hour`, they are those of this hour, if samples or server tell hours apart; partitions without
    are estimated as others are. They stay unknown if they are unknown for all partitions. Bytes out to consumers are
    the bytes in times the times that groups read them, where that is measured, else once. Bytes to copy stay the
    snapshot's. The disk load to balance leaves out what retention will have deleted.
    """
    at = _rows_of(problem, history)
    enough = at >= 0
    enough[enough] &= (history.intervals[at[enough]] >= MIN_INTERVALS) & (
        history.measured_seconds[at[enough]] >= MIN_SECONDS
    )
    hour = _worst_hour(history, server) if problem.settings.even_at_worst_hour else None
    in_hour = at >= 0
    in_hour[in_hour] &= history.in_worst_hour[at[in_hour]]
    own = np.where(retention.bytes_in_known, problem.rates.bytes_in, 0.0)
    spread = own if server is None else _spread(problem, own, retention.bytes_in_known, history, at, enough)
    of_topic = _served(problem, server, hour, spread)
    measured = ~of_topic.rows & (enough if hour is None else in_hour)
    from_snapshot = retention.bytes_in_known & ~measured & ~of_topic.rows
    rates = of_topic.rates + np.where(from_snapshot, own, 0.0)
    rates[measured] = (history.bytes_in if hour is None else history.worst_hour_bytes_in)[at[measured]]
    known = measured | from_snapshot | of_topic.rows
    rates, by_topic, by_cluster = _estimated(problem, rates, known)
    bytes_out, groups = _read_by_groups(problem, history, at, rates if known.any() else None)
    growth, knows_growth = _growth(history, at)
    lasting = _lasting(problem, retention, history, at, enough)
    account = HistoryUsed(
        **_samples(problem, history, at),
        **_coverage(problem, measured, from_snapshot, by_topic, by_cluster),
        at_least=int((measured & retention.compacts).sum()),
        expiring_partitions=int((lasting < problem.size_bytes).sum()),
        expiring_bytes=int(((problem.size_bytes - lasting) * replication(problem.replicas)).sum()),
        worst_hour=_hour(hour, history, at[measured], of_topic.weeks) if problem.settings.even_at_worst_hour else None,
        groups=groups,
        metrics_server=None if server is None else _account_of(problem, server, of_topic),
    )
    return replace(
        problem,
        rates=Rates(
            rates,
            bytes_out,
            knows_in=bool(known.any()),
            knows_out=problem.rates.knows_out or groups is not None,
            lasting_bytes=lasting,
            growth_bytes_per_day=growth,
            knows_growth=knows_growth,
            history=account,
        ),
    )


def describe_history(problem: Problem) -> str:
    """One line on a problem's history."""
    account = problem.rates.history
    if account is None:
        return ""
    given, server = account.partitions, account.metrics_server
    of_server = "" if server is None else f"the metrics server gives those of {server.partitions:,} partitions; "
    return (
        f"history: {of_server}{account.samples:,} samples over {account.days} days give the bytes in of "
        f"{given.history:,} partitions, the snapshot those of {given.snapshot:,}; {given.topic + given.cluster:,} are "
        f"estimated; {account.unreadable_files:,} files have no sample"
    )


def _rows_of(problem: Problem, history: History) -> Ints:
    """[partition row] Its row in the history; -1: none."""
    number = {name: position for position, name in enumerate(problem.topics)}
    topic = np.array([number.get(name, -1) for name in history.topics], dtype=np.int64)[history.topic]
    rows = np.flatnonzero(topic >= 0)
    width = 1 + max(int(problem.partition.max(initial=0)), int(history.partition.max(initial=0)))
    keys = problem.topic * width + problem.partition  # ascending, as the problem's rows are
    wanted = topic[rows] * width + history.partition[rows]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = keys[place] == wanted
    at = np.full(len(keys), -1, dtype=np.int64)
    at[place[found]] = rows[found]
    return at


def _estimated(problem: Problem, rates: Floats, known: Bools) -> tuple[Floats, Bools, Bools]:
    """(rates, [row] estimated from the topic's other partitions, [row] estimated from the whole cluster).

    A rate is in proportion to size, because partitions with the same retention hold more if they take more bytes in. If
    the known partitions hold no bytes, it is their mean.
    """
    size, whole, rates = problem.size_bytes.astype(np.float64), np.zeros_like(problem.topic), rates.copy()
    groups, topics = problem.topic[known], len(problem.topics)
    totals = [np.bincount(groups, values, topics).astype(np.float64) for values in (rates[known], size[known], None)]
    by_topic = ~known & (totals[2][problem.topic] > 0)
    by_cluster = ~known & ~by_topic & known.any()
    for rows, group, (sums, held, counts) in (
        (by_topic, problem.topic[by_topic], totals),
        (by_cluster, whole[by_cluster], [total.sum(keepdims=True) for total in totals]),
    ):
        per_byte = np.divide(sums, held, out=np.zeros_like(sums), where=held > 0)
        mean = sums / np.maximum(1, counts)
        rates[rows] = np.where(held[group] > 0, per_byte[group] * size[rows], mean[group])
    return rates, by_topic, by_cluster


def _read_by_groups(
    problem: Problem, history: History, at: Ints, bytes_in: Floats | None
) -> tuple[Floats, ReadByGroups | None]:
    """([partition row] bytes out to consumers, what they rest on). What a snapshot tells of bytes out stays.

    (as they are, None) if nothing is measured. Then whoever needs a figure takes all as read once (`sent_bytes`).
    """
    known = at >= 0
    known[known] = history.times_read_known[at[known]]
    if bytes_in is None or problem.rates.knows_out or not known.any():
        return problem.rates.bytes_out, None
    times = np.ones(len(at))
    times[known] = history.times_read[at[known]]
    total = float(bytes_in.sum())
    return bytes_in * times, ReadByGroups(
        partitions=int(known.sum()),
        unread=int((times == 0).sum()),
        share_of_bytes_in=round(float(bytes_in[known].sum()) / total, 4) if total else 0.0,
    )


def _worst_hour(history: History, server: TopicRates | None) -> int | None:
    """The hour of the history's file, which knows the server's too; else the server's own."""
    totals = None if server is None else server.hour_totals()
    return int(totals.argmax()) if history.worst_hour is None and totals is not None else history.worst_hour


def _spread(problem: Problem, own: Floats, own_known: Bools, history: History, at: Ints, enough: Bools) -> Floats:
    """[partition row] The 95th percentiles of the ledger's samples, else the snapshot's, else by size."""
    rates = own.copy()
    rates[enough] = history.bytes_in[at[enough]]
    return _estimated(problem, rates, enough | own_known)[0]


def _lasting(problem: Problem, retention: Retention, history: History, at: Ints, enough: Bools) -> Ints:
    """[partition row] Bytes of one replica that will exist when its copy ends; at most its size now.

        lasting = min(size, appended within (retention - T) x retention / (retention - T) + one segment)

    T is the time of the copy. Records from before retention - T will have expired by then. Kafka deletes a segment once
    its newest record is older than retention.ms (UnifiedLog.deleteRetentionMsBreachedSegments), so a segment with one
    younger record stays whole. The factor adds what producers will append during T, at the same rate as before: a topic
    that goes on keeps its size. A topic that has stopped loses all: without young records, the formula adds no segment.
    Records count as old as their append.

    Nothing expires if samples do not reach back as far, or if a topic is compacted or has no time limit.
    """
    size, row = problem.size_bytes, np.maximum(at, 0)
    if not len(history.partition):
        return size
    lifetime, young = history.lifetime_ms[row], history.lifetime_bytes[row]
    sure = enough & history.lifetime_known[row] & (lifetime > 0) & (retention.retention_ms >= lifetime)
    sure &= ~retention.compacts & (retention.segment_bytes > 0)
    factor = np.divide(retention.retention_ms, lifetime, out=np.ones(len(size)), where=sure)
    left = np.ceil(young * factor + np.where(young > 0, retention.segment_bytes, 0.0))
    return np.where(sure, np.minimum(size, left), size).astype(np.int64)


def _samples(problem: Problem, history: History, at: Ints) -> dict[str, Any]:
    """How many samples there are, from when to when, and how the sizes have changed between them."""
    seen = at >= 0
    row = at[seen]
    first, last = history.first_at[row], history.last_at[row]
    known = bool(seen.any())
    seconds = (last - first) / _SECOND_US
    grown = (history.last_size_bytes[row] - history.first_size_bytes[row]) * replication(problem.replicas)[seen]
    by_day = np.divide(grown * 86_400, seconds, out=np.zeros(len(row)), where=seconds > 0)
    return {
        "digest": history.digest,
        "days": round(int(last.max() - first.min()) / (86_400 * _SECOND_US), 2) if known else 0.0,
        "samples": history.files,
        "first_at": datetime.fromtimestamp(int(first.min()) // _SECOND_US, UTC) if known else None,
        "last_at": datetime.fromtimestamp(int(last.max()) // _SECOND_US, UTC) if known else None,
        "growth_bytes_per_day": round(float(by_day.sum())),
        "unreadable_files": len(history.unreadable),
        "unreadable_first": history.unreadable[:FILES_NAMED],
    }


def _hour(hour: int | None, history: History, used: Ints, weeks_of_topics: Floats) -> WorstHour:
    """The hour, with the least samples and weeks of the rows and topics in use. A server gives one an hour."""
    weeks = np.r_[history.weeks[used], weeks_of_topics]
    samples = np.r_[history.samples_an_hour[used], weeks_of_topics]
    if hour is None or not len(weeks):
        return WorstHour(hour=None, weeks=0.0, samples=0)
    return WorstHour(hour=hour, weeks=round(float(weeks.min()), 2), samples=int(samples.min()))


def _growth(history: History, at: Ints) -> tuple[Floats, bool]:
    """([partition row] growth of a replica in bytes a day, whether it is known; 0 if samples span less than a day)"""
    if not len(history.partition):
        return np.zeros(len(at)), False
    row = np.maximum(at, 0)
    seconds = np.where(at >= 0, (history.last_at[row] - history.first_at[row]) / _SECOND_US, 0.0)
    grown = (history.last_size_bytes[row] - history.first_size_bytes[row]) * 86_400.0
    long_enough = seconds >= MIN_SECONDS
    growth: Floats = np.divide(grown, seconds, out=np.zeros(len(row)), where=long_enough)
    return growth, bool(long_enough.any())


def _coverage(problem: Problem, measured: Bools, own: Bools, by_topic: Bools, by_cluster: Bools) -> dict[str, Any]:
    """Where the bytes in come from: counts, shares, and the topics with estimated partitions."""
    held = problem.size_bytes * replication(problem.replicas)
    total = int(held.sum())
    topics = [
        {"topic": problem.topics[number], "partitions": count, "from": how}
        for how, rows in (("topic", by_topic), ("cluster", by_cluster))
        for number, count in enumerate(np.bincount(problem.topic[rows], minlength=len(problem.topics)).tolist())
        if count
    ]
    return {
        "partitions": RatesFrom(*(int(rows.sum()) for rows in (measured, own, by_topic, by_cluster))),
        "share_of_partitions": round(float(measured.mean()), 4),
        "share_of_bytes": round(int(held[measured].sum()) / total, 4) if total else 0.0,
        "estimated_topics": len(topics),
        "estimated_first": tuple(topics[:TOPICS_NAMED]),
    }


# The bytes in of whole topics, from a metrics server, and how they spread over a topic's partitions.


PERCENTILE = 0.95
HOURS = 168  # of a week
MONDAY = 72  # the hours from a Monday to 1970-01-01, a Thursday
MIN_WEEKS = 2  # one week alone may be a holiday, or a repair
MIN_HOURS = 24  # the rates have to cover a day, with its night and noon
_DAY_US = 86_400 * _SECOND_US


@dataclass(frozen=True, slots=True, eq=False)
class TopicRates:
    """One row for each topic with a rate. Times are microseconds since 1970; rates are bytes a second."""

    digest: str  # SHA-256 of the file
    problem: str | None  # why the server could not be read; None: it could
    left_out: RatesLeftOut
    topics: tuple[str, ...]
    hours: Ints  # with a rate
    first_at: Ints
    last_at: Ints
    p95: Floats
    by_hour: Floats  # [row, hour of the week in UTC] the mean of all weeks; 0 where not known
    knows_hours: Bools  # each hour of the week, for two weeks
    weeks: Floats  # the least of any hour of the week

    def hour_totals(self) -> Ints | None:
        """[hour of the week] Whole bytes a second of all topics that know their hours; None if there is no such."""
        if not self.knows_hours.any():
            return None
        totals: Ints = np.rint(self.by_hour[self.knows_hours]).astype(np.int64).sum(axis=0)
        return totals

    @property
    def topics_with_hours(self) -> tuple[str, ...]:
        return tuple(self.topics[row] for row in np.flatnonzero(self.knows_hours))


class Served(NamedTuple):
    """What a plan uses of a server's rates."""

    rows: Bools  # [partition row]
    rates: Floats  # [partition row]; 0 elsewhere
    weeks: Floats  # [used topic] of the hour that has least


def _served(problem: Problem, found: TopicRates | None, hour: int | None, spread: Floats) -> Served:
    """The rates of all partitions of a topic add up to the server's rate: in this hour of the week, else its p95.

    Within a topic they are as `spread` [partition row] is, else as sizes are, else equal.
    """
    if found is None:
        return Served(np.zeros(len(problem.topic), dtype=bool), np.zeros(len(problem.topic)), np.zeros(0))
    enough = found.knows_hours if hour is not None else found.hours >= MIN_HOURS
    row_of = {found.topics[row]: row for row in np.flatnonzero(enough).tolist()}
    row = np.array([row_of.get(name, -1) for name in problem.topics], dtype=np.int64)
    used = row[row >= 0]
    rows = (row >= 0)[problem.topic]
    totals = np.zeros(len(row))
    totals[row >= 0] = (found.p95 if hour is None else found.by_hour[:, hour])[used]
    weights: Floats = spread
    for instead in (problem.size_bytes.astype(np.float64), np.ones(len(spread))):
        weights = np.where(_of_topic(problem, weights) > 0, weights, instead)
    return Served(rows, totals[problem.topic] * weights / _of_topic(problem, weights), found.weeks[used])


def _of_topic(problem: Problem, values: Floats) -> Floats:
    """[partition row] The sum over its topic."""
    sums: Floats = np.bincount(problem.topic, values, len(problem.topics)).astype(np.float64)[problem.topic]
    return sums


def _account_of(problem: Problem, found: TopicRates, used: Served) -> MetricsServerUsed:
    """How much of the cluster these rates cover, and over which time."""
    held = problem.size_bytes * replication(problem.replicas)
    total = int(held.sum())
    names = {problem.topics[topic] for topic in np.unique(problem.topic[used.rows])}
    rows = [row for row, name in enumerate(found.topics) if name in names]
    first, last = found.first_at[rows].min(initial=2**62), found.last_at[rows].max(initial=0)
    return MetricsServerUsed(
        digest=found.digest,
        problem=found.problem,
        days=round(int(last - first) / _DAY_US, 2) if rows else 0.0,
        first_at=_time(first) if rows else None,
        last_at=_time(last) if rows else None,
        topics=len(rows),
        short_topics=len(found.topics) - len(rows),
        partitions=int(used.rows.sum()),
        share_of_partitions=round(float(used.rows.mean()), 4),
        share_of_bytes=round(int(held[used.rows].sum()) / total, 4) if total else 0.0,
        left_out=found.left_out,
    )


def _time(at: Ints) -> datetime:
    return datetime.fromtimestamp(int(at) // _SECOND_US, UTC)
