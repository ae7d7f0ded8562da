"""Partitions, as described by ZooKeeper and the brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafka_rebalance.model.finding import listed


class TopicPartition(NamedTuple):
    """One partition. A NamedTuple, so that plain `(topic, partition)` tuples compare equal to it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


ReplicaBytes = Mapping[TopicPartition, Mapping[int, int]]  # bytes by broker; a copy that is still growing counts


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """`/brokers/topics/T`: the ordered replica list of each partition, and the replicas in motion.

    While a partition moves (2.4+), `partitions[p]` is the target, followed by the old replicas that Kafka still has to
    remove. `adding` and `removing` name the new and the old replicas (KIP-455). Below 2.4 both are always empty.
    """

    partitions: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    topic_id: str | None = None
    marks_moves: bool = False  # whether the znode has the form of 2.4 or later


@dataclass(frozen=True, slots=True)
class PartitionState:
    """`/brokers/topics/T/partitions/P/state`: leader (-1 = none), leader epoch and in-sync replicas.

    `eligible`: while the ISR is empty, replicas that may lead all the same, or that were known last (KIP-966, Kafka 4).
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as it is now. Checks, progress and verification decide on this.

    Without ZooKeeper there are no znode versions and no zxids: these are None.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    topic_znode_version: int | None
    topic_czxid: int | None
    topic_id: str | None
    state: PartitionState | None  # None: the controller has not yet created the state
    marks_moves: bool = False  # see TopicAssignment

    @property
    def in_motion(self) -> bool:
        """Whether the topic's znode names replicas that Kafka adds or removes (2.4+)."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The ordered list once the move under way has ended; without a move, the list as it is now."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The list after a cancel: without the replicas that Kafka adds (ReplicaAssignment.originReplicas)."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def leader(self) -> int:
        """The leader's broker id; -1: there is no leader."""
        return self.state.leader if self.state else -1

    @property
    def isr(self) -> tuple[int, ...]:
        return self.state.isr if self.state else ()

    @property
    def may_lead(self) -> tuple[int, ...]:
        """The brokers of which one has to be up for this partition to have a leader without a loss."""
        return self.isr or (self.state.eligible if self.state else ())


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """Tells whether a topic's znode is still the one of the snapshot. None: not in the snapshot."""

    znode_version: int | None
    czxid: int | None
    topic_id: str | None = None

    def is_other(self, now: PartitionView) -> bool:
        """Whether the partition is of a topic that was made again since. What either does not tell counts as equal."""
        pairs = ((self.czxid, now.topic_czxid), (self.topic_id, now.topic_id))
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def topic_identities(partitions: Mapping[TopicPartition, PartitionView]) -> dict[str, TopicIdentity]:
    return {
        tp.topic: TopicIdentity(partition.topic_znode_version, partition.topic_czxid, partition.topic_id)
        for tp, partition in partitions.items()
    }


# The hard rules of a replica list.


def replica_list_problem(replicas: Sequence[object], registered: Collection[int] | None = None) -> str | None:
    """Why no run may request this list, or None.

    An empty list destroys the partition. A duplicate lowers its redundancy without a warning. An id that is not an
    integer costs the cluster its controller (seen on 2.0.1 and 2.8.2). Kafka waits forever for an unregistered broker.
    """
    if not replicas:
        return "the replica list is empty"
    wrong = [broker for broker in replicas if type(broker) is not int or broker < 0]
    if wrong:
        return f"broker ids must be non-negative integers, not {', '.join(map(repr, wrong))}"
    repeated = sorted({broker for broker, count in Counter(replicas).items() if count > 1})  # type: ignore[type-var]
    if repeated:
        return f"broker {listed(repeated)} is listed more than once"
    unknown = [] if registered is None else [broker for broker in replicas if broker not in registered]
    return f"broker {listed(unknown)} is not registered" if unknown else None


def is_uneven_over(racks: Mapping[int, str | None], replicas: Sequence[int]) -> bool:
    """Whether a rack holds two replicas more than another one that has a broker for one more.

    `racks` are of the brokers that may hold the partition. Those without a rack count as one rack together.
    """
    room = Counter(racks.values())
    replicas_in = Counter(racks[broker] for broker in replicas if broker in racks)
    most = max(replicas_in.values(), default=0)
    return any(most - replicas_in[rack] > 1 for rack in room if replicas_in[rack] < room[rack])


class MayNotLead(Enum):
    """Why the first replica of a list must not be elected."""

    CLOSED = "brokers_out"
    OUT_OF_ISR = "out_of_isr"


def may_not_lead(
    before: Sequence[int], after: Sequence[int], leader: int, isr: Collection[int] | None, closed: Collection[int]
) -> MayNotLead | None:
    """Why `after` must not elect its first replica. None: it may, or that replica leads today.

    `isr` is None if nobody knows it. A replica that is not in `before` is in sync when its copy ends. `closed` are the
    brokers that must stay as they are.
    """
    first = after[0] if after else leader
    if first == leader:
        return None
    if first in closed:
        return MayNotLead.CLOSED
    lags = isr is not None and first in before and first not in isr
    return MayNotLead.OUT_OF_ISR if lags else None
