"""Consumer groups, as their coordinators describe them."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer. Assignors sort by `member_id`, its client id and a random UUID; from 2.3 on members that have an
    `instance_id` (`group.instance.id`, KIP-345) come first, by that.
    """

    member_id: str
    client_id: str
    host: str
    topics: tuple[str, ...]  # subscribed to, sorted
    assigned: tuple[TopicPartition, ...]
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """One group. `assignor` is the protocol that its members agreed on (`range`, `roundrobin`, `sticky`, ...), "" where
    there are none; `committed` holds the partitions of the topic asked about for which it has an offset.
    """

    group: str
    state: str
    assignor: str
    members: tuple[GroupMember, ...]
    committed: tuple[int, ...]
