"""The cluster around the partitions: brokers, controller, and what is requested of the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kafka_rebalance.model.partition import PartitionView, TopicPartition


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a broker."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """`/brokers/ids/N` (v1 to v5). `czxid` is the znode's creation zxid, which Kafka calls the broker epoch."""

    broker: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    version: int = 4
    timestamp_ms: int | None = None
    jmx_port: int = -1
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class Controller:
    """`/controller` and `/controller_epoch`. `kraft_epoch` >= 0: a KRaft controller owns the cluster (3.4+)."""

    broker: int
    epoch: int
    since_ms: int | None = None
    kraft_epoch: int = -1


@dataclass(frozen=True, slots=True)
class SettledController:
    """A live controller, read twice with a pause between: both times registered in the session that elected it.

    `epochs` are those of the two reads. An ordinary failover meanwhile adds one; more is an election storm, and then
    there is no such value.
    """

    controller: Controller
    epochs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What ZooKeeper says at one moment, read after a `sync`.

    `reassignments` and `elections` are None where the znode does not exist: not the same as an empty one,
    which still blocks every further request. `requested_gone`: what is requested of topics or partitions that do not
    exist, or of topics that were made after the request; `requested_again`: those of them that exist again.
    """

    cluster_id: str
    controller: Controller | None
    brokers: Mapping[int, BrokerRegistration]
    partitions: Mapping[TopicPartition, PartitionView]
    reassignments: Mapping[TopicPartition, tuple[int, ...]] | None
    elections: frozenset[TopicPartition] | None
    deletions: frozenset[str]
    requested_gone: frozenset[TopicPartition] = frozenset()
    requested_again: frozenset[TopicPartition] = frozenset()

    @property
    def moving(self) -> frozenset[TopicPartition]:
        """Partitions that are being reassigned: those requested by the znode, and those by Kafka's API (2.4+)."""
        by_api = {tp for tp, partition in self.partitions.items() if partition.in_motion}
        return frozenset(self.reassignments or ()) | by_api

    @property
    def racks(self) -> dict[int, str | None]:
        return {broker: registration.rack for broker, registration in self.brokers.items()}


@dataclass(frozen=True, slots=True)
class BatchView:
    """As much of a `ClusterView` as following a batch needs: named partitions alone, and which brokers are registered.

    One look at a batch reads its topics and its partitions' states once each, and seven things more.
    """

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionView]
    reassignments: Mapping[TopicPartition, tuple[int, ...]] | None
    elections: frozenset[TopicPartition] | None
    controller: Controller | None
    deletions: frozenset[str]

    @property
    def moving(self) -> frozenset[TopicPartition]:
        """Of the named partitions those that the topic's znode marks, and all that are requested by the znode."""
        return frozenset(self.reassignments or ()) | {tp for tp, one in self.partitions.items() if one.in_motion}


AnyView: TypeAlias = ClusterView | BatchView
