"""Copies between log dirs under a lease's rate: nobody lifts it while they run, or while their broker is away."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.entity_configs import read_away


def read_copies_within(
    cluster: OpenCluster, configs: Mapping[str, Mapping[str, object]], view: ClusterView
) -> dict[int, frozenset[TopicPartition]]:
    """The replicas on their way between log dirs of the brokers that have the rate for that in `configs`, by broker.

    Copies of others count, because the rate slows them too. A broker that is not registered copies nothing, and nobody
    can ask it. Raises ReadError if a registered one does not answer.
    """
    slowed = view.brokers.keys() & _slowed(configs).values()
    return cluster.read_copies_within(sorted(slowed)) if slowed else {}


def read_left_alone(
    cluster: OpenCluster, configs: Mapping[str, Mapping[str, object]], view: ClusterView
) -> frozenset[str]:
    """The brokers of a lease's `configs` that are away, and whose part of it stays until they are back.

    Without ZooKeeper nobody can change it. With ZooKeeper that is the rate for copies between log dirs: they go on
    when the broker is back. Other copies to a broker that is away are judged by `copying_of`. Both calls take the same
    view, so a broker that returns meanwhile is not away for the one and asked by neither.
    """
    slowed = {entity for entity, broker in _slowed(configs).items() if broker not in view.brokers}
    return read_away(cluster, configs.keys()) | slowed


def _slowed(configs: Mapping[str, Mapping[str, object]]) -> dict[str, int]:
    return {entity: int(entity.removeprefix("brokers/")) for entity, keys in configs.items() if LOG_DIR_RATE in keys}
