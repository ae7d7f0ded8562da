"""The bytes in of whole topics, from a metrics server, and how they spread over a topic's partitions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from kafka_rebalance.documents.proposals import MetricsServerUsed, RatesLeftOut
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, replication

PERCENTILE = 0.95
HOURS = 168  # of a week
MONDAY = 72  # the hours from a Monday to 1970-01-01, a Thursday
MIN_WEEKS = 2  # one week alone may be a holiday, or a repair
MIN_HOURS = 24  # the rates have to cover a day, with its night and noon
_SECOND_US = 1_000_000
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


def served(problem: Problem, found: TopicRates | None, hour: int | None, spread: Floats) -> Served:
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


def account_of(problem: Problem, found: TopicRates, used: Served) -> MetricsServerUsed:
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
