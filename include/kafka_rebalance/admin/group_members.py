"""Consumer groups, from their coordinators: those of a topic with their members, and the offsets of all.

This uses kafka-python, because librdkafka does not give the subscriptions of members. Without them, nobody could see
which members have no partition now, but would get one from an expansion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientTopicPartition
from kafka.errors import AuthorizationError, KafkaError

from kafka_rebalance.admin.access.clients import open_kafka_python, unreachable
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.consumer_groups import ConsumerGroup, GroupMember
from kafka_rebalance.model.partition import TopicPartition

# While members join, the coordinator tells neither their subscriptions nor their partitions (GroupMetadata.summary).
_JOINING = {"PreparingRebalance", "CompletingRebalance"}
_SETTLE_SECONDS = 15.0
_PAUSE_SECONDS = 0.25
_CONSUMERS = {"consumer", ""}  # "": offsets without members; other types belong to Kafka Connect and the like
_SHARE = "share"  # groups that acknowledge each record (KIP-932); a coordinator has no offsets of theirs

_T = TypeVar("_T")


def read_groups(kafka: KafkaConnection, topic: str, partitions: Collection[int]) -> tuple[ConsumerGroup, ...]:
    """The groups that subscribe to the topic, or have offsets of these partitions, by name. Raises ReadError.

    A member's topics are those of its subscription, or of its partitions if its subscription cannot be read. The result
    also has groups whose members are still joining after some seconds, without topics: they may read this one.
    """
    with open_kafka_python(kafka) as client:
        _check_may_list(kafka, client, [topic])
        listed = _asked(kafka, "which consumer groups there are", client.list_groups)
        names = sorted(group["group_id"] for group in listed if group["protocol_type"] in _CONSUMERS)
        if not names:
            return ()
        described = _describe(kafka, client, names)
        committed = _committed(kafka, client, names, topic, partitions)
    groups = (_group(name, described[name], committed[name]) for name in names)
    return tuple(
        group
        for group in groups
        if group.committed
        or any(topic in member.topics for member in group.members)
        or (group.state in _JOINING and not any(member.topics for member in group.members))
    )


def read_committed_offsets(kafka: KafkaConnection, brokers: Collection[int]) -> dict[TopicPartition, dict[str, int]]:
    """{partition: {group: the offset that it has committed}} of all groups that these brokers coordinate.

    `brokers` are all that are registered: each tells only its own groups. A partition without a committed offset is
    absent. Raises ReadError if any group cannot be read.
    """
    with open_kafka_python(kafka) as client:
        _check_may_list(kafka, client, {})
        groups = _asked(kafka, "which consumer groups there are", partial(client.list_groups, sorted(brokers)))
        names = sorted({group["group_id"] for group in groups if group["protocol_type"] != _SHARE})
        if not names:
            return {}
        # It raises for an error of a group or of a partition, and so gives no part of an answer.
        ask = partial(client.list_group_offsets, dict.fromkeys(names))
        answers = _asked(kafka, f"the offsets of {_some(names)}", ask)
    if silent := sorted(set(names) - answers.keys()):
        raise ReadError(f"The coordinator gives no offsets of {_some(silent)}. Read the logs of the brokers.")
    found: dict[TopicPartition, dict[str, int]] = {}
    for name in names:
        for topic_partition, committed in answers[name].items():
            if committed.offset >= 0:
                found.setdefault(TopicPartition(*topic_partition), {})[name] = committed.offset
    return found


def _check_may_list(
    kafka: KafkaConnection, client: KafkaAdminClient, topics: Sequence[str] | Mapping[str, Sequence[int]]
) -> None:
    """Raises ReadError unless the user may describe the cluster, and so sees all groups.

    From 2.1 on, brokers silently leave out groups that a user may not describe; 2.0 refuses the whole list. With
    Describe on the cluster, they leave out nothing (KafkaApis.handleListGroupsRequest). In every version, a user
    without this right gets no log directories; the operations that librdkafka gives do not show it.
    """
    answers = _asked(kafka, "the log directories", partial(client.describe_log_dirs, topics))
    if not all(answer["log_dirs"] for answer in answers):
        raise ReadError(
            "The Kafka user may not describe the cluster, so brokers silently leave out consumer groups. "
            "Grant it Describe on the cluster resource."
        )


def _describe(kafka: KafkaConnection, client: KafkaAdminClient, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """What the coordinators say of each group when no member is joining any more, or when the time is over."""
    give_up = time.monotonic() + _SETTLE_SECONDS
    described: dict[str, Mapping[str, Any]] = {}
    open_names = list(names)
    while True:
        answers = _asked(kafka, f"about {_some(open_names)}", partial(client.describe_groups, open_names))
        for name, answer in answers.items():
            if answer["error"]:
                raise ReadError(
                    f"Consumer group {name} cannot be read ({answer['error']}). Grant the Kafka user Describe on the "
                    "groups, or try again when their coordinator is back."
                )
        described |= answers
        open_names = [name for name in names if described[name]["group_state"] in _JOINING]
        if not open_names or time.monotonic() > give_up:
            return described
        time.sleep(_PAUSE_SECONDS)


def _committed(
    kafka: KafkaConnection, client: KafkaAdminClient, names: Sequence[str], topic: str, partitions: Collection[int]
) -> dict[str, tuple[int, ...]]:
    """The partitions of the topic for which each group has an offset."""
    wanted = [ClientTopicPartition(topic, partition) for partition in sorted(partitions)]
    specs = dict.fromkeys(names, wanted)
    answers = _asked(kafka, f"the offsets of {_some(names)}", partial(client.list_group_offsets, specs))
    return {
        name: tuple(sorted(asked.partition for asked, found in answers[name].items() if found.offset >= 0))
        for name in names
    }


def _asked(kafka: KafkaConnection, what: str, ask: Callable[[], _T]) -> _T:
    """The answer. If a coordinator is moving or loading, the question is repeated for a while."""
    give_up = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            return ask()
        except AuthorizationError as refused:
            raise ReadError(
                f"The Kafka user may not read {what} ({type(refused).__name__}). Grant it Describe on the cluster, on "
                "the groups and on the topic."
            ) from refused
        except (KafkaError, OSError) as failed:
            if not getattr(failed, "retriable", False) or time.monotonic() > give_up:
                raise unreachable(kafka, failed) from failed
            time.sleep(_PAUSE_SECONDS)


def _group(name: str, answer: Mapping[str, Any], committed: tuple[int, ...]) -> ConsumerGroup:
    members = tuple(sorted(map(_member, answer["members"]), key=lambda member: member.member_id))
    return ConsumerGroup(name, answer["group_state"], answer["protocol_data"], members, committed)


def _member(answer: Mapping[str, Any]) -> GroupMember:
    subscription, assignment = answer["member_metadata"], answer["member_assignment"]
    # They are texts if they are empty, or if a consumer does not use Kafka's own protocol.
    assigned = [
        TopicPartition(entry["topic"], partition)
        for entry in (assignment["assigned_partitions"] if isinstance(assignment, Mapping) else ())
        for partition in entry["partitions"]
    ]
    topics = subscription["topics"] if isinstance(subscription, Mapping) else [topic for topic, _ in assigned]
    return GroupMember(
        member_id=answer["member_id"],
        client_id=answer["client_id"],
        host=answer["client_host"].removeprefix("/"),
        topics=tuple(sorted(set(topics))),
        assigned=tuple(sorted(assigned)),
        instance_id=answer.get("group_instance_id"),
    )


def _some(names: Sequence[str]) -> str:
    return f"consumer group {names[0]}" + (f" and {len(names) - 1} others" if len(names) > 1 else "")
