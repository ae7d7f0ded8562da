"""Copies between log dirs under a lease's rate: nobody lifts it while they run."""

from __future__ import annotations

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition


def read_copies_within(
    cluster: OpenCluster, lease: ThrottleLease, view: ClusterView
) -> dict[int, frozenset[TopicPartition]]:
    """The replicas on their way between log dirs of the brokers whose rate for that the lease sets, by broker.

    Copies of others count, because the rate slows them too. A broker that is not registered copies nothing, and nobody
    can ask it. Raises ReadError if a registered one does not answer.
    """
    slowed = [int(entity.removeprefix("brokers/")) for entity, keys in lease.wanted.items() if LOG_DIR_RATE in keys]
    return cluster.read_copies_within(sorted(view.brokers.keys() & set(slowed))) if slowed else {}
