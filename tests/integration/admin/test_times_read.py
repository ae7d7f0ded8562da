"""How often consumer groups read a topic, measured by snapshots of real brokers with real consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.history import EXISTING_SCHEMA, SAMPLES_SCHEMA, aggregated
from kafka_rebalance.run import snapshot_reader
from kafka_rebalance.run.ledger import metric_rows
from support.kafka.on_versions import BOTH_KINDS, NEWEST_WITHOUT_ZOOKEEPER
from support.waiting import wait

FIRST_NIGHT = datetime(2026, 5, 1, 2, 15, tzinfo=UTC)
NIGHTS, RECORDS = 6, 40


@pytest.fixture(autouse=True)
def _no_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "STORM_PAUSE_SECONDS", 0)


@pytest.fixture(scope="module", params=NEWEST_WITHOUT_ZOOKEEPER)
def kraft(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(version=request.param, brokers=2, racks=0, one_jvm=True, kraft=True) as running:
        yield running


def read_night_by_night(consumers: list[Consumer], produce: Callable[[], None], sample: Callable[[], None]) -> None:
    """Each night more records come, each consumer reads and commits them all, and a snapshot is taken."""
    read = [0] * len(consumers)

    def all_read(many: int) -> bool:
        for number, consumer in enumerate(consumers):
            message = consumer.poll(0.05)
            read[number] += message is not None and message.error() is None
        return read == [many] * len(consumers)

    for night in range(1, NIGHTS + 1):
        produce()
        wait("each group has read every record", lambda many=night * RECORDS: all_read(many))  # type: ignore[misc]
        for consumer in consumers:
            consumer.commit(asynchronous=False)
        sample()


def times_read(cluster: LocalCluster, connection: ClusterConnection, topics: list[str]) -> list[float | None]:
    """Of the one partition of each topic; two groups read the first."""
    for topic in topics:
        cluster.create_topic(topic, {0: (1,)})
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "broker.address.family": "v4", "log_level": 0}
    producer = Producer(servers)
    rows: list[dict[str, Any]] = []

    def produce() -> None:
        for topic in topics:
            for _ in range(RECORDS):
                producer.produce(topic, value=b"x" * 100)
        assert producer.flush(30) == 0

    def sample() -> None:
        at = FIRST_NIGHT + timedelta(days=len(rows) // len(topics))
        taken = snapshot_reader.read_snapshot(connection, Settings(), of_the_rest=True)
        rows.extend({"observed_at": at, **row} for row in metric_rows(taken) if row["topic"] in topics)

    with ExitStack() as opened:
        consumers = []
        for group in ("billing", "audit"):
            settings = {
                "group.id": f"{group}-{topics[0]}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            consumers.append(opened.enter_context(closing(Consumer(servers | settings))))
            consumers[-1].subscribe([topics[0]])
        read_night_by_night(consumers, produce, sample)
    existing = pa.Table.from_pylist([{"topic": topic, "partition": 0} for topic in topics], schema=EXISTING_SCHEMA)
    history = aggregated(pa.Table.from_pylist(rows, schema=SAMPLES_SCHEMA), existing)
    found = {row["topic"]: row["times_read"] for row in history.to_pylist()}
    return [found[topic] for topic in topics]


@BOTH_KINDS
def test_a_topic_of_two_groups_is_read_twice_and_one_without_a_group_never(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str]
) -> None:
    kafka = KafkaConnection(cluster.bootstrap_servers)
    connection = ClusterConnection("kafka_eu", ZooKeeperConnection(cluster.zookeeper), kafka)
    assert times_read(cluster, connection, [fresh_topic_name(), fresh_topic_name()]) == [2.0, 0.0]


def test_so_it_is_without_zookeeper(kraft: LocalCluster) -> None:
    connection = ClusterConnection("kafka_us", None, KafkaConnection(kraft.bootstrap_servers))
    assert times_read(kraft, connection, ["read", "unread"]) == [2.0, 0.0]
