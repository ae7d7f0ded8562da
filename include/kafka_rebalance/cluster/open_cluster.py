"""The one place that chooses how a cluster is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka_rebalance.admin.cluster_lock import TopicLock
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.cluster.with_admin_api import AdminApiCluster
from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.zookeeper.client import open_client


@contextmanager
def open_cluster(connection: ClusterConnection) -> Iterator[OpenCluster]:
    """Raises ReadError, ConnectionSettingsError."""
    if connection.has_zookeeper:
        with open_client(connection.zookeeper) as client:
            yield ZooKeeperCluster(connection, client)
    else:
        with open_wire(connection.kafka) as wire, TopicLock(connection.kafka, wire) as lock:
            yield AdminApiCluster(connection.kafka, wire, lock)
