"""The cluster around the partitions: brokers, controller, and the requests to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kafka_rebalance.model.partition import PartitionView, TopicPartition


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a broker."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """`/brokers/ids/N` (v1 to v5). `czxid` is the zxid that created the znode; Kafka calls it the broker epoch."""

    broker: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class Controller:
    """`/controller` and `/controller_epoch`. `kraft_epoch` >= 0: a KRaft controller has the cluster (3.4+).

    Without ZooKeeper it is the quorum's leader with its epoch, and `since_ms` is unknown.
    """

    broker: int
    epoch: int
    since_ms: int | None = None
    kraft_epoch: int = -1


@dataclass(frozen=True, slots=True)
class SettledController:
    """A live controller: two reads with a pause found it registered in the session that elected it.

    `epochs` are those of the two reads. One failover between them adds 1. After more failovers (an election storm)
    this value does not exist.
    """

    controller: Controller
    epochs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Traits:
    """What a cluster shows and can do, by the way in which it is reached.

    `has_request_znode`: a request stands in a znode, which a controller may miss, drop or keep for ever. Without it,
    the controller answers each request at once and lists what is in motion. `has_broker_epochs`: a broker that has
    registered again is told from one that never went away.
    """

    has_request_znode: bool
    has_broker_epochs: bool


BY_ZOOKEEPER = Traits(has_request_znode=True, has_broker_epochs=True)
BY_ADMIN_API = Traits(has_request_znode=False, has_broker_epochs=False)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What ZooKeeper says at one moment, read after a `sync`; or what controllers and brokers say, without ZooKeeper.

    `reassignments` and `elections` are None if the znode does not exist. An empty znode is not the same: it still
    blocks every further request. `requested_gone`: requested partitions that do not exist, or whose topic is newer than
    the request. `requested_again`: those of them that exist again.

    `voters`: the quorum's nodes; empty with ZooKeeper. Without it there is no request znode, and Kafka tells nobody
    which topics it is deleting. `internal`: topics that the brokers call so; ZooKeeper does not say.
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
    voters: frozenset[int] = frozenset()
    traits: Traits = BY_ZOOKEEPER
    internal: frozenset[str] = frozenset()

    @property
    def moving(self) -> frozenset[TopicPartition]:
        """Partitions under reassignment, by the znode or by Kafka's API (2.4+)."""
        by_api = {tp for tp, partition in self.partitions.items() if partition.in_motion}
        return frozenset(self.reassignments or ()) | by_api

    @property
    def racks(self) -> dict[int, str | None]:
        return {broker: registration.rack for broker, registration in self.brokers.items()}


@dataclass(frozen=True, slots=True)
class BatchView:
    """The part of a `ClusterView` that a follower needs: the partitions of a batch, and the registered brokers.

    One look at a batch reads each of its topics and partition states once, and does seven more reads.
    """

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionView]
    reassignments: Mapping[TopicPartition, tuple[int, ...]] | None
    elections: frozenset[TopicPartition] | None
    controller: Controller | None
    deletions: frozenset[str]
    traits: Traits = BY_ZOOKEEPER

    @property
    def is_requested(self) -> bool:
        """Whether a request stands: for this batch or, without a request znode, a move of this batch."""
        return self.reassignments is not None or (not self.traits.has_request_znode and bool(self.moving))

    @property
    def moving(self) -> frozenset[TopicPartition]:
        """Partitions of the batch that their topic's znode marks, and all that the reassignment znode requests."""
        return frozenset(self.reassignments or ()) | {
            tp for tp, partition in self.partitions.items() if partition.in_motion
        }


AnyView: TypeAlias = ClusterView | BatchView


# The configs of a broker, and the level on which each value was set.


class ConfigValue(NamedTuple):
    """`value` None: not set. `source` is Kafka's name of its level, as in `DYNAMIC_BROKER_CONFIG`."""

    value: str | None
    source: str


BrokerConfigs: TypeAlias = Mapping[str, tuple[str | None, str]]  # key -> ConfigValue, or a plain pair
ConfigsByBroker: TypeAlias = Mapping[int, BrokerConfigs]


DEFAULT_BROKER = -1  # stands for /config/brokers/<default>


def entity_of(broker: int) -> str:
    """`brokers/1`, or `brokers/<default>`."""
    return "brokers/<default>" if broker == DEFAULT_BROKER else f"brokers/{broker}"
