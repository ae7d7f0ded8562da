"""Reads the cluster from ZooKeeper: one view of it, and dynamic configs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from kazoo.client import KazooClient

from kafka_rebalance.errors import ReadError
from kafka_rebalance.kafka.java_text import INT_MAX
from kafka_rebalance.model.cluster_view import BatchView, BrokerRegistration, ClusterView
from kafka_rebalance.model.partition import PartitionState, PartitionView, TopicAssignment, TopicPartition
from kafka_rebalance.zookeeper.client import Znode, exists, read_children, read_znodes, sync
from kafka_rebalance.zookeeper.settled_controller import read_controller
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.controller_requests import decode_election, decode_reassignment
from kafka_rebalance.zookeeper.znodes.entity_configs import decode_config
from kafka_rebalance.zookeeper.znodes.registrations import decode_broker, decode_cluster_id
from kafka_rebalance.zookeeper.znodes.topic_assignment import decode_partition_state, decode_topic

K = TypeVar("K")

DEFAULT_BROKER = -1  # stands for /config/brokers/<default>


def read_cluster_view(
    client: KazooClient,
    topics: Collection[str] | None = None,
    *,
    known: Mapping[TopicPartition, PartitionState | None] | None = None,
) -> ClusterView:
    """The cluster as ZooKeeper has it now, all topics or those named; a topic that does not exist is absent.

    The states of partitions in `known` are taken from there and not read. Raises ReadError where something cannot be
    read, CorruptZnodeError where it is not what Kafka writes.
    """
    sync(client)
    # Before the topics: where it is gone, topics and states read afterwards are those after the reassignment.
    elected = read_controller(client)
    requested = read_znodes(client, [paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION, paths.CLUSTER_ID])
    cluster_id = requested[paths.CLUSTER_ID]
    if cluster_id is None:
        raise ReadError(
            f"{paths.CLUSTER_ID} does not exist: no ZooKeeper-mode Kafka below {client.chroot or '/'}. "
            "Nothing was written. Correct the chroot in the Airflow connection."
        )
    reassignment, election = requested[paths.REASSIGN_PARTITIONS], requested[paths.PREFERRED_ELECTION]
    gone, again = _gone_since(client, reassignment)
    return ClusterView(
        cluster_id=decode_cluster_id(cluster_id[0]),
        controller=elected[0] if elected else None,
        brokers=_read_brokers(client),
        partitions=_read_partitions(
            client, read_children(client, paths.TOPICS) if topics is None else topics, known=known or {}
        ),
        reassignments=None if reassignment is None else decode_reassignment(reassignment[0]),
        elections=None if election is None else decode_election(election[0]),
        deletions=frozenset(read_children(client, paths.DELETE_TOPICS)),
        requested_gone=gone,
        requested_again=again,
    )


def _gone_since(
    client: KazooClient, request: Znode | None
) -> tuple[frozenset[TopicPartition], frozenset[TopicPartition]]:
    """(what it asks of partitions that are gone, those of them whose topic was made again since)"""
    asked = decode_reassignment(request[0]) if request is not None else {}
    if request is None or not asked:
        return frozenset(), frozenset()
    topics = _read_topics(client, {tp.topic for tp in asked})
    gone, again = set(), set()
    for tp in asked:
        if tp.topic not in topics or tp.partition not in topics[tp.topic][0].partitions:
            gone.add(tp)
            continue
        assignment, znode = topics[tp.topic]
        in_motion = assignment.adding.get(tp.partition) or assignment.removing.get(tp.partition)
        if znode[1].czxid > request[1].czxid and not in_motion:
            gone.add(tp)
            again.add(tp)
    return frozenset(gone), frozenset(again)


def read_batch_view(client: KazooClient, partitions: Collection[TopicPartition]) -> BatchView:
    """These partitions as ZooKeeper has them now; one that does not exist is absent. For following a batch.

    Reads each of their topics and states once, and seven things more. Raises ReadError, CorruptZnodeError.
    """
    sync(client)
    # Before the topics, as in `read_cluster_view`.
    requested = read_znodes(client, [paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION])
    reassignment, election = requested[paths.REASSIGN_PARTITIONS], requested[paths.PREFERRED_ELECTION]
    elected = read_controller(client)
    return BatchView(
        brokers=frozenset(_read_broker_ids(client)),
        partitions=_read_partitions(client, {tp.topic for tp in partitions}, only=frozenset(partitions)),
        reassignments=None if reassignment is None else decode_reassignment(reassignment[0]),
        elections=None if election is None else decode_election(election[0]),
        controller=elected[0] if elected else None,
        deletions=frozenset(read_children(client, paths.DELETE_TOPICS)),
    )


def is_reassignment_requested(client: KazooClient) -> bool:
    """Whether the controller still has a request; one small read. Raises ReadError."""
    return exists(client, paths.REASSIGN_PARTITIONS)


def _read_broker_ids(client: KazooClient) -> list[int]:
    names = read_children(client, paths.BROKER_IDS)
    wrong = [name for name in names if not (name.isascii() and name.isdigit() and int(name[:11]) <= INT_MAX)]
    if wrong:
        raise ReadError(f"{paths.BROKER_IDS}/{wrong[0]!r} is not a broker id. Nothing was written. Remove that znode.")
    return sorted(int(name) for name in names)


def _read_brokers(client: KazooClient) -> dict[int, BrokerRegistration]:
    ids = _read_broker_ids(client)
    znodes = read_znodes(client, map(paths.broker_path, ids))
    # A broker that left between listing and reading is no longer registered: the znode is ephemeral.
    found = {broker: znode for broker in ids if (znode := znodes[paths.broker_path(broker)]) is not None}
    return {broker: decode_broker(broker, data, stat.czxid) for broker, (data, stat) in found.items()}


def _read_partitions(
    client: KazooClient,
    topics: Iterable[str],
    only: Collection[TopicPartition] | None = None,
    known: Mapping[TopicPartition, PartitionState | None] = MappingProxyType({}),
) -> dict[TopicPartition, PartitionView]:
    """All partitions of the topics, or those of them that are in `only`; states as in `known`, where they are."""
    found = _read_topics(client, topics)
    listed = [
        topic_partition
        for topic, (assignment, _) in found.items()
        for partition in assignment.partitions
        if (topic_partition := TopicPartition(topic, partition)) and (only is None or topic_partition in only)
    ]
    states = {**known, **_read_states(client, [tp for tp in listed if tp not in known])}
    # A missing state is either a partition the controller has not initialised or one of a topic deleted meanwhile.
    doubtful = {topic_partition.topic for topic_partition in listed if states[topic_partition] is None}
    remaining = read_znodes(client, map(paths.topic_path, sorted(doubtful)))
    deleted = {
        topic
        for topic in doubtful
        if (now := remaining[paths.topic_path(topic)]) is None or now[1].czxid != found[topic][1][1].czxid
    }
    return {
        topic_partition: _view(topic_partition, *found[topic_partition.topic], states[topic_partition])
        for topic_partition in listed
        if topic_partition.topic not in deleted
    }


def _read_topics(client: KazooClient, topics: Iterable[str]) -> dict[str, tuple[TopicAssignment, Znode]]:
    names = sorted(set(topics))
    znodes = read_znodes(client, map(paths.topic_path, names))
    found = {topic: znode for topic in names if (znode := znodes[paths.topic_path(topic)]) is not None}
    return {topic: (decode_topic(znode[0], topic), znode) for topic, znode in found.items()}


def _read_states(
    client: KazooClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionState | None]:
    znodes = read_znodes(client, map(paths.state_path, partitions))
    states: dict[TopicPartition, PartitionState | None] = {}
    for topic_partition in partitions:
        znode = znodes[paths.state_path(topic_partition)]
        states[topic_partition] = None if znode is None else decode_partition_state(znode[0], topic_partition)
    return states


def _view(
    topic_partition: TopicPartition, assignment: TopicAssignment, znode: Znode, state: PartitionState | None
) -> PartitionView:
    partition = topic_partition.partition
    return PartitionView(
        replicas=assignment.partitions[partition],
        adding=assignment.adding.get(partition, ()),
        removing=assignment.removing.get(partition, ()),
        topic_znode_version=znode[1].version,
        topic_czxid=znode[1].czxid,
        topic_id=assignment.topic_id,
        state=state,
        marks_moves=assignment.marks_moves,
    )


def read_assignments(client: KazooClient, topics: Collection[str]) -> dict[str, TopicAssignment]:
    """The assignments alone, without partition states. Topics that do not exist are absent."""
    return {topic: assignment for topic, (assignment, _) in _read_topics(client, topics).items()}


def read_topic_configs(client: KazooClient, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """The configs set on each topic, without defaults. Raises ReadError."""
    return _read_configs(client, {topic: f"topics/{topic}" for topic in topics})


def read_broker_configs(client: KazooClient, brokers: Iterable[int]) -> dict[int, dict[str, str]]:
    """The configs set dynamically on each broker, and as broker -1 those for all brokers. Raises ReadError."""
    entities = {broker: f"brokers/{broker}" for broker in brokers}
    return _read_configs(client, {**entities, DEFAULT_BROKER: f"brokers/{paths.DEFAULT_ENTITY}"})


def _read_configs(client: KazooClient, entities: Mapping[K, str]) -> dict[K, dict[str, str]]:
    sync(client)
    znodes = read_znodes(client, map(paths.config_path, entities.values()))
    configs: dict[K, dict[str, str]] = {}
    for key, entity in entities.items():
        znode = znodes[paths.config_path(entity)]
        configs[key] = {} if znode is None else decode_config(znode[0], entity)
    return configs
