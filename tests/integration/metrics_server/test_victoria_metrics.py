"""Four weeks of counters, as brokers export them, in a real VictoriaMetrics: what a plan makes of its answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.metrics_server import read_hourly_rates
from kafka_rebalance.model.connection import MetricsServer
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.tables.history import DAYS, planned_with, read_topic_rates, write_topic_rates
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.metrics.victoria_metrics import PASSWORD, PROGRAM, USER, VictoriaMetrics
from support.plans.small_snapshots import broker_rows, partition_rows

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        PROGRAM is None,
        reason="needs victoria-metrics on PATH, or its path in VICTORIA_METRICS; see docs/contributing.md",
    ),
]
COUNTER = "kafka_server_brokertopicmetrics_bytesin_total"
QUERY = f"sum by (topic) (rate({COUNTER}[1h]))"
HOUR, EVERY = 3600, 300  # seconds; a scrape every five minutes
TUESDAY_3 = 24 + 3
NOW = datetime.now(UTC)
LAST = int(NOW.timestamp()) // HOUR * HOUR


def rate(topic: str, hour: int) -> int:
    """Bytes a second on each of two brokers, in this hour since 1970."""
    return (
        4500 if topic == "orders" and (hour + 72) % 168 == TUESDAY_3 else {"orders": 500, "audit": 50, "gone": 1}[topic]
    )


def scraped() -> bytes:
    lines = []
    for topic in ("orders", "audit", "gone"):
        total = 0
        for at in range(LAST - DAYS * 24 * HOUR, LAST + EVERY, EVERY):
            lines += [f'{COUNTER}{{topic="{topic}",broker="{broker}"}} {total} {at * 1000}' for broker in (1, 2)]
            total += rate(topic, at // HOUR) * EVERY
    lines += [f'{COUNTER}{{broker="1"}} {at} {at * 1000}' for at in range(LAST - 24 * HOUR, LAST, EVERY)]
    return "\n".join(lines).encode()


@pytest.fixture(scope="module")
def running() -> Iterator[VictoriaMetrics]:
    with VictoriaMetrics() as server:
        server.take(scraped())
        yield server


def connection(server: VictoriaMetrics, query: str = QUERY, password: str = PASSWORD) -> MetricsServer:
    return MetricsServer(server.url, query, ca=server.ca, username=USER, password=password)


def test_a_plan_evens_out_the_worst_hour_that_the_server_shows(running: VictoriaMetrics, tmp_path: Path) -> None:
    rows = [*partition_rows([[1, 2], [2, 3]], topic="orders"), *partition_rows([[1, 3]], topic="audit")]
    write_snapshot(tmp_path, broker_rows([1, 2, 3]), rows)
    found = read_hourly_rates(connection(running), ["orders", "audit", "new"], NOW, DAYS)
    assert found.topics == ("audit", "orders")
    hours = range(found.first_hour, found.first_hour + DAYS * 24)
    for row, topic in enumerate(found.topics):
        assert found.rates[row].tolist() == pytest.approx([2.0 * rate(topic, hour) for hour in hours], rel=1e-9)
    said = found.left_out
    assert (said.without_topic, said.unknown_topics, said.unknown_first, said.no_rate_topics) == (1, 1, ("gone",), 0)

    write_topic_rates(tmp_path, found)
    assert read_topic_rates(tmp_path).weeks.tolist() == [4.0, 4.0]
    for settings, orders in ((Settings(), 500.0), (Settings(even_at_worst_hour=True), 4500.0)):
        problem = planned_with(prepare(tmp_path, settings), tmp_path, None, "history")
        assert problem.rates.bytes_in.tolist() == pytest.approx([100.0, orders, orders])
    assert (problem.rates.history.worst_hour.hour, problem.rates.history.worst_hour.weeks) == (TUESDAY_3, 4.0)


def test_what_the_server_refuses_is_told_in_its_words(running: VictoriaMetrics) -> None:
    with pytest.raises(AuthenticationError, match="HTTP 401"):
        read_hourly_rates(connection(running, password="wrong"), ["orders"], NOW, DAYS)
    with pytest.raises(ReadError, match=r"HTTP 4\d\d, .*sum by"):
        read_hourly_rates(connection(running, "sum by (topic"), ["orders"], NOW, DAYS)
    with pytest.raises(ReadError, match=r"several series for orders: let it sum by \(topic\)"):
        read_hourly_rates(connection(running, f"rate({COUNTER}[1h])"), ["orders"], NOW, DAYS)


def test_an_expression_without_a_series_is_no_error_and_no_rate(running: VictoriaMetrics) -> None:
    assert (
        read_hourly_rates(connection(running, "sum by (topic) (rate(nothing[1h]))"), ["orders"], NOW, DAYS).topics == ()
    )
