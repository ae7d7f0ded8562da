"""What real brokers tell about themselves, against what is on their disks and in their ZooKeeper."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientTopicPartition

from kafka_rebalance.admin.cluster_view import read_cluster_id, read_internal_topics
from kafka_rebalance.admin.configs import read_effective_configs
from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.admin.offsets import read_end_offsets, read_local_starts, read_start_offsets
from kafka_rebalance.errors import ReadError
from kafka_rebalance.kafka.topics import BY_NAME
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.connection import KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view

RECORD_BYTES = 10_240  # what LocalCluster.produce writes at once


def test_sizes_equal_the_bytes_of_the_log_files(
    cluster: LocalCluster, kafka: KafkaConnection, fresh_topic_name: Callable[[], str]
) -> None:
    topic = fresh_topic_name()
    replicas = {0: (1, 2), 1: (3,), 2: (4, 1)}
    cluster.create_topic(topic, replicas)
    cluster.produce(topic, {0: 1_000_000, 1: 30_000})
    disks = read_log_dirs(kafka, sorted(cluster.brokers))
    for partition, brokers in replicas.items():
        on_disk = {
            broker: sum(
                log.stat().st_size for log in (cluster.folder / f"data-{broker}").rglob(f"{topic}-{partition}/*.log")
            )
            for broker in brokers
        }
        assert disks.replicas[TopicPartition(topic, partition)] == on_disk
    assert min(disks.replicas[TopicPartition(topic, 0)].values()) >= 1_000_000
    assert set(disks.replicas[TopicPartition(topic, 2)].values()) == {0}


def test_log_directories_are_those_of_server_properties_and_have_totals_from_3_3(
    cluster: LocalCluster, kafka: KafkaConnection
) -> None:
    for broker, log_dirs in read_log_dirs(kafka, sorted(cluster.brokers)).log_dirs.items():
        (log_dir,) = log_dirs
        assert log_dir.path == str(cluster.folder / f"data-{broker}")
        if cluster.version.startswith("3."):
            assert 0 < log_dir.usable_bytes <= log_dir.total_bytes
        else:
            assert (log_dir.total_bytes, log_dir.usable_bytes) == (None, None)


def test_only_the_brokers_named_are_asked(kafka: KafkaConnection) -> None:
    assert set(read_log_dirs(kafka, [2, 4]).log_dirs) == {2, 4}


def test_a_broker_that_does_not_exist_is_named(kafka: KafkaConnection) -> None:
    with pytest.raises(ReadError, match="Broker 77 "):
        read_log_dirs(kafka, [1, 77])


def test_offsets_count_the_records(
    cluster: LocalCluster, kafka: KafkaConnection, fresh_topic_name: Callable[[], str]
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2), 1: (3, 4), 2: (2,)})
    cluster.produce(topic, {0: 5 * RECORD_BYTES, 1: RECORD_BYTES})
    wanted = [TopicPartition(topic, partition) for partition in range(3)]
    assert read_end_offsets(kafka, wanted) == dict(zip(wanted, (5, 1, 0), strict=True))
    assert read_start_offsets(kafka, wanted) == dict.fromkeys(wanted, 0)


def test_a_release_from_3_6_on_tells_what_is_on_disk_and_older_ones_are_not_taken_at_their_word(
    cluster: LocalCluster, kafka: KafkaConnection, fresh_topic_name: Callable[[], str]
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2), 1: (3, 4)})
    cluster.produce(topic, {0: 5 * RECORD_BYTES})
    first, second, gone = (TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(f"{topic}-gone", 0))
    found = read_local_starts(kafka, {first: 1, second: 3, gone: 3})
    if cluster.version.startswith("3."):
        assert found.offsets == {first: 0, second: 0}
        assert found.untold == {gone: "broker 3 answers UnknownTopicOrPartitionError"}
        assert read_local_starts(kafka, {first: 3}).untold == {first: "broker 3 answers NotLeaderForPartitionError"}
    else:
        assert found.offsets == {}
        assert set(found.untold) == {first, second, gone}
        assert "broker 1 is of a release before 3.6" in found.untold[first]


def test_brokers_and_zookeeper_tell_the_same_cluster_id(cluster: LocalCluster, kafka: KafkaConnection) -> None:
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
        assert read_cluster_id(kafka) == read_cluster_view(client, []).cluster_id


def test_effective_configs_say_on_which_level_each_was_set(cluster: LocalCluster, kafka: KafkaConnection) -> None:
    configs = read_effective_configs(kafka, sorted(cluster.brokers))
    assert set(configs) == set(cluster.brokers)
    for broker, values in configs.items():
        assert values["log.segment.bytes"] == ConfigValue("1073741824", "DEFAULT_CONFIG")
        assert values["log.roll.hours"].value == "168"
        assert values["log.roll.ms"].value is None
        assert values["zookeeper.session.timeout.ms"] == ConfigValue("4000", "STATIC_BROKER_CONFIG")
        assert values["log.dirs"].value == str(cluster.folder / f"data-{broker}")
        # Sensitive ones, set or not, as every version calls them.
        assert not {"ssl.keystore.password", "ssl.key.password", "sasl.jaas.config"} & values.keys()


def test_a_value_set_for_all_brokers_or_for_one_shows_its_level(cluster: LocalCluster, kafka: KafkaConnection) -> None:
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
        try:
            set_config(client, "brokers/<default>", {"num.io.threads": "5"})
            set_config(client, "brokers/1", {"background.threads": "3"})
            wait_for(kafka, 1, "background.threads", ConfigValue("3", "DYNAMIC_BROKER_CONFIG"))
            wait_for(kafka, 1, "num.io.threads", ConfigValue("5", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
            wait_for(kafka, 2, "num.io.threads", ConfigValue("5", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
        finally:
            set_config(client, "brokers/<default>", {})
            set_config(client, "brokers/1", {})
            wait_for(kafka, 1, "background.threads", ConfigValue("2", "STATIC_BROKER_CONFIG"))
            wait_for(kafka, 2, "num.io.threads", ConfigValue("4", "STATIC_BROKER_CONFIG"))


def set_config(client: Any, entity: str, config: dict[str, str]) -> None:
    """As kafka-configs does; the package itself writes throttles only."""
    client.ensure_path(f"/config/{entity}")
    client.set(f"/config/{entity}", json.dumps({"version": 1, "config": config}).encode())
    notification = json.dumps({"version": 2, "entity_path": entity}).encode()
    client.create("/config/changes/config_change_", notification, sequence=True)


def wait_for(kafka: KafkaConnection, broker: int, key: str, expected: ConfigValue) -> None:
    give_up = time.monotonic() + 30
    while (found := read_effective_configs(kafka, [broker])[broker][key]) != expected:
        assert time.monotonic() < give_up, f"{key} of broker {broker} is {found}, not {expected}"
        time.sleep(0.05)


def test_each_version_calls_internal_what_is_known_by_name(
    cluster: LocalCluster, kafka: KafkaConnection, fresh_topic_name: Callable[[], str]
) -> None:
    """A group and a transaction make Kafka's own topics. A name alone makes none."""
    topic = f"__{fresh_topic_name()}"
    cluster.create_topic(topic, {0: (1,)})
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "broker.address.family": "v4", "log_level": 0}
    reader = Consumer({**servers, "group.id": "makes-offsets"})
    reader.commit(offsets=[ClientTopicPartition(topic, 0, 0)], asynchronous=False)
    reader.close()
    writer = Producer({**servers, "transactional.id": "makes-transactions"})
    writer.init_transactions(60)
    told = read_internal_topics(kafka)
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
        names = {tp.topic for tp in read_cluster_view(client).partitions}
    assert topic in names
    assert (
        told == {name for name in names if BY_NAME.is_internal(name)} == {"__consumer_offsets", "__transaction_state"}
    )
