"""The znodes of topics: the assignment, and the state of each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_rebalance.errors import WriteError
from kafka_rebalance.kafka.versions import behaviour
from kafka_rebalance.model.partition import PartitionState, TopicAssignment, TopicPartition
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.json_fields import (
    compact_json,
    is_topic_name,
    json_integer,
    list_problem,
    parse_brokers,
    parse_object,
    parse_object_field,
    parse_partition_key,
    parse_text,
    parse_version,
    shortened,
)

_LEADER_DURING_DELETE = -2  # LeaderAndIsr.LeaderDuringDelete: no leader either


def decode_topic(data: bytes | None, topic: str = "TOPIC") -> TopicAssignment:
    """`/brokers/topics/T`, versions 1 to 3 and later (TopicZNode), partitions in numeric order.

    `topic` is for the error text. Do not write the result back, since it lacks unknown fields: see
    `encode_added_partitions`.
    """
    path = paths.topic_path(topic)
    fields = parse_object(path, data)
    parse_version(path, fields)
    topic_id = fields.get("topic_id")
    return TopicAssignment(
        partitions=_replica_lists(path, "partitions", fields, required=True),
        adding=_replica_lists(path, "adding_replicas", fields),
        removing=_replica_lists(path, "removing_replicas", fields),
        topic_id=None if topic_id is None else parse_text(path, "topic_id", topic_id),
        marks_moves="adding_replicas" in fields or "removing_replicas" in fields,
    )


def _replica_lists(
    path: str, name: str, fields: Mapping[str, object], *, required: bool = False
) -> dict[int, tuple[int, ...]]:
    value = fields.get(name)
    if value is None and not required:
        return {}
    lists = {
        parse_partition_key(path, name, key): parse_brokers(path, f"{name}[{key[:20]}]", replicas)
        for key, replicas in parse_object_field(path, name, value).items()
    }
    return dict(sorted(lists.items()))


def encode_topic(topic: str, partitions: Mapping[int, Sequence[int]], *, version: str) -> bytes:
    """The document for a new topic, as the tool of this Kafka version writes it (TopicZNode). Raises WriteError.

    It has no topic id. The tool of 2.8 leaves the id to the controller too, which knows whether the cluster uses ids.
    The name must be legal, partitions must count from 0 without gaps, and all lists must have the same number of
    distinct non-negative integers. Kafka would store anything else, and then could not serve it.
    """
    _check_lists(topic, partitions)
    lengths = {len(replicas) for replicas in partitions.values()}
    if len(lengths) != 1:
        raise _refused(topic, f"its partitions have different numbers of replicas: {shortened(sorted(lengths))}")
    known = behaviour(version)
    document: dict[str, object] = {"version": known.topic_znode_version, "partitions": _plain(partitions)}
    if known.marks_moves_in_topic_znode:
        document |= {"adding_replicas": {}, "removing_replicas": {}}
    return compact_json(document)


def encode_added_partitions(topic: str, data: bytes | None, added: Mapping[int, Sequence[int]]) -> bytes:
    """The document in `data` with these partitions added; version, topic id and unknown fields stay as they are.

    Raises WriteError if partitions would not count from 0 without gaps, if Kafka cannot serve a new list, or if a new
    list is not as long as that of partition 0.
    """
    existing = decode_topic(data, topic).partitions
    again = sorted(existing.keys() & added.keys())
    if not added or again:
        raise _refused(topic, f"partition {again[0]} is there already" if again else "no new partition is named")
    _check_lists(topic, {**existing, **added})
    factor = len(existing.get(0, ()))
    for partition, replicas in added.items():
        if len(replicas) != factor:
            raise _refused(topic, f"partition {partition} has {len(replicas)} replicas, partition 0 has {factor}")
    document = parse_object(paths.topic_path(topic), data)
    return compact_json({**document, "partitions": _plain({**existing, **added})})


def _check_lists(topic: object, partitions: Mapping[int, Sequence[int]]) -> None:
    if not is_topic_name(topic):
        raise WriteError(f"{shortened(topic)} is not a topic name.")
    if not partitions or set(map(type, partitions)) != {int} or set(partitions) != set(range(len(partitions))):
        raise _refused(topic, f"its partitions must be numbered from 0 without gaps, not {shortened(list(partitions))}")
    for partition, replicas in partitions.items():
        problem = list_problem(replicas)
        if problem is not None:
            raise _refused(topic, f"partition {partition}: {problem} (replicas {shortened(replicas)})")


def _refused(topic: str, problem: str) -> WriteError:
    return WriteError(f"topic {topic}: {problem}. {paths.topic_path(topic)} was not written. Start a new Dag run.")


def _plain(partitions: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(replicas) for partition, replicas in sorted(partitions.items())}


def decode_partition_state(data: bytes | None, topic_partition: TopicPartition | None = None) -> PartitionState:
    """`/brokers/topics/T/partitions/P/state` (TopicPartitionStateZNode); the ISR is in no particular order.

    `topic_partition` is for the error text. `leader_recovery_state` (3.2+) is passed over: only brokers need it.
    """
    path = paths.state_path(topic_partition or TopicPartition("TOPIC", 0))
    fields = parse_object(path, data)
    parse_version(path, fields)
    leader = json_integer(path, "leader", fields.get("leader"), least=_LEADER_DURING_DELETE)
    return PartitionState(
        leader=max(leader, -1),
        leader_epoch=json_integer(path, "leader_epoch", fields.get("leader_epoch")),
        isr=parse_brokers(path, "isr", fields.get("isr")),
    )
