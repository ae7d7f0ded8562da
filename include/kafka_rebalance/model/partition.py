"""Partitions as ZooKeeper and the brokers describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition. A NamedTuple, so that plain `(topic, partition)` tuples compare equal to it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


ReplicaBytes = Mapping[TopicPartition, Mapping[int, int]]  # bytes by broker; a copy in the making is there as it grows


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """`/brokers/topics/T`: the ordered replica list of each partition, and what is in motion.

    While a partition moves (2.4+), `partitions[p]` is the target followed by the originals that are still to be
    removed; `adding` and `removing` name the two (KIP-455). Below 2.4 both are always empty.
    """

    partitions: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    topic_id: str | None = None
    marks_moves: bool = False  # the form in which a controller of 2.4 or later writes it


@dataclass(frozen=True, slots=True)
class PartitionState:
    """`/brokers/topics/T/partitions/P/state`: leader (-1 = none), leader epoch and in-sync replicas."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as ZooKeeper has it now: what preconditions, progress and verification decide on."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    topic_znode_version: int
    topic_czxid: int
    topic_id: str | None
    state: PartitionState | None  # None: the controller has not initialised the partition
    marks_moves: bool = False  # see TopicAssignment

    @property
    def in_motion(self) -> bool:
        """Whether the topic's znode names something that is added or removed (2.4+)."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The list that it has when what is in motion has ended, in its order; the list of now where nothing is."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The list that cancelling would leave: without what is being added (ReplicaAssignment.originReplicas)."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def leader(self) -> int:
        """The leader's broker id, -1 where there is none."""
        return self.state.leader if self.state else -1

    @property
    def isr(self) -> tuple[int, ...]:
        return self.state.isr if self.state else ()


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """What tells whether a topic's znode is still the one of the snapshot; None where the snapshot does not know."""

    znode_version: int | None
    czxid: int | None
    topic_id: str | None = None


def topic_identities(partitions: Mapping[TopicPartition, PartitionView]) -> dict[str, TopicIdentity]:
    """The identity of each topic, as a view of the cluster has it."""
    return {
        tp.topic: TopicIdentity(partition.topic_znode_version, partition.topic_czxid, partition.topic_id)
        for tp, partition in partitions.items()
    }
