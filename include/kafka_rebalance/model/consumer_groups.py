"""Consumer groups of each of Kafka's types, as described by their coordinators."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicPartition

# The types of KIP-848, KIP-932 and KIP-1071, as brokers name them. Kafka may add more.
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
_CALLED = {CLASSIC: "consumer group", CONSUMER: "consumer group", SHARE: "share group", STREAMS: "streams group"}


def named(group: str, kind: str) -> str:
    """`share group orders-workers`. Kafka lets a group's name hold anything, a line break too."""
    shown = "".join(character if character.isprintable() else "�" for character in group)
    return f"{_CALLED.get(kind, 'group')} {shown}"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer. `member_id` is its client id and a random UUID; assignors sort by it.

    From 2.3 on, members with an `instance_id` (`group.instance.id`, KIP-345) come first, sorted by that.
    """

    member_id: str
    client_id: str
    host: str
    topics: tuple[str, ...]  # subscribed to, sorted
    assigned: tuple[TopicPartition, ...]
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """One group. `assignor` is the protocol of its members (`range`, `roundrobin`, `sticky`, ...); "": no members.

    `committed` are the partitions of the topic in question for which the group has an offset.
    """

    group: str
    state: str
    assignor: str
    members: tuple[GroupMember, ...]
    committed: tuple[int, ...]
    type: str = CLASSIC


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """The groups that use a topic, as far as they could be read. Nobody else uses it only if nothing is `unread`."""

    groups: tuple[ConsumerGroup, ...]
    unread: tuple[Finding, ...] = ()
