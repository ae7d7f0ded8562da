"""Groups of consumers of every type, from their coordinators: who is in them, what they read, and how far."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.admin import DescribeGroupsRequest, DescribeLogDirsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from kafka_rebalance.admin.clients import ANOTHER_SECONDS
from kafka_rebalance.admin.wire import (
    DESCRIBE_CLUSTER,
    NOT_AUTHORIZED,
    UNKNOWN_TOPIC,
    Wire,
    code_in_words,
    metadata_of,
    open_wire,
)
from kafka_rebalance.errors import ReadDeniedError, ReadError
from kafka_rebalance.kafka.topics import OFFSETS_TOPIC
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.consumer_groups import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    ConsumerGroup,
    GroupMember,
    TopicGroups,
    named,
)
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import TopicPartition

# Which groups each broker coordinates, and what keeps from knowing all of them.
#
# Each broker tells only the groups of the partitions of `__consumer_offsets` that it leads. So all brokers are asked,
# and the groups of a partition without a leader are told by nobody.


SETTLE_SECONDS = 15.0  # coordinators that move or load, and members that join, are waited for so long
PAUSE_SECONDS = 0.25
COORDINATOR_AWAY = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_FIRST_OFFSET = -2  # ListOffsets' time of the first record
_NOT_TOLD = "the broker does not tell which groups it coordinates"
# Brokers below 3.8 tell no type. Then the protocol does: "" has offsets and no members.
_TYPE_BY_PROTOCOL = {SHARE: SHARE, STREAMS: STREAMS}


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group and the broker that coordinates it. `type` is as the broker says it, in small letters."""

    group: str
    type: str
    protocol: str
    broker: int


@dataclass(frozen=True, slots=True)
class Listing:
    """By group. `unread`: why there may be more."""

    groups: dict[str, ListedGroup]
    unread: tuple[Finding, ...]


def _list_groups(wire: Wire, brokers: Collection[int] | None = None) -> Listing:
    """The groups of all live brokers, or of these. Raises ReadError if no broker tells any."""
    live, unread = _coordinators(wire)
    asked = sorted(live if brokers is None else brokers)
    found: dict[str, ListedGroup] = {}
    silent: list[ReadError] = []
    for broker in asked:
        try:
            _check_may_list(wire, broker)
            answer = _list(wire, broker)
        except ReadDeniedError:
            raise
        except ReadError as failed:
            silent.append(failed)
            unread.append(Finding(f"groups of broker {broker}", _NOT_TOLD, str(failed).rstrip(".")))
            continue
        if answer.error_code:
            unread.append(_not_listed(broker, answer.error_code))
            continue
        for group in answer.groups:
            found[group.group_id] = ListedGroup(group.group_id, _type_of(group), group.protocol_type, broker)
    if silent and len(silent) == len(asked):
        raise silent[0]
    return Listing(dict(sorted(found.items())), tuple(unread))


def _coordinators(wire: Wire) -> tuple[list[int], list[Finding]]:
    """(the live brokers, what nobody can tell)"""
    has_offsets_topic = _has_offsets_topic(wire)
    answer = wire.read(metadata_of([OFFSETS_TOPIC] if has_offsets_topic else []))
    live = [broker.node_id for broker in answer.brokers]
    if not has_offsets_topic:
        return live, []  # nobody has had a group yet
    (topic,) = answer.topics
    if topic.error_code:
        remedy = "Read the logs of the brokers"
        if topic.error_code in NOT_AUTHORIZED:
            remedy = f"Grant the Kafka user Describe on topic {OFFSETS_TOPIC}"
        why = f"whether all of its partitions have leaders is not told ({code_in_words(topic.error_code)})"
        return live, [Finding(f"topic {OFFSETS_TOPIC}", why, remedy)]
    without = sorted(partition.partition_index for partition in topic.partitions if partition.leader_id < 0)
    if without:
        named = some([f"{OFFSETS_TOPIC}-{partition}" for partition in without])
        why = f"{'it has' if len(without) == 1 else 'they have'} no leader, so nobody tells its groups"
        return live, [Finding(named, why, "Start the brokers that hold it, then ask again")]
    return live, []


def _has_offsets_topic(wire: Wire) -> bool:
    """Asked so that it stays away: brokers below 2.8 make an internal topic that Metadata names, whatever the request
    allows (KafkaApis.getTopicMetadata). ListOffsets makes none.
    """
    topic = ListOffsetsRequest.ListOffsetsTopic
    first = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=_FIRST_OFFSET)
    asked = [topic(name=OFFSETS_TOPIC, partitions=[first])]
    answer = wire.read(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=asked, max_version=8))
    return bool(answer.topics[0].partitions[0].error_code != UNKNOWN_TOPIC)


def _check_may_list(wire: Wire, broker: int) -> None:
    """Raises ReadDeniedError unless the user may describe the cluster, and so sees all groups.

    From 2.1 on, brokers silently leave out groups that a user may not describe; 2.0 refuses the whole list. With
    Describe on the cluster, they leave out nothing (KafkaApis.handleListGroupsRequest). In every version, a user
    without this right gets no log directories; the operations that librdkafka gives do not show it.
    """
    answer = wire.read(
        DescribeLogDirsRequest(topics=[]), broker, repeat_seconds=SETTLE_SECONDS, answer_seconds=ANOTHER_SECONDS
    )
    if not answer.results:
        raise ReadDeniedError(
            "The Kafka user may not describe the cluster, so brokers silently leave out consumer groups. Grant it "
            f"{DESCRIBE_CLUSTER} resource."
        )


def _list(wire: Wire, broker: int) -> Any:
    give_up = time.monotonic() + SETTLE_SECONDS
    while True:
        answer = wire.read(ListGroupsRequest(), broker, repeat_seconds=SETTLE_SECONDS, answer_seconds=ANOTHER_SECONDS)
        if answer.error_code in NOT_AUTHORIZED:
            raise ReadDeniedError(
                "The Kafka user may not read which consumer groups there are. Grant it "
                f"{DESCRIBE_CLUSTER}, on the groups and on the topic."
            )
        if answer.error_code not in COORDINATOR_AWAY or time.monotonic() > give_up:
            return answer
        time.sleep(PAUSE_SECONDS)


def _type_of(listed: Any) -> str:
    told = getattr(listed, "group_type", None) or _TYPE_BY_PROTOCOL.get(listed.protocol_type, CLASSIC)
    return str(told).lower()


def _not_listed(broker: int, code: int) -> Finding:
    remedy = "Ask again when it has loaded them" if code in COORDINATOR_AWAY else f"Read the log of broker {broker}"
    why = f"{_NOT_TOLD} ({code_in_words(code)})"
    return Finding(f"groups of broker {broker}", why, remedy)


# What coordinators say of groups of each type, each by its own request.
#
# A type that is not known here, or a group that its coordinator does not describe, is a finding of its own: the others
# are described all the same.


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
    found = {group.group_id: _decoded(group, decode, topic) for group in answer.groups}
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
    return Finding(subject, f"it cannot be read ({code_in_words(said.code, said.text)})", _remedy(listed, said.code))


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
    decoded = [_classic_member(member) for member in answer.members]
    members = _in_order(member for member, _ in decoded)
    group = ConsumerGroup(answer.group_id, answer.group_state, answer.protocol_data, members, ())
    if answer.protocol_type in _CONSUMERS:
        unclear = group.state not in _JOINING and any(not told for _, told in decoded)
        return Described(group, unclear=unclear)
    # Offsets are Kafka's own, whatever the protocol. Members of another protocol do not subscribe to topics by it.
    silent = replace(group, members=tuple(replace(member, topics=(), assigned=()) for member in members))
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
    assignments = [which for member in answer.members for which in (member.assignment, member.target_assignment)]
    held = {name for which in assignments for name, _ in _assigned(which)}
    members, open_patterns = [], False
    for member in answer.members:
        topics = [*member.subscribed_topic_names, *(name for name, _ in _assigned(member.assignment))]
        if member.subscribed_topic_regex:
            matches = topic in held or _matches(member.subscribed_topic_regex, topic)
            topics += [topic] if matches else []
            open_patterns |= matches is None
        members.append(_member(member, topics, _assigned(member.assignment), member.instance_id))
    group = ConsumerGroup(
        answer.group_id, answer.group_state, answer.assignor_name, _in_order(members), (), type=CONSUMER
    )
    return Described(group, unclear=open_patterns and answer.group_state != _SETTLED)


def _share(answer: Any, topic: str) -> Described:
    members = []
    for member in answer.members:
        assigned = _assigned(member.assignment)
        members.append(_member(member, [*member.subscribed_topic_names, *(name for name, _ in assigned)], assigned))
    return Described(
        ConsumerGroup(answer.group_id, answer.group_state, answer.assignor_name, _in_order(members), (), type=SHARE)
    )


def _streams(answer: Any, topic: str) -> Described:
    """All members run one topology, so each may read any of its topics."""
    subtopologies = (
        {}
        if answer.topology is None
        else {subtopology.subtopology_id: subtopology for subtopology in answer.topology.subtopologies or ()}
    )
    read = {name: _read_by(one) for name, one in subtopologies.items()}
    written = {topic.name for subtopology in subtopologies.values() for topic in subtopology.state_changelog_topics}
    used = {topic for topics in read.values() for topic in topics} | written
    members = [
        _member(member, used, _tasks(member.assignment.active_tasks, read), member.instance_id)
        for member in answer.members
    ]
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


# Requests for groups that kafka-python does not have, from Kafka's own descriptions in `messages`.


_MESSAGES = "kafka_rebalance.admin.messages"  # kafka-python's stubs do not show that its classes take a package


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Groups whose coordinator assigns the partitions (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class ShareGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Groups that acknowledge each record (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class StreamsGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Groups of Kafka Streams whose coordinator assigns the tasks (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Where share groups stand. Their offsets are not among those that OffsetFetch gives."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


# The offsets that groups have committed, and those up to which share groups are done.


_MANY_GROUPS = 8  # from this version of OffsetFetch on, one request takes more than one group (3.0)
_UNSUPPORTED_VERSION = 35
Asked = tuple[str, Collection[int]]  # partitions of a topic


@dataclass(frozen=True, slots=True)
class Offsets:
    """By partition, of one group. `failed`: why they are not all."""

    by_partition: dict[TopicPartition, int] = field(default_factory=dict)
    failed: Described | None = None


def _read_offsets(wire: Wire, listed: Iterable[ListedGroup], only: Asked | None = None) -> dict[str, Offsets]:
    """By group: of these partitions, or of all."""
    wanted: dict[tuple[int, bool], list[str]] = {}
    for one in listed:
        wanted.setdefault((one.broker, one.type == SHARE), []).append(one.group)
    offsets: dict[str, Offsets] = {}
    for (broker, shares), names in sorted(wanted.items()):
        try:
            answers = _of_share_groups(wire, broker, names, only) if shares else _committed(wire, broker, names, only)
        except IncompatibleBrokerVersion:
            answers = dict.fromkeys(names, Offsets(failed=Described(code=_UNSUPPORTED_VERSION)))
        except ReadError as silent:
            answers = dict.fromkeys(names, Offsets(failed=Described(unanswered=str(silent).rstrip("."))))
        missing = Offsets(failed=Described(unanswered=f"Broker {broker} gives no offsets of it. Read its log"))
        offsets |= {name: answers.get(name, missing) for name in names}
    return offsets


def _committed(wire: Wire, broker: int, names: Sequence[str], only: Asked | None) -> dict[str, Offsets]:
    of_many = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = of_many.OffsetFetchRequestTopics
    topics = None if only is None else [topic(name=only[0], partition_indexes=sorted(only[1]))]
    groups = [of_many(group_id=name, topics=topics) for name in names]
    try:
        request = OffsetFetchRequest(groups=groups, min_version=_MANY_GROUPS, max_version=_MANY_GROUPS)
        return {group.group_id: _decoded_offsets(group) for group in _read(wire, broker, request).groups}
    except IncompatibleBrokerVersion:
        return {name: _committed_by_one(wire, broker, name, only) for name in names}


def _committed_by_one(wire: Wire, broker: int, name: str, only: Asked | None) -> Offsets:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None if only is None else [topic(name=only[0], partition_indexes=sorted(only[1]))]
    request = OffsetFetchRequest(
        group_id=name, topics=topics, min_version=2 if topics is None else 1, max_version=_MANY_GROUPS - 1
    )
    return _decoded_offsets(_read(wire, broker, request))


def _decoded_offsets(answer: Any) -> Offsets:
    if code := getattr(answer, "error_code", 0):
        return Offsets(failed=Described(code=code))
    found: dict[TopicPartition, int] = {}
    failed: Described | None = None
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code:
                failed = Described(code=partition.error_code, text=f"of {topic.name}-{partition.partition_index}")
            elif partition.committed_offset >= 0:
                found[TopicPartition(topic.name, partition.partition_index)] = partition.committed_offset
    return Offsets(found, failed)


def _of_share_groups(wire: Wire, broker: int, names: Sequence[str], only: Asked | None) -> dict[str, Offsets]:
    """A share group keeps no offset of a partition, but the first record that it is not done with."""
    of_group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    topic = of_group.DescribeShareGroupOffsetsRequestTopic
    topics = None if only is None else [topic(topic_name=only[0], partitions=sorted(only[1]))]
    request = DescribeShareGroupOffsetsRequest(groups=[of_group(group_id=name, topics=topics) for name in names])
    return {group.group_id: _decoded_share(group) for group in _read(wire, broker, request).groups}


def _decoded_share(answer: Any) -> Offsets:
    if answer.error_code:
        return Offsets(failed=Described(code=answer.error_code, text=answer.error_message))
    found: dict[TopicPartition, int] = {}
    failed: Described | None = None
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code:
                failed = Described(code=partition.error_code, text=partition.error_message)
            elif partition.start_offset >= 0:
                found[TopicPartition(topic.topic_name, partition.partition_index)] = partition.start_offset
    return Offsets(found, failed)


def _read(wire: Wire, broker: int, request: Any) -> Any:
    return wire.read(request, broker, repeat_seconds=SETTLE_SECONDS, answer_seconds=ANOTHER_SECONDS)


# Groups of consumers of every type, from their coordinators: those of a topic with their members, and all offsets.
#
# This uses Kafka's own requests, because librdkafka does not give the subscriptions of members. Without them, nobody
# could see which members have no partition now, but would get one from an expansion.


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one group."""

    listed: ListedGroup
    described: Described
    offsets: Offsets

    @property
    def may_change(self) -> bool:
        failed = self.offsets.failed
        return self.described.may_change or (failed is not None and failed.may_change)


def read_groups(kafka: KafkaConnection, topic: str, partitions: Collection[int]) -> TopicGroups:
    """The groups that subscribe to the topic, or have offsets of these partitions, by name.

    A member's topics are those of its subscription, or of its partitions if its subscription cannot be read. The result
    also has groups whose members are still joining after some seconds, without topics: they may read this one. What
    cannot be read is told singly, and takes nothing else with it. Raises ReadError if no group can be listed at all.
    """
    with open_wire(kafka) as wire:
        listing, known = _list_groups(wire), dict[str, _Known]()
        open_groups = dict(listing.groups)
        give_up = time.monotonic() + SETTLE_SECONDS
        while True:
            known |= _look(wire, open_groups.values(), topic, partitions)
            again = {name for name, one in known.items() if one.may_change}
            if not again or time.monotonic() > give_up:
                break
            time.sleep(PAUSE_SECONDS)
            if any(not known[name].described.is_joining for name in again):
                listing = _list_groups(wire)  # another broker may coordinate it now, or its type is another one
                gone = set() if listing.unread else known.keys() - listing.groups.keys()
                known = {name: one for name, one in known.items() if name not in gone}
                again |= listing.groups.keys() - known.keys()
            open_groups = {name: listing.groups[name] for name in sorted(again & listing.groups.keys())}
    told = [_told(one, topic) for _, one in sorted(known.items())]
    return TopicGroups(
        tuple(group for group, _ in told if group is not None),
        (*listing.unread, *(finding for _, findings in told for finding in findings)),
    )


def _look(wire: Wire, listed: Collection[ListedGroup], topic: str, partitions: Collection[int]) -> dict[str, _Known]:
    described = describe(wire, listed, topic)
    offsets = _read_offsets(wire, [one for one in listed if not described[one.group].is_gone], (topic, partitions))
    return {one.group: _Known(one, described[one.group], offsets.get(one.group, Offsets())) for one in listed}


def _told(one: _Known, topic: str) -> tuple[ConsumerGroup | None, list[Finding]]:
    """(the group if it uses the topic, what is not known of it)"""
    if one.described.is_gone:
        return None, []
    failed = one.offsets.failed
    findings = [] if failed is None else [_of_offsets(unread(one.listed, failed))]
    group = one.described.group
    if group is None:
        return None, [unread(one.listed, one.described)]
    committed = tuple(sorted(partition for _, partition in one.offsets.by_partition))
    subscribed = {name for member in group.members for name in member.topics}
    if committed or topic in subscribed or (one.described.is_joining and not subscribed):
        return replace(group, committed=committed), findings
    return None, findings or ([unread(one.listed, one.described)] if one.described.unclear else [])


def _of_offsets(finding: Finding) -> Finding:
    return replace(finding, problem=f"of its offsets, {finding.problem}")


def read_committed_offsets(kafka: KafkaConnection, brokers: Collection[int]) -> dict[TopicPartition, dict[str, int]]:
    """{partition: {group: the offset that it has committed}} of all groups that these brokers coordinate.

    `brokers` are all that are registered: each tells only its own groups. A partition without a committed offset is
    absent. A share group commits none: its first record that is not done counts. Raises ReadError if any group cannot
    be read.
    """
    with open_wire(kafka) as wire:
        give_up = time.monotonic() + SETTLE_SECONDS
        while True:
            listing = _list_groups(wire, brokers)
            offsets = _read_offsets(wire, listing.groups.values())
            failed = {name: one.failed for name, one in offsets.items() if one.failed is not None}
            if not any(one.may_change for one in failed.values()) or time.monotonic() > give_up:
                break
            time.sleep(PAUSE_SECONDS)
    if listing.unread:
        raise ReadError(f"{listing.unread[0]}.")
    if failed:
        name, why = next(iter(failed.items()))
        more = f" It is one of {len(failed)} such groups." if len(failed) > 1 else ""
        raise ReadError(f"{_of_offsets(unread(listing.groups[name], why))}.{more}")
    committed_offsets: dict[TopicPartition, dict[str, int]] = {}
    for name, one in sorted(offsets.items()):
        for topic_partition, offset in one.by_partition.items():
            committed_offsets.setdefault(topic_partition, {})[name] = offset
    return committed_offsets
