"""What the steps read of a cluster and write to it, whichever way it is reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from kafka_rebalance.execution.topics.house_rules import TopicChange
from kafka_rebalance.execution.topics.topic_writes import Created, Deletion
from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.partition import PartitionState, TopicIdentity, TopicPartition
from kafka_rebalance.zookeeper.cluster_lock import Fence, LockOwner


class OpenCluster(Protocol):
    """One open connection. Every method raises ReadError if it cannot read: that is never "nothing there"."""

    @property
    def topics(self) -> TopicWriter: ...

    def check_controller_stable(self, pause: Callable[[], None]) -> SettledController:
        """The controller, read twice with `pause` between. Raises ClusterNotReadyError if none is settled."""

    def read_view(
        self,
        topics: Collection[str] | None = None,
        *,
        known: Mapping[TopicPartition, PartitionState | None] | None = None,
    ) -> ClusterView:
        """The cluster now, with all topics or those named; a topic that does not exist is absent.

        The states of partitions in `known` may come from there, if to read them costs more.
        """

    def check_same_cluster(self, view: ClusterView) -> None:
        """Raises ConnectionSettingsError if two settings of the connection lead to two clusters."""

    def check_is_whole(self, view: ClusterView) -> None:
        """Raises ReadError if a view of all topics lacks some."""

    def read_topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """The configs that are set on each topic, without defaults."""

    def read_broker_configs(self, brokers: Collection[int]) -> dict[int, dict[str, str]]:
        """The dynamic configs of each broker, and as broker -1 those of all brokers."""

    def read_lock(self) -> LockOwner | None:
        """Who holds the cluster."""

    def acquire(self, owner: LockOwner) -> Fence:
        """Takes the cluster. Raises LockHeldError."""

    def release(self, owner: LockOwner) -> None:
        """Gives the cluster back, if this owner holds it."""


class TopicWriter(Protocol):
    """Changes one topic.

    `expected` identifies the topic: nothing is done to another one of its name. Each method may be called again after
    it failed. Raises KafkaRuleError if Kafka refuses the change, StaleProposalError if the topic is another one,
    WriteError or ReadError if the outcome is unknown.
    """

    def check_accepted(self, change: TopicChange) -> None:
        """Raises KafkaRuleError if Kafka would refuse the change. It writes nothing."""

    def create(
        self,
        topic: str,
        assignment: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        *,
        version: str | None,
        registered: Collection[int],
    ) -> Created:
        """With exactly this assignment, broker ids by partition, and these configs. `registered`: the live brokers."""

    def expand(
        self,
        topic: str,
        added: Mapping[int, Sequence[int]],
        *,
        expected: TopicIdentity,
        registered: Collection[int],
        fence: Fence,
    ) -> None:
        """Adds exactly these partitions."""

    def set_configs(
        self, topic: str, changes: Mapping[str, str | None], *, version: str | None, expected: TopicIdentity
    ) -> None:
        """None removes a key; others stay."""

    def delete(self, topic: str, *, expected: TopicIdentity, fence: Fence) -> Outcome: ...

    def read_deletion(self, topic: str, *, expected: TopicIdentity) -> Deletion:
        """What is left of the topic, but not of a new one of its name."""
