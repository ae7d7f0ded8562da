"""Configs of brokers and topics by entity, as throttles name them."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.model.cluster_view import entity_of


def read_configs(cluster: OpenCluster, entities: Collection[str]) -> dict[str, dict[str, str]]:
    """{entity: {key: value}} of these brokers and topics, read in one round of requests."""
    names = [entity.partition("/") for entity in entities]
    topics = cluster.read_topic_configs([name for kind, _, name in names if kind == "topics"])
    brokers = cluster.read_broker_configs([int(name) for kind, _, name in names if kind == "brokers"])
    return {
        **{f"topics/{topic}": values for topic, values in topics.items()},
        **{entity_of(broker): values for broker, values in brokers.items()},
    }


def read_away(cluster: OpenCluster, entities: Collection[str]) -> frozenset[str]:
    """The entities that nobody can read or change now: brokers that are away, on a cluster without ZooKeeper."""
    brokers = {int(entity.removeprefix("brokers/")) for entity in entities if entity.startswith("brokers/")}
    return frozenset(map(entity_of, cluster.read_away(brokers)))


def read_lease_configs(cluster: OpenCluster, lease: ThrottleLease) -> tuple[ThrottleLease, dict[str, dict[str, str]]]:
    """(the lease without brokers that are away, what is set now on its entities)

    A broker that is away neither sends nor receives. What the lease has set on it comes back with it.
    """
    here = lease.without(read_away(cluster, lease.wanted))
    return here, read_configs(cluster, here.wanted)
