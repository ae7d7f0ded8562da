"""Which groups each broker coordinates, and what keeps from knowing all of them.

Each broker tells only the groups of the partitions of `__consumer_offsets` that it leads. So all brokers are asked, and
the groups of a partition without a leader are told by nobody.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import DescribeLogDirsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_rebalance.admin.clients import ANOTHER_SECONDS
from kafka_rebalance.admin.wire import DESCRIBE_CLUSTER, NOT_AUTHORIZED, Wire
from kafka_rebalance.errors import ReadDeniedError, ReadError
from kafka_rebalance.kafka.topics import OFFSETS_TOPIC
from kafka_rebalance.model.consumer_groups import CLASSIC, SHARE, STREAMS
from kafka_rebalance.model.finding import Finding, some

SETTLE_SECONDS = 15.0  # coordinators that move or load, and members that join, are waited for so long
PAUSE_SECONDS = 0.25
COORDINATOR_AWAY = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_UNKNOWN_TOPIC = 3
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


def list_groups(wire: Wire, brokers: Collection[int] | None = None) -> Listing:
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
        for one in answer.groups:
            found[one.group_id] = ListedGroup(one.group_id, _type_of(one), one.protocol_type, broker)
    if silent and len(silent) == len(asked):
        raise silent[0]
    return Listing(dict(sorted(found.items())), tuple(unread))


def _coordinators(wire: Wire) -> tuple[list[int], list[Finding]]:
    """(the live brokers, what nobody can tell)"""
    asked = [MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)] if _has_offsets_topic(wire) else []
    answer = wire.read(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    live = [broker.node_id for broker in answer.brokers]
    if not asked:
        return live, []  # nobody has had a group yet
    (topic,) = answer.topics
    if topic.error_code:
        remedy = "Read the logs of the brokers"
        if topic.error_code in NOT_AUTHORIZED:
            remedy = f"Grant the Kafka user Describe on topic {OFFSETS_TOPIC}"
        why = f"whether all of its partitions have leaders is not told ({for_code(topic.error_code).__name__})"
        return live, [Finding(f"topic {OFFSETS_TOPIC}", why, remedy)]
    without = sorted(one.partition_index for one in topic.partitions if one.leader_id < 0)
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
    return bool(answer.topics[0].partitions[0].error_code != _UNKNOWN_TOPIC)


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
    why = f"{_NOT_TOLD} ({for_code(code).__name__})"
    return Finding(f"groups of broker {broker}", why, remedy)
