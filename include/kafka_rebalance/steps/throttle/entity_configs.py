"""Configs of brokers and topics by entity, as throttles name them."""

from __future__ import annotations

from collections.abc import Collection

from kazoo.client import KazooClient

from kafka_rebalance.verification.segments.unloadable_configs import entity_of
from kafka_rebalance.zookeeper.reader import read_broker_configs, read_topic_configs


def read_configs(client: KazooClient, entities: Collection[str]) -> dict[str, dict[str, str]]:
    """{entity: {key: value}} of these brokers and topics, read in one round of requests."""
    names = [entity.partition("/") for entity in entities]
    topics = read_topic_configs(client, [name for kind, _, name in names if kind == "topics"])
    brokers = read_broker_configs(client, [int(name) for kind, _, name in names if kind == "brokers"])
    return {
        **{f"topics/{topic}": values for topic, values in topics.items()},
        **{entity_of(broker): values for broker, values in brokers.items()},
    }
