"""Znodes by which something is requested of the controller: reassignments and preferred leader elections."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kafka_rebalance.errors import WriteError
from kafka_rebalance.kafka.java_text import INT_MAX
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.replica_list import replica_list_problem
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.json_fields import (
    compact_json,
    is_topic_name,
    json_integer,
    parse_brokers,
    parse_list,
    parse_object,
    parse_object_field,
    parse_topic_name,
    parse_version,
    shortened,
)


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """`/admin/reassign_partitions` (ReassignPartitionsZNode): the target of each partition; the last entry wins.

    Raises CorruptZnodeError.
    """
    return {
        topic_partition: parse_brokers(
            paths.REASSIGN_PARTITIONS, f"replicas of {topic_partition}", entry.get("replicas")
        )
        for topic_partition, entry in _entries(paths.REASSIGN_PARTITIONS, data)
    }


def decode_election(data: bytes | None) -> frozenset[TopicPartition]:
    """`/admin/preferred_replica_election` (PreferredReplicaElectionZNode). Raises CorruptZnodeError."""
    return frozenset(topic_partition for topic_partition, _ in _entries(paths.PREFERRED_ELECTION, data))


def _entries(path: str, data: bytes | None) -> Iterator[tuple[TopicPartition, dict[str, object]]]:
    fields = parse_object(path, data)
    parse_version(path, fields)
    for value in parse_list(path, "partitions", fields.get("partitions")):
        entry = parse_object_field(path, "each entry of partitions", value)
        topic = parse_topic_name(path, "topic", entry.get("topic"))
        yield TopicPartition(topic, json_integer(path, f"partition of {topic}", entry.get("partition"))), entry


def encode_reassignment(assignment: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """The document for `/admin/reassign_partitions`, partitions in order. Raises WriteError.

    Only `topic`, `partition` and `replicas`: one key more and the controller throws the whole document away.
    Refuses anything but distinct non-negative integers: a text id ends up in the topic znode and no broker can
    become controller after the next failover; an empty list destroys the partition (seen on 2.0.1 and 2.8.2).
    """
    _check_not_empty(assignment, paths.REASSIGN_PARTITIONS)
    _check_partitions(assignment, paths.REASSIGN_PARTITIONS)
    for topic_partition, replicas in assignment.items():
        problem = _sequence_problem(replicas) or replica_list_problem(replicas)
        if problem:
            raise WriteError(
                f"{topic_partition[0]}-{topic_partition[1]}: {problem} (replicas {shortened(replicas)}). "
                f"{paths.REASSIGN_PARTITIONS} was not written. Start a new Dag run to plan again."
            )
    return compact_json(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": partition, "replicas": list(assignment[TopicPartition(topic, partition)])}
                for topic, partition in sorted(assignment)
            ],
        }
    )


def _sequence_problem(replicas: object) -> str | None:
    if isinstance(replicas, Sequence) and not isinstance(replicas, str | bytes | bytearray):
        over = [broker for broker in replicas if type(broker) is int and broker > INT_MAX]
        return f"broker {over[0]} is beyond the largest broker id" if over else None
    return "the replicas are not a list of broker ids"


def encode_election(partitions: Collection[TopicPartition]) -> bytes:
    """The document for `/admin/preferred_replica_election`, partitions in order. Raises WriteError."""
    _check_not_empty(partitions, paths.PREFERRED_ELECTION)
    _check_partitions(partitions, paths.PREFERRED_ELECTION)
    return compact_json(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": partition} for topic, partition in sorted(frozenset(partitions))
            ],
        }
    )


def _check_not_empty(partitions: Collection[TopicPartition], path: str) -> None:
    if not partitions:
        raise WriteError(f"{path} was not written: it would name no partition, and blocks every later request on 2.4+.")


def _check_partitions(partitions: Collection[TopicPartition], path: str) -> None:
    for key in partitions:
        shaped = isinstance(key, tuple) and len(key) == 2
        if not shaped or not is_topic_name(key[0]) or type(key[1]) is not int or not 0 <= key[1] <= INT_MAX:
            raise WriteError(
                f"{shortened(key)} is not a topic name and a partition id. {path} was not written. "
                "Start a new Dag run to plan again."
            )
