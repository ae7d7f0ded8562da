"""The cluster's id, as its brokers report it."""

from __future__ import annotations

from kafka_rebalance.admin.first_contact import describe_cluster
from kafka_rebalance.model.connection import KafkaConnection


def read_cluster_id(kafka: KafkaConnection) -> str:
    """The id that the brokers report. ZooKeeper of the same cluster has the same id. Raises ReadError."""
    return str(describe_cluster(kafka).cluster_id)
