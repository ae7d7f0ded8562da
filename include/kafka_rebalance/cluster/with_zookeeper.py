"""A cluster in ZooKeeper mode: everything is read from ZooKeeper, and the cluster id from the brokers as well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kazoo.client import KazooClient

from kafka_rebalance.cluster import same_cluster
from kafka_rebalance.execution.topics.house_rules import TopicChange
from kafka_rebalance.execution.topics.topic_writes import Created, Deletion
from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import PartitionState, TopicPartition
from kafka_rebalance.zookeeper import cluster_lock, reader, topic_writes
from kafka_rebalance.zookeeper.settled_controller import check_controller_stable


class ZooKeeperCluster:
    """See `OpenCluster`."""

    def __init__(self, connection: ClusterConnection, client: KazooClient) -> None:
        self._connection = connection
        self._client = client

    @property
    def topics(self) -> ZooKeeperTopics:
        return ZooKeeperTopics(self._client)

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

    def read_lock(self) -> LockOwner | None:
        return cluster_lock.read(self._client)

    def acquire(self, owner: LockOwner) -> Fence:
        return cluster_lock.acquire(self._client, owner)

    def release(self, owner: LockOwner) -> None:
        cluster_lock.release(self._client, owner)


class ZooKeeperTopics:
    """See `TopicWriter`."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def check_accepted(self, change: TopicChange) -> None:
        """No server checks what is written to ZooKeeper, so this project's copy of Kafka's rules has done so."""

    def create(self, change: TopicChange, registered: Collection[int]) -> Created:
        assert change.kafka_version is not None
        return topic_writes.create_topic(
            self._client,
            change.topic,
            change.new_partitions,
            change.configs_after,
            version=change.kafka_version,
            registered=registered,
        )

    def expand(self, change: TopicChange, registered: Collection[int], fence: Fence) -> None:
        topic_writes.write_more_partitions(
            self._client,
            change.topic,
            change.new_partitions,
            expected=change.existing,
            registered=registered,
            fence=fence,
        )

    def set_configs(self, change: TopicChange) -> None:
        assert change.kafka_version is not None
        topic_writes.set_topic_configs(
            self._client, change.topic, change.config_changes, version=change.kafka_version, expected=change.existing
        )

    def delete(self, change: TopicChange, fence: Fence) -> Outcome:
        return topic_writes.delete_topic(self._client, change.topic, expected=change.existing, fence=fence)

    def read_deletion(self, change: TopicChange) -> Deletion:
        return topic_writes.read_deletion(self._client, change.topic, expected=change.existing)
