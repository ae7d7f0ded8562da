"""Two brokers that answer for groups of each type. Answers are as kafka-python decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace as Answer
from typing import Any

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from kafka_rebalance.errors import ReadError


def subscribed(*topics: str) -> bytes:
    data: bytes = ConsumerProtocolSubscription(topics=list(topics), user_data=b"", version=0).encode(version=0)
    return data


def assigned(partitions: Mapping[str, list[int]]) -> bytes:
    kind = ConsumerProtocolAssignment.TopicPartition
    listed = [kind(topic=topic, partitions=ids) for topic, ids in partitions.items()]
    data: bytes = ConsumerProtocolAssignment(assigned_partitions=listed, user_data=b"", version=0).encode(version=0)
    return data


def member(name: str, **fields: Any) -> Answer:
    return Answer(member_id=f"{name}-uuid", client_id=name, client_host="/10.0.0.1", **fields)


def classic_member(name: str, metadata: bytes, assignment: bytes = b"") -> Answer:
    return member(name, group_instance_id=None, member_metadata=metadata, member_assignment=assignment)


def classic(name: str, state: str, *members: Answer, protocol: str = "consumer", code: int = 0) -> Answer:
    data = "range" if state == "Stable" else ""
    return Answer(
        error_code=code, group_id=name, group_state=state, protocol_type=protocol, protocol_data=data, members=members
    )


def topic_partitions(partitions: Mapping[str, list[int]]) -> Answer:
    return Answer(topic_partitions=[Answer(topic_name=topic, partitions=ids) for topic, ids in partitions.items()])


def coordinated(
    name: str, topics: list[str], partitions: Mapping[str, list[int]], pattern: str | None = None
) -> Answer:
    """A member of a group whose coordinator assigns the partitions."""
    held = topic_partitions(partitions)
    fields = {"instance_id": None, "subscribed_topic_regex": pattern, "target_assignment": held}
    return member(name, subscribed_topic_names=topics, assignment=held, **fields)


def described(name: str, *members: Answer, code: int = 0, text: str | None = None, **fields: Any) -> Answer:
    state = {"group_state": "Stable", "assignor_name": "uniform", **fields}
    return Answer(error_code=code, error_message=text, group_id=name, members=members, **state)


def streams(name: str, topics: list[str], tasks: list[int]) -> Answer:
    one = Answer(
        subtopology_id="0",
        source_topics=topics,
        repartition_source_topics=[],
        state_changelog_topics=[Answer(name="log")],
    )
    active = Answer(active_tasks=[Answer(subtopology_id="0", partitions=tasks)])
    topology = Answer(subtopologies=[one])
    return described(name, member("s", instance_id=None, assignment=active), topology=topology)


class Brokers:
    """Two brokers. `answers` are by request; a list gives one answer after the other, and keeps the last."""

    def __init__(self, *listed: Any, **answers: Any) -> None:
        self.listed = listed  # (group, type, protocol); all of broker 1
        self.answers = answers
        self.committed: dict[tuple[str, int], int] = {}  # by group and partition
        self.asked: list[tuple[str, Any]] = []
        self.silent: set[int] = set()
        self.leaders = {0: 1, 1: 2}  # of __consumer_offsets
        self.has_offsets_topic = True
        self.may_describe = True
        self.takes_many = True

    def read(self, request: Any, broker: int | None = None, **_: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if broker in self.silent:
            raise ReadError(f"Broker {broker} cannot be read.")
        names = getattr(request, "group_ids", None) or (request.groups if name == "DescribeGroups" else None)
        self.asked.append((name, tuple(names) if names else broker))
        if name in self.answers:
            return self._next(name)
        return getattr(self, f"_{name}")(request, broker)

    def _next(self, name: str) -> Any:
        found = self.answers[name]
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        return found

    def _Metadata(self, request: Any, _: object) -> Any:
        brokers = [Answer(node_id=1), Answer(node_id=2)]
        if not request.topics:
            return Answer(brokers=brokers, topics=[])
        assert self.has_offsets_topic, "brokers below 2.8 would make it now"
        (asked,) = request.topics
        partitions = [Answer(partition_index=number, leader_id=leader) for number, leader in self.leaders.items()]
        topic = Answer(name=asked.name, error_code=0, partitions=partitions)
        return Answer(brokers=brokers, topics=[topic])

    def _ListOffsets(self, *_: object) -> Any:
        code = 0 if self.has_offsets_topic else 3  # UNKNOWN_TOPIC_OR_PARTITION
        return Answer(topics=[Answer(partitions=[Answer(error_code=code)])])

    def _DescribeLogDirs(self, *_: object) -> Any:
        return Answer(results=[Answer()] if self.may_describe else [])

    def _ListGroups(self, _: object, broker: int) -> Any:
        kinds = [Answer(group_id=name, group_type=kind, protocol_type=protocol) for name, kind, protocol in self.listed]
        return Answer(error_code=0, groups=kinds if broker == 1 else [])

    def _OffsetFetch(self, request: Any, _: object) -> Any:
        many = bool(request.groups)
        if many and not self.takes_many:
            raise IncompatibleBrokerVersion("too old")
        found = [self._of_group(one.group_id, one.topics) for one in request.groups or ()]
        return Answer(groups=found) if many else self._of_group(request.group_id, request.topics)

    def _of_group(self, name: str, topics: Any) -> Any:
        asked = {("t", number): -1 for topic in topics or () for number in topic.partition_indexes}
        told = asked | {("t", number): offset for (group, number), offset in self.committed.items() if group == name}
        partitions = [
            Answer(partition_index=number, committed_offset=offset, error_code=0)
            for (_, number), offset in told.items()
        ]
        return Answer(group_id=name, error_code=0, topics=[Answer(name="t", partitions=partitions)])

    def _DescribeShareGroupOffsets(self, request: Any, _: object) -> Any:
        groups = []
        for one in request.groups:
            told = [
                Answer(partition_index=number, start_offset=offset, error_code=0, error_message=None)
                for (group, number), offset in self.committed.items()
                if group == one.group_id
            ]
            groups.append(
                Answer(
                    group_id=one.group_id,
                    error_code=0,
                    error_message=None,
                    topics=[Answer(topic_name="t", partitions=told)],
                )
            )
        return Answer(groups=groups)
