"""The rates of four weeks, hour by hour, from a real HTTP server that answers as Prometheus documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.errors import ReadError
from kafka_rebalance.metrics_server import SECONDS, read_hourly_rates
from kafka_rebalance.planning.tables.history import HourlyRates
from support.metrics.http_server import HOUR, Answer, Asked, Rate, answering, metrics_server, send, series, success

NOW = datetime(2026, 11, 25, 10, 20, tzinfo=UTC)
LAST = int(NOW.timestamp()) // HOUR * HOUR  # the hour from 9:00 ends here
DAYS = 2


def rates_of(answer: Answer, topics: tuple[str, ...] = ("orders", "audit"), **more: Any) -> HourlyRates:
    with answering(answer) as (url, _):
        return read_hourly_rates(metrics_server(url), topics, NOW, DAYS, **more)


def topic(name: str, rate: Rate, **labels: str) -> tuple[Mapping[str, str], Rate]:
    return {"topic": name, **labels}, rate


def always(value: str) -> Rate:
    return lambda at: value


def test_the_point_at_the_end_of_an_hour_is_the_rate_of_that_hour() -> None:
    found = rates_of(series(topic("orders", lambda at: str(at // HOUR)), topic("audit", always("7"))))
    assert found.topics == ("audit", "orders")
    assert found.first_hour == LAST // HOUR - DAYS * 24
    assert found.rates[0].tolist() == [7.0] * 48
    # The hour that begins at `first_hour` has the point at its end.
    assert found.rates[1].tolist() == [found.first_hour + 1 + hour for hour in range(48)]


def test_a_day_is_asked_at_a_time_up_to_the_last_whole_hour() -> None:
    with answering(series()) as (url, asked):
        read_hourly_rates(metrics_server(url), ["orders"], NOW, DAYS)
    spans = [(int(one.query["start"]), int(one.query["end"]), one.query["step"]) for one in asked]
    assert spans == [(LAST - 47 * HOUR, LAST - 24 * HOUR, "3600"), (LAST - 23 * HOUR, LAST, "3600")]


def test_hours_without_a_point_stay_unknown_and_a_topic_without_any_is_not_there() -> None:
    found = rates_of(series(topic("orders", lambda at: "5" if at == LAST else None)))
    assert found.topics == ("orders",)
    assert found.rates[0, -1] == 5.0
    assert np.isnan(found.rates[0, :-1]).all()
    assert rates_of(series()).topics == ()


def test_what_no_plan_can_use_is_left_out_and_named() -> None:
    found = rates_of(
        series(
            ({}, always("100")),  # of all topics together, as brokers export it
            topic("gone", always("1")),
            topic("gone\nFAKE LINE", always("1")),
            topic("orders", lambda at: "NaN" if at == LAST else "2"),
            topic("audit", lambda at: {LAST: "+Inf", LAST - HOUR: "-1", LAST - 2 * HOUR: "word"}.get(at, "1e300")),
        )
    )
    assert found.topics == ("orders",)
    assert np.isnan(found.rates[0]).sum() == 1
    said = found.left_out
    assert (said.without_topic, said.unknown_topics, said.no_rate_topics) == (1, 2, 2)
    assert said.unknown_first == ("gone", "gone\\nFAKE LINE")
    assert said.no_rate_first == ("audit", "orders")


def test_a_recording_rules_name_and_other_labels_do_no_harm() -> None:
    labels = {"__name__": "kafka:bytes_in:rate1h", "cluster": "eu"}
    assert rates_of(series(topic("orders", always("2"), **labels))).topics == ("orders",)


def test_two_series_of_one_topic_are_refused_also_if_they_come_one_after_the_other() -> None:
    one, two = (topic("orders", always("1"), broker=broker) for broker in "12")
    with pytest.raises(ReadError, match=r"several series for orders: let it sum by \(topic\)"):
        rates_of(series(one, two))
    half = LAST - 24 * HOUR
    early = topic("orders", lambda at: "1" if at <= half else None, broker="1")
    late = topic("orders", lambda at: "1" if at > half else None, broker="2")
    with pytest.raises(ReadError, match="several series for orders"):
        rates_of(series(early, late))


@pytest.mark.parametrize("off", [-HOUR, 1, 1.5, 24 * HOUR])
def test_a_point_that_was_not_asked_for_is_refused(off: float) -> None:
    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        values = [[int(asked.query["start"]) + off, "1"]]
        send(handler, success([{"metric": {"topic": "orders"}, "values": values}]))

    with pytest.raises(ReadError, match="was not asked for"):
        rates_of(answer)


def test_one_answer_that_cannot_be_read_leaves_no_part_of_the_others() -> None:
    numbers = count()

    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        send(handler, success([])) if next(numbers) == 0 else send(handler, {"status": "error", "error": "away"}, 503)

    with pytest.raises(ReadError, match="HTTP 503, away"):
        rates_of(answer)


def test_all_answers_together_have_one_limit_of_time() -> None:
    ticks = iter([0.0, 1.0, SECONDS + 1])
    with pytest.raises(ReadError, match="longer than 60 s"):
        rates_of(series(), clock=lambda: next(ticks))
