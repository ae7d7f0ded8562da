"""A cluster without ZooKeeper: everything is read through Kafka's Admin API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kafka_rebalance.admin import set_configs, topic_changes
from kafka_rebalance.admin.cluster_view import check_quorum_stable, read_view
from kafka_rebalance.admin.replica_sizes import read_log_dirs
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import ReadError
from kafka_rebalance.execution.topics.house_rules import TopicChange
from kafka_rebalance.execution.topics.topic_writes import Created, Deletion
from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence, LockOwner
from kafka_rebalance.model.partition import PartitionState, TopicPartition


class AdminApiCluster:
    """See `OpenCluster`."""

    def __init__(self, kafka: KafkaConnection, wire: Wire) -> None:
        self._kafka = kafka
        self._wire = wire

    @property
    def topics(self) -> AdminApiTopics:
        return AdminApiTopics(self._wire)

    def check_controller_stable(self, pause: Callable[[], None]) -> SettledController:
        return check_quorum_stable(self._wire, pause)

    def read_view(
        self,
        topics: Collection[str] | None = None,
        *,
        known: Mapping[TopicPartition, PartitionState | None] | None = None,
    ) -> ClusterView:
        return read_view(self._wire, topics)

    def check_same_cluster(self, view: ClusterView) -> None:
        """Bootstrap servers are the only address."""

    def check_is_whole(self, view: ClusterView) -> None:
        """Brokers leave out topics that the user may not describe, without an error. Their log dirs have all."""
        held = read_log_dirs(self._kafka, sorted(view.brokers), of_the_rest=True).replicas
        hidden = sorted({tp.topic for tp in held} - {tp.topic for tp in view.partitions})
        if hidden:
            raise ReadError(
                f"The brokers hold {len(hidden)} topics that they do not list for this user, first "
                f"{listed(hidden[:5])}. A plan without them would be for a smaller cluster. Nothing was written. Grant "
                "the Kafka user Describe on all topics; if somebody is creating or deleting topics now, try again."
            )

    def read_topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        return set_configs.read_topic_configs(self._wire, topics)

    def read_broker_configs(self, brokers: Collection[int]) -> dict[int, dict[str, str]]:
        return set_configs.read_broker_configs(self._wire, brokers)

    @property
    def lock(self):  # temporary
        return _NoLock()


class _NoLock:
    def read(self) -> LockOwner | None:
        return None

    def acquire(self, owner: LockOwner) -> Fence:
        return NO_FENCE

    def release(self, owner: LockOwner, *, fence: Fence | None = None) -> bool:
        return True


class AdminApiTopics:
    """See `TopicWriter`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def check_accepted(self, change: TopicChange) -> None:
        topic_changes.check_accepted(self._wire, change)

    def create(self, change: TopicChange, registered: Collection[int]) -> Created:
        return Created(topic_changes.create_topic(self._wire, change, registered))

    def expand(self, change: TopicChange, registered: Collection[int], fence: Fence) -> None:
        topic_changes.expand_topic(self._wire, change, registered)

    def set_configs(self, change: TopicChange) -> None:
        topic_changes.change_configs(self._wire, change)

    def delete(self, change: TopicChange, fence: Fence) -> Outcome:
        return topic_changes.delete_topic(self._wire, change.topic, expected=change.existing)

    def read_deletion(self, change: TopicChange) -> Deletion:
        """Kafka tells nobody which topics it is about to delete: a topic is there, or it is not."""
        left = topic_changes.topic_exists(self._wire, change.topic, change.existing)
        return Deletion(marked=False, topic_left=left, config_left=False)
