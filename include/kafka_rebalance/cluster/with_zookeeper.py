"""A cluster in ZooKeeper mode: everything is read from ZooKeeper, and the cluster id from the brokers as well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kazoo.client import KazooClient

from kafka_rebalance.cluster import same_cluster
from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import PartitionState, TopicPartition
from kafka_rebalance.zookeeper import cluster_lock, reader
from kafka_rebalance.zookeeper.settled_controller import check_controller_stable


class ZooKeeperReader:
    """See `ClusterReader`."""

    def __init__(self, connection: ClusterConnection, client: KazooClient) -> None:
        self._connection = connection
        self._client = client

    def check_controller_stable(self, pause: Callable[[], None]) -> SettledController:
        return check_controller_stable(self._client, pause)

    def read_view(
        self,
        topics: Collection[str] | None = None,
        *,
        known: Mapping[TopicPartition, PartitionState | None] | None = None,
    ) -> ClusterView:
        return reader.read_cluster_view(self._client, topics, known=known)

    def check_same_cluster(self, view: ClusterView) -> None:
        same_cluster.check_same_cluster(self._connection, view)

    def check_is_whole(self, view: ClusterView) -> None:
        """ZooKeeper gives all topics, or an error."""

    def read_topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        return reader.read_topic_configs(self._client, topics)

    def read_broker_configs(self, brokers: Collection[int]) -> dict[int, dict[str, str]]:
        return reader.read_broker_configs(self._client, brokers)

    def read_lock(self) -> cluster_lock.LockOwner | None:
        return cluster_lock.read(self._client)
