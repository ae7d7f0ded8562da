"""Reads a cluster without ZooKeeper: brokers, and partitions with what is in motion.

Partitions are read from a broker that is up to date (`quorum.fresh_broker`), the list of what is in motion from the
controller itself.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)

from kafka_rebalance.admin.clients import ANOTHER_SECONDS, REQUEST_SECONDS, describe_cluster
from kafka_rebalance.admin.quorum import Quorum, find_quorum, read_fresh
from kafka_rebalance.admin.wire import DESCRIBE_CLUSTER, UNKNOWN_TOPIC, Wire, check_read, metadata_of, open_wire
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.cluster_view import (
    BY_ADMIN_API,
    BatchView,
    BrokerRegistration,
    ClusterView,
    Controller,
    Endpoint,
)
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import PartitionState, PartitionView, TopicPartition

# A controller lists what it has decided. It writes that to its log up to 25 ms later
# (controller.quorum.append.linger.ms).
_LINGER_SECONDS = 0.05
_DESCRIBE_TOPICS = "Describe on all topics"
_PAGE = 2000  # partitions; brokers give no more
# Where few partitions of a large topic are wanted, they are read in ranges. A request for one costs a broker and this
# host about as much as so many partitions of an answer.
_RANGE_COST = 200
# {client: {topic: its partitions, when it was last read as a whole}}
_partitions_of: WeakKeyDictionary[Wire, dict[str, int]] = WeakKeyDictionary()
_NO_LEADER = 5  # LEADER_NOT_AVAILABLE: the partition has none now
_OFFLINE_REPLICA = 9  # REPLICA_NOT_AVAILABLE: no error of the partition


@dataclass(frozen=True, slots=True)
class _Read:
    """One read of the partitions and of what stands around them."""

    cluster_id: str
    quorum: Quorum | None
    brokers: Mapping[int, BrokerRegistration]
    moves: Mapping[TopicPartition, Any]
    partitions: Mapping[TopicPartition, PartitionView]
    whole: frozenset[str]  # topics of which all partitions were read
    internal: frozenset[str]

    @property
    def controller(self) -> Controller | None:
        return None if self.quorum is None else Controller(self.quorum.leader, self.quorum.epoch)


def read_view(wire: Wire, topics: Collection[str] | None = None) -> ClusterView:
    """The cluster now, with all topics or those named; one that does not exist is absent. Raises ReadError."""
    found = _read(wire, topics, None)
    return ClusterView(
        cluster_id=found.cluster_id,
        controller=found.controller,
        brokers=found.brokers,
        partitions=found.partitions,
        reassignments=None,
        elections=None,
        deletions=frozenset(),
        voters=frozenset() if found.quorum is None else found.quorum.voters,
        traits=BY_ADMIN_API,
        internal=found.internal,
    )


def read_view_again(
    wire: Wire, topics: Collection[str], earlier: ClusterView, partitions: Collection[TopicPartition]
) -> ClusterView:
    """See `OpenCluster.read_view_again`. Topics without such a partition are not read. Raises ReadError."""
    moved = {tp for tp, one in earlier.partitions.items() if one.in_motion}
    again = frozenset(tp for tp in (*partitions, *moved) if tp.topic in topics)
    found = _read(wire, {tp.topic for tp in again}, again)
    unread = {
        tp: _in_motion(one, found.moves.get(tp))
        for tp, one in earlier.partitions.items()
        if tp.topic in topics and tp.topic not in found.whole and tp not in again
    }
    return replace(
        earlier,
        cluster_id=found.cluster_id,
        controller=found.controller,
        brokers=found.brokers,
        partitions={**unread, **found.partitions},
        voters=frozenset() if found.quorum is None else found.quorum.voters,
        internal=earlier.internal | found.internal,
    )


def read_batch_view(wire: Wire, partitions: Collection[TopicPartition]) -> BatchView:
    """These partitions now; one that does not exist is absent. Raises ReadError."""
    found = _read(wire, {tp.topic for tp in partitions}, frozenset(partitions))
    batch = {tp: found.partitions[tp] for tp in partitions if tp in found.partitions}
    return BatchView(
        brokers=frozenset(found.brokers),
        partitions=batch,
        reassignments=None,
        elections=None,
        controller=found.controller,
        deletions=frozenset(),
        traits=BY_ADMIN_API,
    )


def _read(wire: Wire, topics: Collection[str] | None, only: Collection[TopicPartition] | None) -> _Read:
    quorum = find_quorum(wire)  # first: it refuses a cluster with ZooKeeper
    # Before the partitions: if a move is no longer listed, a broker that is up to date afterwards shows its end.
    moves = read_moves(wire, None if wire.fresh is None else wire.fresh.broker)
    listed_at = time.monotonic()
    cluster_id, brokers = _read_brokers(wire)
    time.sleep(max(0.0, listed_at + _LINGER_SECONDS - time.monotonic()))
    ranges = {} if topics is None or only is None else _ranges_worth_it(wire, only)
    whole = topics if topics is None else set(topics) - ranges.keys()
    partitions, internal = _read_topics(wire, whole)
    read_whole = frozenset(tp.topic for tp in partitions) if whole is None else frozenset(whole)
    for topic, of_topic in ranges.items():
        partitions |= _read_ranges(wire, topic, of_topic)
    found = {tp: _in_motion(partition, moves.get(tp)) for tp, partition in partitions.items()}
    return _Read(cluster_id, quorum, brokers, moves, found, read_whole, internal)


def _ranges_worth_it(wire: Wire, wanted: Collection[TopicPartition]) -> dict[str, list[range]]:
    """{topic: ranges with all of its partitions that are wanted}, of topics where that costs less than all of them."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(wanted):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    worth_it = {}
    for topic, numbers in by_topic.items():
        ranges = [range(numbers[0], numbers[0])]
        for number in numbers:
            first, stop = ranges[-1].start, ranges[-1].stop
            if number - stop > _RANGE_COST or number >= first + _PAGE:
                ranges.append(range(number, number + 1))
            else:
                ranges[-1] = range(first, number + 1)
        cost = sum(len(each) + _RANGE_COST for each in ranges)
        if cost < _partitions_of.get(wire, {}).get(topic, 0):
            worth_it[topic] = ranges
    return worth_it


def read_live(wire: Wire) -> frozenset[int]:
    """The live brokers. Raises ReadError."""
    return frozenset(_read_brokers(wire)[1])


def read_racks(wire: Wire) -> dict[int, str | None]:
    """The rack of each live broker. Raises ReadError."""
    return {broker: one.rack for broker, one in _read_brokers(wire)[1].items()}


def read_topic_ids(wire: Wire, partitions: Collection[TopicPartition]) -> dict[str, str | None]:
    """Of the topics of these partitions, as they are now; one that does not exist is absent. Raises ReadError."""
    one_each = {tp.topic: tp for tp in partitions}
    ranges = _ranges_worth_it(wire, one_each.values())
    answer = read_fresh(wire, metadata_of(one_each.keys() - ranges.keys()))
    ids = {topic.name: _topic_id(topic.topic_id) for topic in answer.topics if topic.error_code != UNKNOWN_TOPIC}
    for topic, of_topic in ranges.items():
        ids |= {tp.topic: one.topic_id for tp, one in _read_ranges(wire, topic, of_topic).items()}
    return ids


def read_topic_names(wire: Wire) -> frozenset[str]:
    """All topics that the user may describe. Raises ReadError."""
    answer = read_fresh(wire, metadata_of(None), anew=False)
    return frozenset(topic.name for topic in answer.topics)


def read_internal_topics(kafka: KafkaConnection) -> frozenset[str]:
    """The topics that a broker calls internal, for a cluster whose ZooKeeper does not say it. Raises ReadError."""
    with open_wire(kafka) as wire:
        answer = wire.read(metadata_of(None))
    return frozenset(topic.name for topic in answer.topics if topic.is_internal)


def _read_brokers(wire: Wire) -> tuple[str, dict[int, BrokerRegistration]]:
    """(cluster id, live brokers)

    A fenced broker has no session, as one without a znode has none.
    """
    answer = read_fresh(wire, DescribeClusterRequest(include_fenced_brokers=True), anew=False)
    check_read("The list of brokers", DESCRIBE_CLUSTER, answer.error_code, answer.error_message)
    live = [broker for broker in answer.brokers if not getattr(broker, "is_fenced", False)]
    registered = {
        broker.broker_id: BrokerRegistration(broker.broker_id, (Endpoint(broker.host, broker.port),), broker.rack)
        for broker in sorted(live, key=lambda one: one.broker_id)
    }
    return answer.cluster_id, registered


def read_moves(wire: Wire, broker: int | None = None) -> dict[TopicPartition, Any]:
    """What is in motion, from the controller's own list. `broker` is asked first, which may have gone away."""
    request = ListPartitionReassignmentsRequest(timeout_ms=int(REQUEST_SECONDS * 1000), topics=None)
    try:
        repeat = REQUEST_SECONDS if broker is None else 0
        answer = wire.read(request, broker, repeat_seconds=repeat, answer_seconds=ANOTHER_SECONDS)
    except ReadError:
        if broker is None:
            raise
        answer = wire.read(request)
    check_read("The list of reassignments", DESCRIBE_CLUSTER, answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, partition.partition_index): partition
        for topic in answer.topics
        for partition in topic.partitions
    }


def _in_motion(partition: PartitionView, move: Any) -> PartitionView:
    if move is None:
        return partition
    return replace(
        partition,
        replicas=tuple(move.replicas),
        adding=tuple(move.adding_replicas),
        removing=tuple(move.removing_replicas),
    )


def _read_topics(
    wire: Wire, topics: Collection[str] | None
) -> tuple[dict[TopicPartition, PartitionView], frozenset[str]]:
    """The partitions as a broker that is up to date knows them, and the topics of them that it calls internal.

    Topics that the user may not describe are absent.
    """
    if topics is not None and not topics:
        return {}, frozenset()
    answer = read_fresh(wire, metadata_of(topics))
    found: dict[TopicPartition, PartitionView] = {}
    for topic in answer.topics:
        found |= _partitions(topic)
        _partitions_of.setdefault(wire, {})[topic.name] = len(topic.partitions)
    found |= _with_eligible(wire, {tp: one for tp, one in found.items() if not one.isr})
    return found, frozenset(topic.name for topic in answer.topics if topic.is_internal)


def _read_ranges(wire: Wire, topic: str, ranges: Collection[range]) -> dict[TopicPartition, PartitionView]:
    """The partitions of these numbers, as a broker tells them that knows all that was listed as in motion."""
    request_of = DescribeTopicPartitionsRequest
    found: dict[TopicPartition, PartitionView] = {}
    for number, each in enumerate(ranges):
        request = request_of(
            topics=[request_of.TopicRequest(name=topic)],
            response_partition_limit=len(each),
            cursor=request_of.Cursor(topic_name=topic, partition_index=each.start),
        )
        try:
            # Each answer is as new as the first: what counts is that they are newer than the list of what moves.
            answer = read_fresh(wire, request, anew=number == 0)
        except IncompatibleBrokerVersion:  # below 3.7
            return _read_topics(wire, [topic])[0]
        for told in answer.topics:
            found |= {tp: one for tp, one in _partitions(told).items() if tp.topic == topic and tp.partition in each}
    return found | _with_eligible(wire, {tp: one for tp, one in found.items() if not one.isr})


def _partitions(topic: Any) -> dict[TopicPartition, PartitionView]:
    """Of a topic in an answer to Metadata or DescribeTopicPartitions; none if it does not exist."""
    if topic.error_code == UNKNOWN_TOPIC:
        return {}
    check_read(f"Topic {topic.name}", _DESCRIBE_TOPICS, topic.error_code)
    found, topic_id = {}, _topic_id(topic.topic_id)
    for partition in topic.partitions:
        if partition.error_code not in (_NO_LEADER, _OFFLINE_REPLICA):
            check_read(f"Partition {topic.name}-{partition.partition_index}", _DESCRIBE_TOPICS, partition.error_code)
        found[TopicPartition(topic.name, partition.partition_index)] = PartitionView(
            replicas=tuple(partition.replica_nodes),
            adding=(),
            removing=(),
            topic_znode_version=None,
            topic_czxid=None,
            topic_id=topic_id,
            state=PartitionState(partition.leader_id, partition.leader_epoch, tuple(partition.isr_nodes)),
            marks_moves=True,
        )
    return found


def _with_eligible(wire: Wire, without: Mapping[TopicPartition, PartitionView]) -> dict[TopicPartition, PartitionView]:
    """Partitions whose ISR is empty, with the replicas that may lead them all the same (KIP-966, Kafka 4).

    Metadata does not tell these. Where nobody tells them they stay unknown.
    """
    request_of = DescribeTopicPartitionsRequest
    topics = [request_of.TopicRequest(name=topic) for topic in sorted({tp.topic for tp in without})]
    found: dict[TopicPartition, PartitionView] = {}
    cursor = None
    while len(found) < len(without):
        try:
            request = request_of(topics=topics, response_partition_limit=_PAGE, cursor=cursor)
            answer = read_fresh(wire, request, anew=False)
        except (IncompatibleBrokerVersion, ReadError):
            return found
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                state = without[tp].state if tp in without else None
                if state is not None:
                    may_lead = tuple(partition.eligible_leader_replicas or ()) or tuple(partition.last_known_elr or ())
                    found[tp] = replace(without[tp], state=replace(state, eligible=may_lead))
        if answer.next_cursor is None:
            return found
        at = answer.next_cursor
        cursor = request_of.Cursor(topic_name=at.topic_name, partition_index=at.partition_index)
    return found


def _topic_id(told: UUID | None) -> str | None:
    """As Kafka writes it (`org.apache.kafka.common.Uuid`). None below 2.8, whose topics have none."""
    if told is None or not told.int:
        return None
    return base64.urlsafe_b64encode(told.bytes).decode().rstrip("=")


# The cluster's id, as its brokers report it.


def read_cluster_id(kafka: KafkaConnection) -> str:
    """The id that the brokers report. ZooKeeper of the same cluster has the same id. Raises ReadError."""
    return str(describe_cluster(kafka).cluster_id)
