"""What coordinators say of groups of each type, each by its own request.

A type that is not known here, or a group that its coordinator does not describe, is a finding of its own: the others
are described all the same.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka.errors import IncompatibleBrokerVersion, for_code
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from kafka_rebalance.admin.clients import ANOTHER_SECONDS
from kafka_rebalance.admin.describe_requests import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from kafka_rebalance.admin.listed_groups import COORDINATOR_AWAY, SETTLE_SECONDS, ListedGroup
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.consumer_groups import CLASSIC, CONSUMER, SHARE, STREAMS, ConsumerGroup, GroupMember, named
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicPartition

# While members join, the coordinator tells neither their subscriptions nor their partitions (GroupMetadata.summary).
_JOINING = {"PreparingRebalance", "CompletingRebalance"}
_GONE = "Dead"
GROUP_ID_NOT_FOUND = 69
_TOPIC_DENIED, _GROUP_DENIED, _UNSUPPORTED = 29, 30, 35
# Protocols of classic groups whose members assign among themselves what is no topic: connectors, and who is the master
# of a schema registry.
_READ_NO_TOPICS = {"connect", "sr"}
_CONSUMERS = {"consumer", ""}
_SETTLED = "Stable"
_PLAIN = re.compile(r"(?:(?:[\w.\-]|\\[.\-])[*+?]?|[|^$])*", re.ASCII)
_WILDCARDS = re.compile(r"[*+?]")
_MOST_WILDCARDS = 3


@dataclass(frozen=True, slots=True)
class Described:
    """A group as its coordinator describes it, or the code by which it does not.

    `unclear`: members do not tell what they read, so they may read any topic. `is_gone`: it has been deleted since.
    """

    group: ConsumerGroup | None = None
    unclear: bool = False
    is_gone: bool = False
    code: int = 0
    text: str | None = None
    unanswered: str | None = None  # why there was no answer

    @property
    def is_joining(self) -> bool:
        return self.group is not None and self.group.state in _JOINING

    @property
    def may_change(self) -> bool:
        """Whether the same question may soon have another answer: coordinators move, and types change."""
        return self.is_joining or self.code in (*COORDINATOR_AWAY, GROUP_ID_NOT_FOUND)


def describe(wire: Wire, listed: Iterable[ListedGroup], topic: str) -> dict[str, Described]:
    """By group. `topic` is the one in question: members with a pattern subscribe to it if the pattern matches."""
    found: dict[str, Described] = {}
    wanted: dict[tuple[int, str], list[str]] = {}
    for one in listed:
        wanted.setdefault((one.broker, one.type), []).append(one.group)
    for (broker, kind), names in sorted(wanted.items()):
        if kind in _BY_TYPE:
            found |= _ask(wire, broker, kind, names, topic)
        else:
            found |= dict.fromkeys(names, Described(unanswered=_UNKNOWN_TYPE))
    return found


def _ask(wire: Wire, broker: int, kind: str, names: Sequence[str], topic: str) -> dict[str, Described]:
    request, decode = _BY_TYPE[kind]
    try:
        answer = wire.read(request(names), broker, repeat_seconds=SETTLE_SECONDS, answer_seconds=ANOTHER_SECONDS)
    except IncompatibleBrokerVersion:
        return dict.fromkeys(names, Described(code=_UNSUPPORTED))
    except ReadError as silent:
        return dict.fromkeys(names, Described(unanswered=str(silent).rstrip(".")))
    found = {one.group_id: _decoded(one, decode, topic) for one in answer.groups}
    return {name: found.get(name, Described(unanswered=f"Broker {broker} left it out of its answer")) for name in names}


def _decoded(answer: Any, decode: Callable[[Any, str], Described], topic: str) -> Described:
    if answer.error_code:
        return Described(code=answer.error_code, text=getattr(answer, "error_message", None))
    if answer.group_state == _GONE and not answer.members:
        return Described(is_gone=True)
    return decode(answer, topic)


def unread(listed: ListedGroup, said: Described) -> Finding:
    """Why a group is not described, and what to do."""
    subject = named(listed.group, listed.type)
    if said.unanswered == _UNKNOWN_TYPE:
        tool = f"kafka-groups.sh --list, and the tool of Kafka for groups of type {listed.type}"
        return Finding(subject, f"groups of type {listed.type!r} are not known here", f"Look at it with {tool}")
    if said.unanswered is not None:
        return Finding(subject, "its coordinator does not answer", said.unanswered)
    if said.unclear:
        remedy = (
            "Ask the owners of the group"
            if listed.protocol in _CONSUMERS
            else f"Look at it with the tool of {listed.protocol!r}"
        )
        return Finding(subject, "its members do not tell which topics they read", remedy)
    name = for_code(said.code).__name__
    return Finding(
        subject, f"it cannot be read ({name}{f': {said.text}' if said.text else ''})", _remedy(listed, said.code)
    )


def _remedy(listed: ListedGroup, code: int) -> str:
    if code == _GROUP_DENIED:
        return f"Grant the Kafka user Describe on {named(listed.group, '')}"
    if code == _TOPIC_DENIED:
        return "Grant the Kafka user Describe on the topics that its members read"
    if code in COORDINATOR_AWAY:
        return "Ask again when its coordinator is back and has loaded it"
    if code == GROUP_ID_NOT_FOUND:
        return "Its type is changing, or it is being deleted: ask again"
    if code == _UNSUPPORTED:
        return f"Broker {listed.broker} does not take the request for this type: see that all brokers run one version"
    return f"Read the log of broker {listed.broker}"


# Each type's request, and what becomes of a group of its answer.


def _classic(answer: Any, topic: str) -> Described:
    decoded = [_classic_member(one) for one in answer.members]
    members = _in_order(member for member, _ in decoded)
    group = ConsumerGroup(answer.group_id, answer.group_state, answer.protocol_data, members, ())
    if answer.protocol_type in _CONSUMERS:
        unclear = group.state not in _JOINING and any(not told for _, told in decoded)
        return Described(group, unclear=unclear)
    # Offsets are Kafka's own, whatever the protocol. Members of another protocol do not subscribe to topics by it.
    silent = replace(group, members=tuple(replace(one, topics=(), assigned=()) for one in members))
    return Described(silent, unclear=bool(members) and answer.protocol_type not in _READ_NO_TOPICS)


def _classic_member(answer: Any) -> tuple[GroupMember, bool]:
    """(the member, whether it tells what it reads): by its subscription, or by its partitions if it cannot be read."""
    subscription = _or_none(ConsumerProtocolSubscription, answer.member_metadata)
    assignment = _or_none(ConsumerProtocolAssignment, answer.member_assignment)
    assigned = [
        TopicPartition(one.topic, partition)
        for one in (assignment.assigned_partitions if assignment else ())
        for partition in one.partitions
    ]
    topics = [one.topic for one in assigned] if subscription is None else subscription.topics
    return _member(answer, topics, assigned, getattr(answer, "group_instance_id", None)), bool(subscription or assigned)


def _or_none(kind: Any, data: bytes) -> Any:
    """None if there is nothing, or if a consumer does not use Kafka's own format."""
    try:
        return kind.decode(data) if data else None
    except (struct.error, ValueError, IndexError, OverflowError, MemoryError, TypeError):
        return None


def _consumer(answer: Any, topic: str) -> Described:
    """The coordinator resolves a pattern, and assigns what matches. Until it is done, a pattern may match."""
    assignments = [which for one in answer.members for which in (one.assignment, one.target_assignment)]
    held = {name for which in assignments for name, _ in _assigned(which)}
    members, open_patterns = [], False
    for one in answer.members:
        topics = [*one.subscribed_topic_names, *(name for name, _ in _assigned(one.assignment))]
        if one.subscribed_topic_regex:
            matches = topic in held or _matches(one.subscribed_topic_regex, topic)
            topics += [topic] if matches else []
            open_patterns |= matches is None
        members.append(_member(one, topics, _assigned(one.assignment), one.instance_id))
    group = ConsumerGroup(
        answer.group_id, answer.group_state, answer.assignor_name, _in_order(members), (), type=CONSUMER
    )
    return Described(group, unclear=open_patterns and answer.group_state != _SETTLED)


def _share(answer: Any, topic: str) -> Described:
    members = []
    for one in answer.members:
        assigned = _assigned(one.assignment)
        members.append(_member(one, [*one.subscribed_topic_names, *(name for name, _ in assigned)], assigned))
    return Described(
        ConsumerGroup(answer.group_id, answer.group_state, answer.assignor_name, _in_order(members), (), type=SHARE)
    )


def _streams(answer: Any, topic: str) -> Described:
    """All members run one topology, so each may read any of its topics."""
    subtopologies = (
        {} if answer.topology is None else {one.subtopology_id: one for one in answer.topology.subtopologies or ()}
    )
    read = {name: _read_by(one) for name, one in subtopologies.items()}
    written = {topic.name for one in subtopologies.values() for topic in one.state_changelog_topics}
    used = {topic for topics in read.values() for topic in topics} | written
    members = [_member(one, used, _tasks(one.assignment.active_tasks, read), one.instance_id) for one in answer.members]
    group = ConsumerGroup(answer.group_id, answer.group_state, "", _in_order(members), (), type=STREAMS)
    return Described(group, unclear=bool(members) and not subtopologies)


def _read_by(subtopology: Any) -> tuple[str, ...]:
    return (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics))


def _tasks(active: Iterable[Any], read: Mapping[str, Sequence[str]]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for task in active
        for topic in read.get(task.subtopology_id, ())
        for partition in task.partitions
    ]


def _assigned(assignment: Any) -> list[TopicPartition]:
    return [
        TopicPartition(one.topic_name, partition) for one in assignment.topic_partitions for partition in one.partitions
    ]


def _matches(pattern: str, topic: str) -> bool | None:
    """Whether a pattern of RE2/J matches. None: it has more than letters and a few wildcards, and Python might take it
    for another one, or take hours over it.
    """
    if _PLAIN.fullmatch(pattern) is None or len(_WILDCARDS.findall(pattern)) > _MOST_WILDCARDS:
        return None
    return re.fullmatch(pattern, topic) is not None


def _member(
    answer: Any, topics: Iterable[str], assigned: Iterable[TopicPartition], instance_id: str | None = None
) -> GroupMember:
    return GroupMember(
        member_id=answer.member_id,
        client_id=answer.client_id,
        host=answer.client_host.removeprefix("/"),
        topics=tuple(sorted(set(topics))),
        assigned=tuple(sorted(assigned)),
        instance_id=instance_id,
    )


def _in_order(members: Iterable[GroupMember]) -> tuple[GroupMember, ...]:
    return tuple(sorted(members, key=lambda member: member.member_id))


_UNKNOWN_TYPE = "unknown type"
_BY_TYPE: dict[str, tuple[Callable[[Sequence[str]], Any], Callable[[Any, str], Described]]] = {
    CLASSIC: (lambda names: DescribeGroupsRequest(groups=list(names)), _classic),
    CONSUMER: (lambda names: ConsumerGroupDescribeRequest(group_ids=list(names)), _consumer),
    SHARE: (lambda names: ShareGroupDescribeRequest(group_ids=list(names)), _share),
    STREAMS: (lambda names: StreamsGroupDescribeRequest(group_ids=list(names)), _streams),
}
