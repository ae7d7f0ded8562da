"""The znodes that request something from the controller: reassignments and preferred leader elections."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kafka_rebalance.errors import WriteError
from kafka_rebalance.kafka.java_text import INT_MAX
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.json_fields import (
    compact_json,
    corrupt,
    is_topic_name,
    json_integer,
    list_problem,
    parse_brokers,
    parse_list,
    parse_object,
    parse_object_field,
    parse_version,
    shortened,
)


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """`/admin/reassign_partitions` (ReassignPartitionsZNode): the target of each partition; the last entry wins."""
    path = paths.REASSIGN_PARTITIONS
    return {tp: parse_brokers(path, f"replicas of {tp}", entry.get("replicas")) for tp, entry in _entries(path, data)}


def decode_election(data: bytes | None) -> frozenset[TopicPartition]:
    """`/admin/preferred_replica_election` (PreferredReplicaElectionZNode)."""
    return frozenset(topic_partition for topic_partition, _ in _entries(paths.PREFERRED_ELECTION, data))


def _entries(path: str, data: bytes | None) -> Iterator[tuple[TopicPartition, dict[str, object]]]:
    fields = parse_object(path, data)
    parse_version(path, fields)
    for value in parse_list(path, "partitions", fields.get("partitions")):
        entry = parse_object_field(path, "each entry of partitions", value)
        topic = entry.get("topic")
        if not is_topic_name(topic):
            raise corrupt(path, f"topic must be a topic name, not {shortened(topic)}")
        yield TopicPartition(topic, json_integer(path, f"partition of {topic}", entry.get("partition"))), entry


def encode_reassignment(assignment: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """The document for `/admin/reassign_partitions`, partitions in order. Raises WriteError.

    An entry has only `topic`, `partition` and `replicas`: with one key more, the controller discards the document.
    Broker ids must be distinct non-negative integers. The controller copies a text id into the topic's znode, and after
    the next failover no broker can become controller. An empty list destroys the partition (seen on 2.0.1 and 2.8.2).
    """
    _check_partitions(assignment, paths.REASSIGN_PARTITIONS)
    for (topic, partition), replicas in assignment.items():
        problem = list_problem(replicas)
        if problem:
            raise WriteError(
                f"{topic}-{partition}: {problem} (replicas {shortened(replicas)}). "
                f"{paths.REASSIGN_PARTITIONS} was not written. Start a new Dag run to plan again."
            )
    entries = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(assignment.items())
    ]
    return compact_json({"version": 1, "partitions": entries})


def encode_election(partitions: Collection[TopicPartition]) -> bytes:
    """The document for `/admin/preferred_replica_election`, partitions in order. Raises WriteError."""
    _check_partitions(partitions, paths.PREFERRED_ELECTION)
    entries = [{"topic": topic, "partition": partition} for topic, partition in sorted(frozenset(partitions))]
    return compact_json({"version": 1, "partitions": entries})


def _check_partitions(partitions: Collection[TopicPartition], path: str) -> None:
    if not partitions:
        raise WriteError(
            f"{path} was not written: it would name no partition, and from Kafka 2.4 on that blocks all later requests."
        )
    for key in partitions:
        shaped = isinstance(key, tuple) and len(key) == 2
        if not shaped or not is_topic_name(key[0]) or type(key[1]) is not int or not 0 <= key[1] <= INT_MAX:
            raise WriteError(
                f"{shortened(key)} is not a topic name and a partition id. {path} was not written. "
                "Start a new Dag run to plan again."
            )
