"""What the steps read of a cluster and write to it, whichever way it is reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kafka_rebalance.execution.topics.house_rules import TopicChange
from kafka_rebalance.execution.topics.topic_writes import Created, Deletion
from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import PartitionState, TopicPartition


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
    """Carries out an approved change of one topic.

    `registered` are the live brokers. Nothing is done to another topic of the name. Each method may be called again
    after it failed. Raises KafkaRuleError if Kafka refuses the change, StaleProposalError if the topic is another one,
    WriteError or ReadError if the outcome is unknown.
    """

    def check_accepted(self, change: TopicChange) -> None:
        """Raises KafkaRuleError if Kafka would refuse the change. It writes nothing."""

    def create(self, change: TopicChange, registered: Collection[int]) -> Created:
        """With exactly the assignment and the configs of the change."""

    def expand(self, change: TopicChange, registered: Collection[int], fence: Fence) -> None:
        """Adds exactly the new partitions of the change."""

    def set_configs(self, change: TopicChange) -> None:
        """Other keys stay."""

    def delete(self, change: TopicChange, fence: Fence) -> Outcome: ...

    def read_deletion(self, change: TopicChange) -> Deletion:
        """What is left of the topic, but not of a new one of its name."""
