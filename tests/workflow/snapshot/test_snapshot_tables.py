"""What a snapshot notes about each topic's records, for planning and for the ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run import snapshot_reader
from kafka_rebalance.run.ledger import metric_rows
from support.runs.simulated_cluster import DEFAULTS, SimulatedCluster

CONNECTION = ClusterConnection("kafka_eu", ZooKeeperConnection("simulated:2181"), KafkaConnection("simulated:9092"))
RETENTION = ("cleanup_policy", "retention_ms", "segment_bytes")
DAY, HOUR, GIB = 86_400_000, 3_600_000, 1 << 30


@pytest.mark.parametrize(
    ("topic", "broker", "found"),
    [
        ({}, {}, ("delete", 7 * DAY, GIB)),
        ({}, {"log.retention.minutes": "120"}, ("delete", 2 * HOUR, GIB)),
        ({"retention.ms": "60000", "segment.bytes": "1000"}, {"log.retention.ms": "5"}, ("delete", 60_000, 1000)),
        ({"retention.ms": "-1"}, {}, ("delete", None, GIB)),
        ({"cleanup.policy": "compact"}, {}, ("compact", None, GIB)),
        ({"cleanup.policy": "compact, delete"}, {}, ("compact,delete", 7 * DAY, GIB)),
        ({"retention.ms": "a week"}, {}, (None, None, None)),  # no broker could load it
        ({}, {"log.retention.hours": None}, (None, None, None)),  # the broker does not tell
    ],
)
def test_retention_is_what_the_leader_applies(
    monkeypatch: pytest.MonkeyPatch, topic: dict[str, str], broker: dict[str, Any], found: tuple[Any, ...]
) -> None:
    cluster = SimulatedCluster(monkeypatch, {"orders": {0: (1, 2)}})
    cluster.fake.put_json("/config/topics/orders", {"version": 1, "config": topic})
    values = {key: ConfigValue(value, "STATIC_BROKER_CONFIG") for key, value in (DEFAULTS | broker).items()}
    monkeypatch.setattr(
        "kafka_rebalance.admin.configs.read_effective_configs",
        lambda _, brokers, **__: dict.fromkeys(brokers, values),
    )
    monkeypatch.setattr(snapshot_reader, "STORM_PAUSE_SECONDS", 0)
    (row,) = snapshot_reader.read_snapshot(CONNECTION, Settings()).partitions
    assert tuple(row[column] for column in RETENTION) == found


def test_a_topic_made_a_moment_ago_has_its_logs_before_sizes_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper names a leader before that broker has made the log: its offsets are waited for, its size is not."""
    SimulatedCluster(monkeypatch, {"orders": {0: (1, 2)}})
    with_logs: set[object] = set()
    read_log_dirs = snapshot_reader.sizes.read_log_dirs

    def first_offsets(_: object, partitions: Collection[TopicPartition], **__: object) -> dict[TopicPartition, int]:
        with_logs.update(partitions)
        return dict.fromkeys(partitions, 0)

    def log_dirs(kafka: KafkaConnection, brokers: Collection[int], **_: object) -> BrokerDisks:
        found = read_log_dirs(kafka, brokers)
        return replace(found, replicas={tp: sizes for tp, sizes in found.replicas.items() if tp in with_logs})

    monkeypatch.setattr("kafka_rebalance.admin.offsets.read_start_offsets", first_offsets)
    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", log_dirs)
    (row,) = snapshot_reader.read_snapshot(CONNECTION, Settings()).partitions
    assert row["size_bytes"] is not None


def test_the_log_dir_of_each_replica_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    SimulatedCluster(monkeypatch, {"orders": {0: (2, 1)}})
    read_log_dirs = snapshot_reader.sizes.read_log_dirs

    def log_dirs(kafka: KafkaConnection, brokers: Collection[int], **_: object) -> BrokerDisks:
        return replace(read_log_dirs(kafka, brokers), paths={TopicPartition("orders", 0): {1: "/a", 2: "/b"}})

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", log_dirs)
    (row,) = snapshot_reader.read_snapshot(CONNECTION, Settings()).partitions
    assert row["log_dirs"] == ["/b", "/a"]


def test_a_sample_has_what_groups_have_committed_or_nothing_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = SimulatedCluster(monkeypatch, {"orders": {0: (1, 2), 1: (2, 1)}})

    def sampled() -> list[tuple[object, ...]]:
        rows = metric_rows(snapshot_reader.read_snapshot(CONNECTION, Settings()))
        return [(row.get("committed_offsets"), row.get("committed_groups")) for row in rows]

    cluster.committed = {TopicPartition("orders", 0): {"billing": 7, "audit": 5}}
    assert sampled() == [(12, 2), (0, 0)]
    assert "consumer groups" not in caplog.text
    cluster.committed = None
    assert sampled() == [(None, None)] * 2
    assert "may not read which consumer groups there are" in caplog.text


@pytest.mark.parametrize(
    ("told", "held_back"),
    [
        (frozenset({"__state_of_a_later_kafka"}), {"__consumer_offsets", "__state_of_a_later_kafka"}),
        (None, {"__consumer_offsets"}),  # no broker answers: the names tell what is known
    ],
)
def test_topics_that_the_brokers_call_internal_stay_where_they_are(
    monkeypatch: pytest.MonkeyPatch, told: frozenset[str] | None, held_back: set[str]
) -> None:
    names = ("orders", "__consumer_offsets", "__state_of_a_later_kafka")
    cluster = SimulatedCluster(monkeypatch, {name: {0: (1, 2)} for name in names})
    cluster.internal = told
    monkeypatch.setattr(snapshot_reader, "STORM_PAUSE_SECONDS", 0)
    rows = snapshot_reader.read_snapshot(CONNECTION, Settings()).partitions
    assert {row["topic"] for row in rows if row["excluded"]} == held_back
    by_brokers_alone = told or set()
    assert {row["topic"] for row in rows if row["kafkas_own"]} == by_brokers_alone
    ticked = snapshot_reader.read_snapshot(CONNECTION, Settings(), internal_topics=True).partitions
    assert not any(row["excluded"] for row in ticked)
    assert {row["topic"] for row in ticked if row["kafkas_own"]} == by_brokers_alone
