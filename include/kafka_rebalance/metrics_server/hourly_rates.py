"""The bytes in of each topic in each hour of four weeks, as a metrics server gives them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

import numpy as np

from kafka_rebalance.documents.proposals import RatesLeftOut
from kafka_rebalance.errors import ReadError
from kafka_rebalance.metrics_server.range_query import Series, query_range
from kafka_rebalance.model.connection import MetricsServer
from kafka_rebalance.model.finding import some
from kafka_rebalance.planning.tables.checked_columns import LARGEST_AMOUNT
from kafka_rebalance.planning.tables.topic_rates import HourlyRates

HOUR, HOURS_ASKED = 3600, 24  # a day at a time keeps each answer small
SECONDS = 60.0  # for all questions together
NAMED = 5
_TOPIC = "topic"
_LONGEST_NAME = 249  # of a topic, in Kafka


def read_hourly_rates(
    server: MetricsServer,
    topics: Collection[str],
    now: datetime,
    days: int,
    clock: Callable[[], float] = time.monotonic,
) -> HourlyRates:
    """The rates of these topics in the whole hours before `now`. The point at 13:00 is the hour from 12:00.

    Errors as in `query_range`, and ReadError if the answers together take too long, or if a topic has two series.
    """
    give_up = clock() + SECONDS
    last = int(now.timestamp()) // HOUR * HOUR
    first = last - (days * HOURS_ASKED - 1) * HOUR
    names = sorted(topics)
    found = _Found(server, names, first, np.full((len(names), days * HOURS_ASKED), np.nan))
    for begin in range(first, last, HOURS_ASKED * HOUR):
        left = give_up - clock()
        if left <= 0:
            raise found.unusable(f"the answers take longer than {SECONDS:.0f} s")
        end = begin + (HOURS_ASKED - 1) * HOUR
        found.take(query_range(server, begin, end, HOUR, left), begin, end)
    measured = np.flatnonzero(~np.isnan(found.rates).all(axis=1))
    return HourlyRates(
        topics=tuple(names[row] for row in measured),
        first_hour=first // HOUR - 1,
        rates=found.rates[measured],
        left_out=RatesLeftOut(
            without_topic=found.without_topic,
            unknown_topics=found.unknown_topics,
            unknown_first=found.unknown_first,
            no_rate_topics=len(found.no_rate),
            no_rate_first=tuple(sorted(found.no_rate)[:NAMED]),
        ),
    )


class _Found:
    """What the answers have given so far."""

    def __init__(self, server: MetricsServer, names: Sequence[str], first: int, rates: np.ndarray) -> None:
        self.server, self.first, self.rates = server, first, rates
        self.row = {name: row for row, name in enumerate(names)}
        self.labels: dict[str, dict[str, str]] = {}
        self.no_rate: set[str] = set()
        # The most of any answer: only what is known to the cluster is added up.
        self.without_topic, self.unknown_topics = 0, 0
        self.unknown_first: tuple[str, ...] = ()

    def take(self, answer: Sequence[Series], begin: int, end: int) -> None:
        unknown = {series.metric[_TOPIC] for series in answer if _TOPIC in series.metric} - self.row.keys()
        if len(unknown) > self.unknown_topics:
            self.unknown_topics = len(unknown)
            self.unknown_first = tuple(ascii(name[:_LONGEST_NAME])[1:-1] for name in sorted(unknown)[:NAMED])
        self.without_topic = max(self.without_topic, sum(_TOPIC not in series.metric for series in answer))
        twice = set()
        for series in answer:
            topic = series.metric.get(_TOPIC)
            if topic not in self.row:
                continue
            if self.labels.setdefault(topic, series.metric) != series.metric:
                twice.add(topic)
            self._take_points(topic, series, begin, end)
        if twice:
            raise self.unusable(f"bytes_in gives several series for {some(sorted(twice))}: let it sum by (topic)")

    def _take_points(self, topic: str, series: Series, begin: int, end: int) -> None:
        for at, text in series.values:
            if not begin <= at <= end or (at - begin) % HOUR:
                raise self.unusable(f"the point of {topic} at {at:.0f} was not asked for")
            try:
                value = float(text)
            except ValueError:
                value = np.nan
            if 0 <= value <= LARGEST_AMOUNT:  # not if it is NaN
                self.rates[self.row[topic], (int(at) - self.first) // HOUR] = value
            else:
                self.no_rate.add(topic)

    def unusable(self, why: str) -> ReadError:
        return ReadError(
            f"The metrics server {self.server.url} gives no rates that a plan can use ({why}). "
            "Correct bytes_in in metrics_secret_config of the Airflow connection."
        )
