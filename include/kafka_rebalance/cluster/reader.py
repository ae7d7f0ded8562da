"""What the steps read of a cluster, whichever way it is reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.partition import PartitionState, TopicPartition
from kafka_rebalance.zookeeper.cluster_lock import LockOwner


class ClusterReader(Protocol):
    """One open connection. Every method raises ReadError if it cannot read: that is never "nothing there"."""

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
