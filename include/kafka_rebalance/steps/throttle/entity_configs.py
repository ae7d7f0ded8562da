"""Configs of brokers and topics by entity, as throttles name them."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.verification.segments.unloadable_configs import entity_of


def read_configs(cluster: OpenCluster, entities: Collection[str]) -> dict[str, dict[str, str]]:
    """{entity: {key: value}} of these brokers and topics, read in one round of requests."""
    names = [entity.partition("/") for entity in entities]
    topics = cluster.read_topic_configs([name for kind, _, name in names if kind == "topics"])
    brokers = cluster.read_broker_configs([int(name) for kind, _, name in names if kind == "brokers"])
    return {
        **{f"topics/{topic}": values for topic, values in topics.items()},
        **{entity_of(broker): values for broker, values in brokers.items()},
    }
