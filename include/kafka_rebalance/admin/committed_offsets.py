"""The offsets that groups have committed, and those up to which share groups are done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.consumer import OffsetFetchRequest

from kafka_rebalance.admin.clients import ANOTHER_SECONDS
from kafka_rebalance.admin.describe_requests import DescribeShareGroupOffsetsRequest
from kafka_rebalance.admin.described_groups import Described
from kafka_rebalance.admin.listed_groups import SETTLE_SECONDS, ListedGroup
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.consumer_groups import SHARE
from kafka_rebalance.model.partition import TopicPartition

_MANY_GROUPS = 8  # from this version of OffsetFetch on, one request takes more than one group (3.0)
_UNSUPPORTED = 35
Asked = tuple[str, Collection[int]]  # partitions of a topic


@dataclass(frozen=True, slots=True)
class Offsets:
    """By partition, of one group. `failed`: why they are not all."""

    by_partition: dict[TopicPartition, int] = field(default_factory=dict)
    failed: Described | None = None


def read_offsets(wire: Wire, listed: Iterable[ListedGroup], only: Asked | None = None) -> dict[str, Offsets]:
    """By group: of these partitions, or of all."""
    wanted: dict[tuple[int, bool], list[str]] = {}
    for one in listed:
        wanted.setdefault((one.broker, one.type == SHARE), []).append(one.group)
    found: dict[str, Offsets] = {}
    for (broker, shares), names in sorted(wanted.items()):
        try:
            answers = _of_share_groups(wire, broker, names, only) if shares else _committed(wire, broker, names, only)
        except IncompatibleBrokerVersion:
            answers = dict.fromkeys(names, Offsets(failed=Described(code=_UNSUPPORTED)))
        except ReadError as silent:
            answers = dict.fromkeys(names, Offsets(failed=Described(unanswered=str(silent).rstrip("."))))
        missing = Offsets(failed=Described(unanswered=f"Broker {broker} gives no offsets of it. Read its log"))
        found |= {name: answers.get(name, missing) for name in names}
    return found


def _committed(wire: Wire, broker: int, names: Sequence[str], only: Asked | None) -> dict[str, Offsets]:
    of_many = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = of_many.OffsetFetchRequestTopics
    topics = None if only is None else [topic(name=only[0], partition_indexes=sorted(only[1]))]
    groups = [of_many(group_id=name, topics=topics) for name in names]
    try:
        request = OffsetFetchRequest(groups=groups, min_version=_MANY_GROUPS, max_version=_MANY_GROUPS)
        return {one.group_id: _decoded(one) for one in _read(wire, broker, request).groups}
    except IncompatibleBrokerVersion:
        return {name: _committed_by_one(wire, broker, name, only) for name in names}


def _committed_by_one(wire: Wire, broker: int, name: str, only: Asked | None) -> Offsets:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None if only is None else [topic(name=only[0], partition_indexes=sorted(only[1]))]
    request = OffsetFetchRequest(
        group_id=name, topics=topics, min_version=2 if topics is None else 1, max_version=_MANY_GROUPS - 1
    )
    return _decoded(_read(wire, broker, request))


def _decoded(answer: Any) -> Offsets:
    if code := getattr(answer, "error_code", 0):
        return Offsets(failed=Described(code=code))
    found: dict[TopicPartition, int] = {}
    failed: Described | None = None
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code:
                failed = Described(code=one.error_code, text=f"of {topic.name}-{one.partition_index}")
            elif one.committed_offset >= 0:
                found[TopicPartition(topic.name, one.partition_index)] = one.committed_offset
    return Offsets(found, failed)


def _of_share_groups(wire: Wire, broker: int, names: Sequence[str], only: Asked | None) -> dict[str, Offsets]:
    """A share group keeps no offset of a partition, but the first record that it is not done with."""
    of_group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    topic = of_group.DescribeShareGroupOffsetsRequestTopic
    topics = None if only is None else [topic(topic_name=only[0], partitions=sorted(only[1]))]
    request = DescribeShareGroupOffsetsRequest(groups=[of_group(group_id=name, topics=topics) for name in names])
    return {one.group_id: _decoded_share(one) for one in _read(wire, broker, request).groups}


def _decoded_share(answer: Any) -> Offsets:
    if answer.error_code:
        return Offsets(failed=Described(code=answer.error_code, text=answer.error_message))
    found: dict[TopicPartition, int] = {}
    failed: Described | None = None
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code:
                failed = Described(code=one.error_code, text=one.error_message)
            elif one.start_offset >= 0:
                found[TopicPartition(topic.topic_name, one.partition_index)] = one.start_offset
    return Offsets(found, failed)


def _read(wire: Wire, broker: int, request: Any) -> Any:
    return wire.read(request, broker, repeat_seconds=SETTLE_SECONDS, answer_seconds=ANOTHER_SECONDS)
