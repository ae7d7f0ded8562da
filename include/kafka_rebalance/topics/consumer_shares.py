"""What more partitions do to a topic's consumer groups: who would read what under Kafka's two assignors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kafka_rebalance.kafka.assignors import range_assignment, round_robin_assignment
from kafka_rebalance.model.consumer_groups import CLASSIC, CONSUMER, ConsumerGroup, GroupMember

_ASSIGNORS = {"range": range_assignment, "roundrobin": round_robin_assignment}


@dataclass(frozen=True, slots=True)
class MemberForecast:
    """One member's partitions: their ids in the topic, and their number over all its topics."""

    member_id: str
    client_id: str
    host: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    all_before: int
    all_after: int


@dataclass(frozen=True, slots=True)
class AssignorForecast:
    """A group under one assignor. Imbalance is the most partitions of a member, of all topics, over the mean."""

    assignor: str
    in_use: bool
    imbalance_before: float
    imbalance_after: float
    idle_before: int
    idle_after: int
    members: tuple[MemberForecast, ...]


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """A group that reads the topic. `imbalance_now` is of its real assignment, over all its topics.

    While members join, or if there are none, it is unknown what they read. Then `imbalance_now` is None, and
    `assignors` is empty. `assignors` is empty too for a share group, whose members share each partition, and for a
    streams group, whose members share tasks.

    `no_longer_matching` are its other topics with as many partitions as the topic before, but not after. A join of both
    by key, or state by partition number, relies on the same number.
    """

    group: str
    state: str
    assignor: str
    members: int
    committed: tuple[int, ...]
    imbalance_now: float | None
    assignors: tuple[AssignorForecast, ...]
    no_longer_matching: tuple[str, ...]
    type: str = CLASSIC

    def to_mapping(self) -> dict[str, Any]:
        return asdict(self)


def forecast_groups(
    topic: str, after: int, groups: Sequence[ConsumerGroup], partitions: Mapping[str, int]
) -> tuple[GroupForecast, ...]:
    """Each group before and after the topic has `after` partitions, in the given order.

    `partitions` are today's numbers of partitions, of the topic and of all others that members subscribe to. Topics
    that are missing there are skipped, as the assignors do.
    """
    return tuple(_forecast(topic, after, group, partitions) for group in groups)


def _forecast(topic: str, after: int, group: ConsumerGroup, partitions: Mapping[str, int]) -> GroupForecast:
    subscribed = sorted({name for member in group.members for name in member.topics} - {topic})
    before = partitions[topic]
    known = any(member.topics for member in group.members)
    divides = known and group.type in (CLASSIC, CONSUMER)
    return GroupForecast(
        group=group.group,
        state=group.state,
        assignor=group.assignor,
        members=len(group.members),
        committed=group.committed,
        imbalance_now=_imbalance([member.assigned for member in group.members]) if divides else None,
        assignors=tuple(_under(name, topic, after, group, partitions) for name in _ASSIGNORS if divides),
        no_longer_matching=tuple(name for name in subscribed if partitions.get(name) == before != after),
        type=group.type,
    )


def _under(
    assignor: str, topic: str, after: int, group: ConsumerGroup, partitions: Mapping[str, int]
) -> AssignorForecast:
    assign = _ASSIGNORS[assignor]
    members = {_sorted_as(member): member for member in group.members}
    subscriptions = {key: member.topics for key, member in members.items()}
    now, then = assign(subscriptions, partitions), assign(subscriptions, {**partitions, topic: after})
    return AssignorForecast(
        assignor=assignor,
        in_use=group.assignor == assignor,
        imbalance_before=_imbalance(now.values()),
        imbalance_after=_imbalance(then.values()),
        idle_before=sum(not assigned for assigned in now.values()),
        idle_after=sum(not assigned for assigned in then.values()),
        members=tuple(
            MemberForecast(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.host,
                before=tuple(partition for name, partition in now[key] if name == topic),
                after=tuple(partition for name, partition in then[key] if name == topic),
                all_before=len(now[key]),
                all_after=len(then[key]),
            )
            for key, member in sorted(members.items())
        ),
    )


def _sorted_as(member: GroupMember) -> str:
    """A key that sorts like AbstractPartitionAssignor.MemberInfo: static members first, by instance id."""
    return f"0{member.instance_id}" if member.instance_id is not None else f"1{member.member_id}"


def _imbalance(assigned: Collection[Collection[object]]) -> float:
    counts = list(map(len, assigned))
    return max(counts) * len(counts) / sum(counts) if any(counts) else 1.0
