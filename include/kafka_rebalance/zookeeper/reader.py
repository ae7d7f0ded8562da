"""Reads the cluster and its dynamic configs from ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from kazoo.client import KazooClient

from kafka_rebalance.errors import ClusterNotReadyError, ReadError
from kafka_rebalance.kafka.given_json import INT_MAX
from kafka_rebalance.model.cluster_view import (
    DEFAULT_BROKER,
    BatchView,
    BrokerRegistration,
    ClusterView,
    Controller,
    SettledController,
)
from kafka_rebalance.model.partition import PartitionState, PartitionView, TopicAssignment, TopicPartition
from kafka_rebalance.zookeeper import znodes as paths
from kafka_rebalance.zookeeper.client import Znode, read_children, read_znodes, sync
from kafka_rebalance.zookeeper.znodes import (
    decode_broker,
    decode_cluster_id,
    decode_config,
    decode_controller,
    decode_controller_epoch,
    decode_election,
    decode_partition_state,
    decode_reassignment,
    decode_topic,
)

K = TypeVar("K")


def read_cluster_view(
    client: KazooClient,
    topics: Collection[str] | None = None,
    *,
    known: Mapping[TopicPartition, PartitionState | None] | None = None,
) -> ClusterView:
    """The cluster as ZooKeeper has it now, with all topics or those named; a topic that does not exist is absent.

    The states of partitions in `known` come from there and are not read. Raises ReadError, CorruptZnodeError.
    """
    sync(client)
    # Read before the topics: if the request is gone, the topics and states show the end of the reassignment.
    elected = _read_controller(client)
    requested = read_znodes(client, [paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION, paths.CLUSTER_ID])
    cluster_id = requested[paths.CLUSTER_ID]
    if cluster_id is None:
        raise ReadError(
            f"{paths.CLUSTER_ID} does not exist: there is no ZooKeeper-mode Kafka below {client.chroot or '/'}. "
            "Correct the chroot in the Airflow connection."
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
    """(requested partitions that are gone, those of them whose topic was created again since)"""
    if request is None:
        return frozenset(), frozenset()
    targets = decode_reassignment(request[0])
    topics = _read_topics(client, {tp.topic for tp in targets})
    gone, again = set(), set()
    for tp in targets:
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
    """These partitions as ZooKeeper has them now, for following a batch; one that does not exist is absent.

    Reads each of their topics and states once, and seven znodes more. Raises ReadError, CorruptZnodeError.
    """
    sync(client)
    # Before the topics, as in `read_cluster_view`.
    requested = read_znodes(client, [paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION])
    reassignment, election = requested[paths.REASSIGN_PARTITIONS], requested[paths.PREFERRED_ELECTION]
    elected = _read_controller(client)
    return BatchView(
        brokers=frozenset(read_broker_ids(client)),
        partitions=_read_partitions(client, {tp.topic for tp in partitions}, only=frozenset(partitions)),
        reassignments=None if reassignment is None else decode_reassignment(reassignment[0]),
        elections=None if election is None else decode_election(election[0]),
        controller=elected[0] if elected else None,
        deletions=frozenset(read_children(client, paths.DELETE_TOPICS)),
    )


def read_broker_ids(client: KazooClient) -> list[int]:
    """Those that are registered now. Raises ReadError."""
    names = read_children(client, paths.BROKER_IDS)
    wrong = [name for name in names if not (name.isascii() and name.isdigit() and int(name[:11]) <= INT_MAX)]
    if wrong:
        raise ReadError(f"{paths.BROKER_IDS}/{wrong[0]!r} is not a broker id. Remove that znode.")
    return sorted(int(name) for name in names)


def _read_brokers(client: KazooClient) -> dict[int, BrokerRegistration]:
    ids = read_broker_ids(client)
    znodes = read_znodes(client, map(paths.broker_path, ids))
    return {
        broker: decode_broker(broker, znode[0], znode[1].czxid)
        for broker in ids
        if (znode := znodes[paths.broker_path(broker)]) is not None  # the broker may have left since it was listed
    }


def _read_partitions(
    client: KazooClient,
    topics: Iterable[str],
    only: Collection[TopicPartition] | None = None,
    known: Mapping[TopicPartition, PartitionState | None] = MappingProxyType({}),
) -> dict[TopicPartition, PartitionView]:
    """All partitions of the topics, or only those in `only`. States in `known` are not read."""
    by_topic = _read_topics(client, topics)
    listed = [
        TopicPartition(topic, partition)
        for topic, (assignment, _) in by_topic.items()
        for partition in assignment.partitions
    ]
    listed = [tp for tp in listed if only is None or tp in only]
    states = {**known, **_read_states(client, [tp for tp in listed if tp not in known])}
    # If a state is missing, the controller has not initialised the partition, or the topic was deleted meanwhile.
    doubtful = {tp.topic for tp in listed if states[tp] is None}
    remaining = read_znodes(client, map(paths.topic_path, sorted(doubtful)))
    deleted = {
        topic
        for topic in doubtful
        if (now := remaining[paths.topic_path(topic)]) is None or now[1].czxid != by_topic[topic][1][1].czxid
    }
    return {tp: _view(tp, *by_topic[tp.topic], states[tp]) for tp in listed if tp.topic not in deleted}


def _read_topics(client: KazooClient, topics: Iterable[str]) -> dict[str, tuple[TopicAssignment, Znode]]:
    names = sorted(set(topics))
    znodes = read_znodes(client, map(paths.topic_path, names))
    return {
        topic: (decode_topic(znode[0], topic), znode)
        for topic in names
        if (znode := znodes[paths.topic_path(topic)]) is not None
    }


def _read_states(
    client: KazooClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionState | None]:
    znodes = read_znodes(client, map(paths.state_path, partitions))
    return {
        tp: None if (znode := znodes[paths.state_path(tp)]) is None else decode_partition_state(znode[0], tp)
        for tp in partitions
    }


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
    """The assignments without partition states. Topics that do not exist are absent."""
    return {topic: assignment for topic, (assignment, _) in _read_topics(client, topics).items()}


def read_topic_configs(client: KazooClient, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """The configs that are set on each topic, without defaults. Raises ReadError."""
    return _read_configs(client, {topic: f"topics/{topic}" for topic in topics})


def read_broker_configs(client: KazooClient, brokers: Iterable[int]) -> dict[int, dict[str, str]]:
    """The dynamic configs of each broker, and as broker -1 those of all brokers. Raises ReadError."""
    entities = {broker: f"brokers/{broker}" for broker in brokers}
    return _read_configs(client, {**entities, DEFAULT_BROKER: f"brokers/{paths.DEFAULT_ENTITY}"})


def _read_configs(client: KazooClient, entities: Mapping[K, str]) -> dict[K, dict[str, str]]:
    sync(client)
    znodes = read_znodes(client, map(paths.config_path, entities.values()))
    return {
        key: {} if (znode := znodes[paths.config_path(entity)]) is None else decode_config(znode[0], entity)
        for key, entity in entities.items()
    }


def read_all_configs(client: KazooClient) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
    """({`brokers/N` or `topics/T`: config}, names below `/config/brokers` that are no broker). Raises ReadError."""
    sync(client)
    topics, brokers = (read_children(client, f"/config/{kind}") for kind in ("topics", "brokers"))
    strange = {name for name in brokers if name != paths.DEFAULT_ENTITY and not (name.isascii() and name.isdigit())}
    numbered = sorted({*brokers} - {*strange, paths.DEFAULT_ENTITY})
    entities = [*(f"topics/{name}" for name in topics), *(f"brokers/{name}" for name in numbered)]
    return _read_configs(client, {entity: entity for entity in entities}), tuple(sorted(strange))


# Whether a cluster has a settled controller: the broker is alive, and two reads in a row find the same controller.


EPOCHS_OF_A_STORM = 3  # an ordinary failover between the two reads adds one


def check_controller_stable(client: KazooClient, pause: Callable[[], None]) -> SettledController:
    """The live controller, read twice with `pause` between. Raises ClusterNotReadyError, ReadError.

    If one znode stops every new controller, all brokers resign in turn, tens of times a second, and serve no request.
    During a migration (3.4+), a KRaft controller owns the cluster.
    """
    before = _read_live_controller(client)
    pause()
    after = _read_live_controller(client)
    grown = after.epoch - before.epoch
    if grown > EPOCHS_OF_A_STORM:
        raise ClusterNotReadyError(
            f"The controller epoch grew from {before.epoch} to {after.epoch} between two reads: brokers resign as "
            "controller one after the other. Look for the exception in the controllers' logs. "
            "Usually, Kafka cannot read one znode."
        )
    return SettledController(after, (before.epoch, after.epoch))


def _read_live_controller(client: KazooClient) -> Controller:
    sync(client)
    elected = _read_controller(client)
    if elected is None:
        raise ClusterNotReadyError(
            f"There is no controller ({paths.CONTROLLER} is absent). Try again when the brokers have elected one."
        )
    controller, session = elected
    check_not_migrating(controller, "Reassign through the Kafka API instead.")
    registration = read_znodes(client, [paths.broker_path(controller.broker)])[paths.broker_path(controller.broker)]
    # Both znodes are ephemeral. If their sessions differ, another process has registered as this broker.
    if registration is None or registration[1].ephemeralOwner != session:
        raise ClusterNotReadyError(
            f"{paths.CONTROLLER} names broker {controller.broker}, which is not registered in its session. "
            "Try again when the brokers have elected a live one."
        )
    return controller


def check_not_migrating(controller: Controller, remedy: str) -> None:
    """Raises ClusterNotReadyError if a KRaft controller (3.4+) owns the cluster: it takes nothing from ZooKeeper."""
    if controller.kraft_epoch >= 0:
        raise ClusterNotReadyError(
            f"A KRaft controller owns the cluster (epoch {controller.kraft_epoch}): the cluster is being migrated from "
            f"ZooKeeper. {remedy}"
        )


def _read_controller(client: KazooClient) -> tuple[Controller, int] | None:
    """The controller, and the session that elected it."""
    znodes = read_znodes(client, [paths.CONTROLLER, paths.CONTROLLER_EPOCH])
    controller, epoch = znodes[paths.CONTROLLER], znodes[paths.CONTROLLER_EPOCH]
    if controller is None:
        return None
    decoded = decode_controller(controller[0], 0 if epoch is None else decode_controller_epoch(epoch[0]))
    return (decoded, controller[1].ephemeralOwner) if decoded.broker >= 0 else None
