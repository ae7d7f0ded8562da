"""Consumer groups, as described by their coordinators."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.partition import TopicPartition


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
