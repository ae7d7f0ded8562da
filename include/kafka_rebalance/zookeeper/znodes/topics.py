"""Znodes of topics: the assignment, and the state of each partition."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_rebalance.model.partition import PartitionState, TopicAssignment, TopicPartition
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.parsing import (
    parse_brokers,
    parse_integer,
    parse_object,
    parse_object_field,
    parse_partition_key,
    parse_text,
    parse_version,
)

# LeaderAndIsr.LeaderDuringDelete: no leader either.
_LEADER_DURING_DELETE = -2


def decode_topic(data: bytes | None, topic: str = "TOPIC") -> TopicAssignment:
    """`/brokers/topics/T`, versions 1 to 3 and later (TopicZNode), partitions in numeric order.

    `topic` is for the error text. Raises CorruptZnodeError. Nothing here is ever written back: the controller
    owns this znode.
    """
    path = paths.topic_path(topic)
    fields = parse_object(path, data)
    parse_version(path, fields)
    topic_id = fields.get("topic_id")
    return TopicAssignment(
        partitions=_replica_lists(path, "partitions", fields.get("partitions")),
        adding=_moving(path, "adding_replicas", fields),
        removing=_moving(path, "removing_replicas", fields),
        topic_id=None if topic_id is None else parse_text(path, "topic_id", topic_id),
    )


def _moving(path: str, name: str, fields: Mapping[str, object]) -> dict[int, tuple[int, ...]]:
    value = fields.get(name)
    return {} if value is None else _replica_lists(path, name, value)


def _replica_lists(path: str, name: str, value: object) -> dict[int, tuple[int, ...]]:
    lists = {
        parse_partition_key(path, name, key): parse_brokers(path, f"{name}[{key[:20]}]", replicas)
        for key, replicas in parse_object_field(path, name, value).items()
    }
    return dict(sorted(lists.items()))


def decode_partition_state(data: bytes | None, topic_partition: TopicPartition | None = None) -> PartitionState:
    """`/brokers/topics/T/partitions/P/state` (TopicPartitionStateZNode); the ISR is in no particular order.

    `topic_partition` is for the error text. Raises CorruptZnodeError. `leader_recovery_state` (3.2+) is accepted and
    not carried: it concerns the brokers alone.
    """
    path = paths.state_path(topic_partition or TopicPartition("TOPIC", 0))
    fields = parse_object(path, data)
    parse_version(path, fields)
    leader = parse_integer(path, "leader", fields.get("leader"), least=_LEADER_DURING_DELETE)
    return PartitionState(
        leader=max(leader, -1),
        leader_epoch=parse_integer(path, "leader_epoch", fields.get("leader_epoch")),
        isr=parse_brokers(path, "isr", fields.get("isr")),
        controller_epoch=parse_integer(path, "controller_epoch", fields.get("controller_epoch")),
    )
