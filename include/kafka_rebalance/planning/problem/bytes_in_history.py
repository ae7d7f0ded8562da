"""What the ledger's samples say about a snapshot's partitions: bytes in, and bytes that retention will take.

The samples were aggregated to one row a partition (`spark.history_rows`, `tables.history_table`). Here they are put
into the problem, and counted for people: what was measured, what had to be estimated, how old it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kafka_rebalance.documents.proposals.history_used import HistoryUsed, RatesFrom
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, replication

# What is too little to tell a 95th percentile from chance: of a day, night and noon have to be in it.
MIN_INTERVALS, MIN_SECONDS = 5, 86_400.0
TOPICS_NAMED, FILES_NAMED = 50, 5

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The aggregate, one row a partition that has samples. Times are microseconds since 1970."""

    digest: str  # SHA-256 of its file
    files: int  # of the ledger that gave samples: one a snapshot
    unreadable: tuple[str, ...]  # names of those that gave none
    topics: tuple[str, ...]
    topic: Ints  # [row] index into topics
    partition: Ints
    first_at: Ints
    last_at: Ints
    first_size_bytes: Floats
    last_size_bytes: Floats
    intervals: Ints  # between two samples that tell what was appended
    measured_seconds: Floats  # all intervals together
    bytes_in: Floats  # 95th percentile, bytes a second; 0 without an interval
    lifetime_ms: Floats  # 0: no time limit was known when the samples were aggregated
    lifetime_bytes: Floats  # appended within `lifetime_ms` before the last sample
    lifetime_known: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Retention:
    """Columns of the snapshot's partitions that only history needs, in the problem's order."""

    bytes_in_known: Bools  # by the snapshot itself
    compacts: Bools  # compaction takes records too, whatever their age
    retention_ms: Floats  # 0: without end, or unknown
    segment_bytes: Floats  # 0 where unknown

    def lifetimes_ms(self, problem: Problem) -> Ints:
        """[partition row] How old a record may be now and still be there when a copy of its partition ends.

        Retention less the time that the copy takes at the throttle; -1 where nothing is known to expire before.
        No copy ends sooner than at the whole throttle, so no more bytes are counted as gone than will be.
        """
        throttle = problem.settings.throttle_bytes_per_second
        copying = problem.size_bytes / throttle * 1000.0 if throttle else np.zeros(len(problem.size_bytes))
        left = np.floor(self.retention_ms - copying).astype(np.int64)
        return np.where((self.retention_ms > 0) & ~self.compacts & (self.segment_bytes > 0) & (left > 0), left, -1)


def with_history(problem: Problem, retention: Retention, history: History) -> Problem:
    """The problem with what history knows better than one snapshot, and an account of it in `history`.

    Bytes in: the 95th percentile where there are MIN_INTERVALS over MIN_SECONDS, else what the snapshot has, else
    estimated. Where nothing is known of any partition, bytes in stay unknown. Bytes to copy stay the snapshot's; the
    disk load that is balanced leaves out what retention will have taken.
    """
    at = _rows_of(problem, history)
    enough = at >= 0
    enough[enough] &= (history.intervals[at[enough]] >= MIN_INTERVALS) & (
        history.measured_seconds[at[enough]] >= MIN_SECONDS
    )
    own = retention.bytes_in_known & ~enough
    rates = np.zeros(len(at)) if problem.bytes_in is None else np.where(own, problem.bytes_in, 0.0)
    rates[enough] = history.bytes_in[at[enough]]
    rates, by_topic, by_cluster = _estimated(problem, rates, enough | own)
    lasting = _lasting(problem, retention, history, at, enough)
    account = HistoryUsed(
        **_samples(problem, history, at),
        **_coverage(problem, enough, own, by_topic, by_cluster),
        at_least=int((enough & retention.compacts).sum()),
        expiring_partitions=int((lasting < problem.size_bytes).sum()),
        expiring_bytes=int(((problem.size_bytes - lasting) * replication(problem.replicas)).sum()),
    )
    known = bool((enough | own).any())
    return replace(
        problem,
        bytes_in=rates if known else None,
        lasting_bytes=lasting,
        growth_bytes_per_day=_growth(history, at),
        history=account,
    )


def describe_history(problem: Problem) -> str:
    """One line on a problem's history."""
    account = problem.history
    if account is None:
        return ""
    given = account.partitions
    return (
        f"history: {account.samples:,} samples over {account.days} days give bytes in of "
        f"{given.history:,} partitions; {given.snapshot:,} are the snapshot's, "
        f"{given.topic + given.cluster:,} estimated; {account.unreadable_files:,} files gave no sample"
    )


def _rows_of(problem: Problem, history: History) -> Ints:
    """[partition row] The row of the history, -1 where it has none."""
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
    """(rates, [row] estimated from the topic's other partitions, [row] from all that is known).

    In proportion to size: of partitions that are kept alike, who takes more bytes holds more. Where what is known
    holds no bytes, the mean.
    """
    if not known.any():
        return rates, np.zeros(len(known), dtype=bool), np.zeros(len(known), dtype=bool)
    size, topics = problem.size_bytes.astype(np.float64), len(problem.topics)
    groups = problem.topic[known]
    counts = np.bincount(groups, minlength=topics)
    sums = np.bincount(groups, rates[known], topics).astype(np.float64)
    held = np.bincount(groups, size[known], topics).astype(np.float64)
    by_topic = ~known & (counts[problem.topic] > 0)
    by_cluster = ~known & ~by_topic
    rates = rates.copy()
    rates[by_topic] = _in_proportion(sums, held, counts, problem.topic[by_topic], size[by_topic])
    whole = np.zeros(int(by_cluster.sum()), dtype=np.int64)
    rates[by_cluster] = _in_proportion(
        sums.sum(keepdims=True), held.sum(keepdims=True), counts.sum(keepdims=True), whole, size[by_cluster]
    )
    return rates, by_topic, by_cluster


def _in_proportion(sums: Floats, held: Floats, counts: Ints, group: Ints, size: Floats) -> Floats:
    """[row] The rate of a partition of that size, by the rates and bytes of its group."""
    per_byte = np.divide(sums, held, out=np.zeros_like(sums), where=held > 0)
    mean = sums / np.maximum(1, counts)
    return np.where(held[group] > 0, per_byte[group] * size, mean[group])


def _lasting(problem: Problem, retention: Retention, history: History, at: Ints, enough: Bools) -> Ints:
    """[partition row] Bytes of one replica that will be there when a copy of it has ended; at most its size now.

        lasting = min(size, appended within (retention - T) x retention / (retention - T) + one segment)

    T is the time of the copy. What was appended longer ago than retention - T will have expired by then (Kafka deletes
    a segment once its newest record is older than retention.ms: UnifiedLog.deleteRetentionMsBreachedSegments), except
    that a segment with one younger record stays whole. The factor adds what will be appended during T as it was
    before, so that a topic that goes on as ever keeps its size. One that has stopped loses all: no segment is added
    where nothing is young. Records are taken to be as old as their appending.

    Where samples do not reach back as far, or a topic is compacted or kept without end, nothing is said to expire.
    """
    size = problem.size_bytes
    row = np.maximum(at, 0)
    if not len(history.partition):
        return size
    lifetime, young = history.lifetime_ms[row], history.lifetime_bytes[row]
    sure = enough & history.lifetime_known[row] & (lifetime > 0) & (retention.retention_ms >= lifetime)
    sure &= ~retention.compacts & (retention.segment_bytes > 0)
    factor = np.divide(retention.retention_ms, lifetime, out=np.ones(len(size)), where=sure)
    left = np.ceil(young * factor + np.where(young > 0, retention.segment_bytes, 0.0))
    return np.where(sure, np.minimum(size, left), size).astype(np.int64)


def _samples(problem: Problem, history: History, at: Ints) -> dict[str, Any]:
    """How much there is, from when to when, and how the sizes have changed meanwhile."""
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
        "first_at": _time(int(first.min())) if known else None,
        "last_at": _time(int(last.max())) if known else None,
        "growth_bytes_per_day": round(float(by_day.sum())),
        "unreadable_files": len(history.unreadable),
        "unreadable_first": history.unreadable[:FILES_NAMED],
    }


def _growth(history: History, at: Ints) -> Floats | None:
    """[partition row] Bytes a day that a replica grew by; 0 where samples span less than a day. None: all do."""
    row = np.maximum(at, 0)
    if not len(history.partition):
        return None
    seconds = np.where(at >= 0, (history.last_at[row] - history.first_at[row]) / _SECOND_US, 0.0)
    grown = (history.last_size_bytes[row] - history.first_size_bytes[row]) * 86_400.0
    long_enough = seconds >= MIN_SECONDS
    if not long_enough.any():
        return None
    growth: Floats = np.divide(grown, seconds, out=np.zeros(len(row)), where=long_enough)
    return growth


def _coverage(problem: Problem, measured: Bools, own: Bools, by_topic: Bools, by_cluster: Bools) -> Mapping[str, Any]:
    """Where the bytes in come from: counts, shares, and the topics of which partitions had to be estimated."""
    held = problem.size_bytes * replication(problem.replicas)
    total = int(held.sum())
    topics: list[Mapping[str, str | int]] = []
    for how, rows in (("topic", by_topic), ("cluster", by_cluster)):
        counts = np.bincount(problem.topic[rows], minlength=len(problem.topics))
        topics += [
            {"topic": problem.topics[number], "partitions": int(counts[number]), "from": how}
            for number in np.flatnonzero(counts).tolist()
        ]
    return {
        "partitions": RatesFrom(*(int(rows.sum()) for rows in (measured, own, by_topic, by_cluster))),
        "share_of_partitions": round(float(measured.mean()), 4),
        "share_of_bytes": round(int(held[measured].sum()) / total, 4) if total else 0.0,
        "estimated_topics": len(topics),
        "estimated_first": tuple(topics[:TOPICS_NAMED]),
    }


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // _SECOND_US, UTC)
