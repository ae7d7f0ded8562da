"""A cluster in ZooKeeper mode: everything is read from ZooKeeper, and the cluster id from the brokers as well."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from kazoo.client import KazooClient

from kafka_rebalance.admin import cluster_view, log_dirs, reassignments
from kafka_rebalance.cluster import announced_requests
from kafka_rebalance.cluster.protocols import Stopped
from kafka_rebalance.errors import ConnectionSettingsError, ReadError
from kafka_rebalance.kafka.topics import BY_NAME, KafkasOwn
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.cluster_view import AnyView, BatchView, ClusterView, SettledController
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import PartitionState, TopicAssignment, TopicPartition
from kafka_rebalance.model.topic_change import Created, Deletion, TopicChange
from kafka_rebalance.zookeeper import client as zookeeper_client
from kafka_rebalance.zookeeper import (
    config_writes,
    missing_rights,
    reader,
    topic_writes,
    writer,
    znodes,
)
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.reader import check_controller_stable

log = logging.getLogger(__name__)

T = TypeVar("T")


class ZooKeeperCluster:
    """See `OpenCluster`."""

    def __init__(self, connection: ClusterConnection, client: KazooClient) -> None:
        self._connection = connection
        self._client = client
        self._copies = announced_requests.CopiesWithin(connection.kafka, partial(reader.read_broker_ids, client))

    @property
    def lock(self) -> ZooKeeperLock:
        return ZooKeeperLock(self._client)

    @property
    def topics(self) -> ZooKeeperTopics:
        return ZooKeeperTopics(self._client, self._read_kafkas_own)

    @property
    def late_seconds(self) -> float:
        return 0.0

    def check_controller_stable(self, pause: Callable[[], None]) -> SettledController:
        return check_controller_stable(self._client, pause)

    def read_view(
        self,
        topics: Collection[str] | None = None,
        *,
        known: Mapping[TopicPartition, PartitionState | None] | None = None,
    ) -> ClusterView:
        return reader.read_cluster_view(self._client, topics, known=known)

    def read_view_again(
        self, topics: Collection[str], earlier: ClusterView, partitions: Collection[TopicPartition]
    ) -> ClusterView:
        known = {tp: one.state for tp, one in earlier.partitions.items() if tp not in partitions}
        return reader.read_cluster_view(self._client, topics, known=known)

    def read_batch_view(self, partitions: Collection[TopicPartition]) -> BatchView:
        return reader.read_batch_view(self._client, partitions)

    def has_request(self) -> bool:
        return zookeeper_client.exists(self._client, znodes.REASSIGN_PARTITIONS)

    def check_same_cluster(self, view: ClusterView) -> None:
        check_same_cluster(self._connection, view)

    def check_is_whole(self, view: ClusterView) -> None:
        """ZooKeeper gives all topics, or an error."""

    def read_missing_rights(self, view: ClusterView) -> tuple[Finding, ...]:
        return missing_rights.read_missing_rights(self._client, view.brokers, {tp.topic for tp in view.partitions})

    def read_assignments(self) -> dict[str, TopicAssignment]:
        return reader.read_assignments(self._client, self.read_topic_names())

    def read_moving(self, besides: Collection[str]) -> Collection[TopicPartition]:
        """The controller tells them: a large cluster has too many topics to read all their znodes before each batch."""
        found = reassignments.read_reassignments(self._connection.kafka)
        if found is not None:
            return [tp for tp in found if tp.topic not in besides]
        topics = self.read_topic_names() - set(besides)
        return [
            TopicPartition(topic, number)
            for topic, assignment in reader.read_assignments(self._client, topics).items()
            for number in {*assignment.adding, *assignment.removing}
        ]

    def read_kafkas_own(self, view: ClusterView) -> KafkasOwn:
        return self._read_kafkas_own()

    def _read_kafkas_own(self) -> KafkasOwn:
        """ZooKeeper does not say which topics are internal, so a broker is asked."""
        try:
            return KafkasOwn(cluster_view.read_internal_topics(self._connection.kafka))
        except ReadError as silent:
            log.warning("%s Only the names tell which topics are Kafka's own.", silent)
            return BY_NAME

    def read_movers(
        self, partitions: Collection[TopicPartition], *, besides: LockOwner | None = None
    ) -> Mapping[TopicPartition, str]:
        return {}

    def read_topic_names(self) -> frozenset[str]:
        return frozenset(zookeeper_client.read_children(self._client, znodes.TOPICS))

    def read_topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        return reader.read_topic_configs(self._client, topics)

    def read_broker_configs(self, brokers: Collection[int]) -> dict[int, dict[str, str]]:
        return reader.read_broker_configs(self._client, brokers)

    def read_away(self, brokers: Collection[int]) -> frozenset[int]:
        return frozenset()

    def read_copies_within(self, brokers: Collection[int]) -> dict[int, frozenset[TopicPartition]]:
        return log_dirs.read_copies_within(self._connection.kafka, brokers)

    def read_all_configs(self) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
        return reader.read_all_configs(self._client)

    def read_orphaned_configs(self) -> dict[str, int]:
        return config_writes.read_orphaned_configs(self._client)

    def delete_orphaned_config(self, topic: str, changed: int) -> None:
        config_writes.delete_orphaned_config(self._client, topic, changed)

    def request_moves(
        self, batch: Batch, approved_digest: str, registered: Collection[int], *, view: AnyView, fence: Fence
    ) -> Mapping[TopicPartition, str]:
        """The controller reads the request later, and tells nobody what it refuses."""
        writer.create_reassignment(self._client, batch, approved_digest, registered, view=view, fence=fence)
        return {}

    def stop_requests(self) -> Stopped:
        """Moves are never late: their request and the check of the fence are one transaction."""
        return Stopped(*announced_requests.stop(self.lock, [self._copies]))

    def request_copies(
        self,
        owner: LockOwner,
        broker: int,
        targets: Mapping[TopicPartition, str],
        send: Callable[[float], T],
        *,
        fence: Fence,
    ) -> tuple[Fence, T]:
        return announced_requests.send_copies(self.lock, self._copies, owner, broker, targets, send, fence)

    def take_back_late_requests(
        self, owner: LockOwner, own: Mapping[TopicPartition, tuple[int, ...]]
    ) -> frozenset[TopicPartition]:
        return frozenset()

    def take_back_late_copies(self) -> frozenset[tuple[int, TopicPartition]]:
        return announced_requests.take_back_unheld(self.lock, self._copies)

    def elect_leaders(self, partitions: Collection[TopicPartition], view: AnyView, *, fence: Fence) -> None:
        writer.create_election(self._client, partitions, view, fence=fence)

    def can_cancel(self) -> bool:
        return reassignments.can_cancel(self._connection.kafka)

    def cancel_moves(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        return reassignments.cancel_reassignments(self._connection.kafka, partitions)

    def merge_configs(
        self,
        changes: Mapping[str, Mapping[str, str | None]],
        *,
        decided_on: Mapping[str, Mapping[str, str]],
        fence: Fence,
    ) -> None:
        for entity, values in changes.items():
            config_writes.merge_config(self._client, entity, values, decided_on=decided_on.get(entity, {}), fence=fence)


class ZooKeeperTopics:
    """See `TopicWriter`."""

    def __init__(self, client: KazooClient, kafkas_own: Callable[[], KafkasOwn]) -> None:
        self._client = client
        self._kafkas_own = kafkas_own

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
            kafkas_own=self._kafkas_own(),
        )

    def set_configs(self, change: TopicChange) -> None:
        assert change.kafka_version is not None
        topic_writes.set_topic_configs(
            self._client, change.topic, change.config_changes, version=change.kafka_version, expected=change.existing
        )

    def delete(self, change: TopicChange, fence: Fence) -> Outcome:
        own = self._kafkas_own()
        return topic_writes.delete_topic(
            self._client, change.topic, expected=change.existing, fence=fence, kafkas_own=own
        )

    def read_deletion(self, change: TopicChange) -> Deletion:
        return topic_writes.read_deletion(self._client, change.topic, expected=change.existing)


def check_same_cluster(connection: ClusterConnection, view: ClusterView) -> None:
    """Raises ConnectionSettingsError if the brokers report another cluster id than ZooKeeper has, ReadError.

    They are two settings of the connection, and people can edit either while a request waits.
    """
    reported = cluster_view.read_cluster_id(connection.kafka)
    if reported != view.cluster_id:
        raise ConnectionSettingsError(
            f"The connection {connection.connection_id!r} names two clusters: ZooKeeper {connection.zookeeper.hosts} "
            f"is {view.cluster_id}, bootstrap servers {connection.kafka.bootstrap_servers} are {reported}. "
            "Correct one of them under Admin, Connections."
        )
