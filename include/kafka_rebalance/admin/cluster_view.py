"""Reads a cluster without ZooKeeper: brokers, quorum, and partitions with what is in motion.

A broker answers from its own copy of the metadata, which is behind the controller's: by 0.3 seconds at most when the
cluster is quiet, by more than 10 while brokers create thousands of logs. So two brokers must agree. The list of what is
in motion comes from the controller itself.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeQuorumRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from kafka_rebalance.admin.clients import REQUEST_SECONDS
from kafka_rebalance.admin.wire import DESCRIBE_CLUSTER, Wire, check_read
from kafka_rebalance.errors import ClusterNotReadyError, ConnectionSettingsError, ReadError
from kafka_rebalance.model.cluster_view import (
    BY_ADMIN_API,
    BatchView,
    BrokerRegistration,
    ClusterView,
    Controller,
    Endpoint,
    SettledController,
)
from kafka_rebalance.model.partition import PartitionState, PartitionView, TopicPartition

EPOCHS_OF_A_STORM = 3  # an ordinary failover between the two reads adds one, a vote that was split adds more
_AGREE_SECONDS, _PAUSE_SECONDS = 30.0, 0.2
_CAUGHT_UP_SECONDS = 0.02  # a broker that waits for news fetches the next ones within milliseconds
_METADATA_TOPIC = "__cluster_metadata"
_DESCRIBE_TOPICS = "Describe on all topics"
_UNKNOWN_TOPIC = 3
_NO_LEADER = 5  # LEADER_NOT_AVAILABLE: the partition has none now
_OFFLINE_REPLICA = 9  # REPLICA_NOT_AVAILABLE: no error of the partition


@dataclass(frozen=True, slots=True)
class Quorum:
    """`told`: up to which offset each node has fetched the metadata. `committed`: up to where it counts."""

    leader: int
    epoch: int
    voters: frozenset[int]
    committed: int
    told: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Read:
    """One read of the partitions and of what stands around them."""

    cluster_id: str
    quorum: Quorum | None
    brokers: Mapping[int, BrokerRegistration]
    partitions: Mapping[TopicPartition, PartitionView]

    @property
    def controller(self) -> Controller | None:
        return None if self.quorum is None else Controller(self.quorum.leader, self.quorum.epoch)


class ViewReader:
    """Reads one cluster again and again.

    It remembers which moves were listed. When one is listed no longer, its end is in the controller's metadata, but a
    busy broker may tell the list from before for seconds. Then the partition is read again.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._listed: dict[TopicPartition, tuple[int, ...]] = {}  # in motion at the last read, with the list then

    def read_view(self, topics: Collection[str] | None = None) -> ClusterView:
        """The cluster now, with all topics or those named; one that does not exist is absent. Raises ReadError."""
        found = self._read(topics, None)
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
        )

    def read_batch_view(self, partitions: Collection[TopicPartition]) -> BatchView:
        """These partitions now; one that does not exist is absent. Raises ReadError."""
        found = self._read({tp.topic for tp in partitions}, frozenset(partitions))
        return BatchView(
            brokers=frozenset(found.brokers),
            partitions=found.partitions,
            reassignments=None,
            elections=None,
            controller=found.controller,
            deletions=frozenset(),
            traits=BY_ADMIN_API,
        )

    def expect(self, lists: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """These lists were just requested to change: a read that still tells them is from before the request."""
        self._listed.update(lists)

    def _read(self, topics: Collection[str] | None, only: Collection[TopicPartition] | None) -> _Read:
        cluster_id, brokers, controller = _read_brokers(self._wire)
        give_up = time.monotonic() + _AGREE_SECONDS
        while True:
            # Before the partitions: if a move is no longer listed, their lists and ISRs show its end.
            moves = read_moves(self._wire, controller)
            quorum = _find_quorum(self._wire)
            asked = _two_of(brokers, quorum)
            if quorum is not None:
                quorum = self._wait_for(quorum, asked, give_up)
            told = _read_agreed(self._wire, asked, topics)
            found = {
                tp: _in_motion(partition, moves.get(tp)) for tp, partition in told.items() if only is None or tp in only
            }
            if time.monotonic() > give_up or not any(self._is_of_before(tp, one) for tp, one in found.items()):
                break
            time.sleep(_PAUSE_SECONDS)
        for tp, one in found.items():
            if one.removing:  # else the list stays as it is when the move ends
                self._listed[tp] = one.replicas
            else:
                self._listed.pop(tp, None)
        return _Read(cluster_id, quorum, brokers, found)

    def _is_of_before(self, tp: TopicPartition, now: PartitionView) -> bool:
        return not now.in_motion and self._listed.get(tp) == now.replicas

    def _wait_for(self, quorum: Quorum, brokers: Collection[int], give_up: float) -> Quorum:
        """Until these brokers have what was committed. Without a leader meanwhile, agreement of the two has to do."""
        wanted, now = quorum.committed, quorum
        while any(now.told.get(broker, wanted) < wanted for broker in brokers) and time.monotonic() < give_up:
            time.sleep(_CAUGHT_UP_SECONDS)
            now = _find_quorum(self._wire) or now
        return now


def read_view(wire: Wire, topics: Collection[str] | None = None) -> ClusterView:
    """See `ViewReader.read_view`."""
    return ViewReader(wire).read_view(topics)


def read_live(wire: Wire) -> frozenset[int]:
    """The live brokers. Raises ReadError."""
    return frozenset(_read_brokers(wire)[1])


def fresh_broker(wire: Wire, broker: int | None = None) -> int | None:
    """A broker that has all of the metadata that is committed now; None: any, because nobody tells.

    `broker`: wait for this one. One that has just started tells configs, topics and brokers of before. After
    `_AGREE_SECONDS` the broker that has most of it has to do. Raises ReadError, ConnectionSettingsError.
    """
    quorum = _find_quorum(wire)
    if quorum is None or not quorum.told:
        return broker
    wanted, give_up = quorum.committed, time.monotonic() + _AGREE_SECONDS
    while True:
        asked = wire.known_brokers() & quorum.told.keys() if broker is None else {broker}
        best = max(asked, key=lambda one: (quorum.told.get(one, wanted), one), default=None)
        if best is None or quorum.told.get(best, wanted) >= wanted or time.monotonic() > give_up:
            return best
        time.sleep(_CAUGHT_UP_SECONDS)
        quorum = _find_quorum(wire) or quorum


def read_topic_names(wire: Wire) -> frozenset[str]:
    """All topics that the user may describe. Raises ReadError."""
    answer = wire.read(MetadataRequest(topics=None, allow_auto_topic_creation=False), fresh_broker(wire))
    return frozenset(topic.name for topic in answer.topics)


def check_quorum_stable(wire: Wire, pause: Callable[[], None]) -> SettledController:
    """The quorum's leader, read twice with `pause` between. Raises ClusterNotReadyError, ReadError."""
    before = read_quorum(wire)
    pause()
    after = read_quorum(wire)
    if after.epoch - before.epoch > EPOCHS_OF_A_STORM:
        raise ClusterNotReadyError(
            f"The quorum's epoch grew from {before.epoch} to {after.epoch} between two reads: the controllers elect "
            "one leader after the other. Nothing was written. See the controllers' logs."
        )
    return SettledController(Controller(after.leader, after.epoch), (before.epoch, after.epoch))


def read_quorum(wire: Wire) -> Quorum:
    """Raises ConnectionSettingsError for a cluster with ZooKeeper, ClusterNotReadyError without a leader, ReadError."""
    found = _find_quorum(wire)
    if found is None:
        raise ClusterNotReadyError(
            "The quorum of controllers has no leader. Nothing was written. Try again when it has elected one."
        )
    return found


def _find_quorum(wire: Wire) -> Quorum | None:
    """None: it has no leader now."""
    data = DescribeQuorumRequest.TopicData
    one = data.PartitionData(partition_index=0)
    try:
        answer = wire.read(DescribeQuorumRequest(topics=[data(topic_name=_METADATA_TOPIC, partitions=[one])]))
    except IncompatibleBrokerVersion as old:
        raise ConnectionSettingsError(
            "This cluster has no quorum of controllers: it has ZooKeeper, or is below Kafka 3.3. Nothing was read or "
            "written. Use a connection of type kafka_zookeeper."
        ) from old
    check_read("The quorum of controllers", DESCRIBE_CLUSTER, answer.error_code)
    found = answer.topics[0].partitions[0]
    check_read("The quorum of controllers", DESCRIBE_CLUSTER, found.error_code)
    if found.leader_id < 0:
        return None
    told = {node.replica_id: node.log_end_offset for node in (*found.current_voters, *found.observers)}
    voters = frozenset(voter.replica_id for voter in found.current_voters)
    return Quorum(found.leader_id, found.leader_epoch, voters, found.high_watermark, told)


def _two_of(brokers: Collection[int], quorum: Quorum | None) -> list[int]:
    """The brokers to ask: two that have heard most of the controllers, or the only one."""
    told = {} if quorum is None else quorum.told
    return sorted(sorted(brokers, key=lambda broker: (-told.get(broker, -1), broker))[:2])


def _read_brokers(wire: Wire) -> tuple[str, dict[int, BrokerRegistration], int]:
    """(cluster id, live brokers, the one that takes requests to the controller)

    A fenced broker has no session, as one without a znode has none.
    """
    answer = wire.read(DescribeClusterRequest(include_fenced_brokers=True), fresh_broker(wire))
    check_read("The list of brokers", DESCRIBE_CLUSTER, answer.error_code, answer.error_message)
    live = [broker for broker in answer.brokers if not getattr(broker, "is_fenced", False)]
    registered = {
        broker.broker_id: BrokerRegistration(broker.broker_id, (Endpoint(broker.host, broker.port),), broker.rack)
        for broker in sorted(live, key=lambda one: one.broker_id)
    }
    return answer.cluster_id, registered, answer.controller_id


def read_moves(wire: Wire, broker: int | None = None) -> dict[TopicPartition, Any]:
    """What is in motion, from the controller's own list. `broker` takes requests to the controller; None: any does."""
    answer = wire.read(ListPartitionReassignmentsRequest(timeout_ms=int(REQUEST_SECONDS * 1000), topics=None), broker)
    check_read("The list of reassignments", DESCRIBE_CLUSTER, answer.error_code, answer.error_message)
    return {TopicPartition(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}


def _in_motion(partition: PartitionView, move: Any) -> PartitionView:
    if move is None:
        return partition
    return replace(
        partition,
        replicas=tuple(move.replicas),
        adding=tuple(move.adding_replicas),
        removing=tuple(move.removing_replicas),
    )


def _read_agreed(
    wire: Wire, brokers: Sequence[int], topics: Collection[str] | None
) -> Mapping[TopicPartition, PartitionView]:
    """The partitions as two brokers tell them, or as the only broker does. Raises ReadError if they never agree."""
    first, *others = brokers
    if not others:
        return _read_partitions(wire, first, topics)
    give_up = time.monotonic() + _AGREE_SECONDS
    while (told := _read_partitions(wire, first, topics)) != _read_partitions(wire, others[-1], topics):
        if time.monotonic() > give_up:
            raise ReadError(
                f"Brokers {first} and {others[-1]} tell different partitions, leaders or in-sync replicas for "
                f"{_AGREE_SECONDS:.0f} s. Nothing was written. Try again when the cluster is quiet; if it stays, one "
                "of them does not hear from the controllers, see its log."
            )
        time.sleep(_PAUSE_SECONDS)
    return told


def _read_partitions(wire: Wire, broker: int, topics: Collection[str] | None) -> dict[TopicPartition, PartitionView]:
    """The partitions as this broker knows them. Topics that the user may not describe are absent."""
    named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    answer = wire.read(MetadataRequest(topics=named, allow_auto_topic_creation=False), broker)
    found: dict[TopicPartition, PartitionView] = {}
    for topic in answer.topics:
        if topic.error_code == _UNKNOWN_TOPIC:
            continue
        check_read(f"Topic {topic.name}", _DESCRIBE_TOPICS, topic.error_code)
        for one in topic.partitions:
            if one.error_code not in (_NO_LEADER, _OFFLINE_REPLICA):
                check_read(f"Partition {topic.name}-{one.partition_index}", _DESCRIBE_TOPICS, one.error_code)
            found[TopicPartition(topic.name, one.partition_index)] = PartitionView(
                replicas=tuple(one.replica_nodes),
                adding=(),
                removing=(),
                topic_znode_version=None,
                topic_czxid=None,
                topic_id=_topic_id(topic.topic_id),
                state=PartitionState(one.leader_id, one.leader_epoch, tuple(one.isr_nodes)),
                marks_moves=True,
            )
    return found


def _topic_id(told: UUID | None) -> str | None:
    """As Kafka writes it (`org.apache.kafka.common.Uuid`). None below 2.8, whose topics have none."""
    if told is None or not told.int:
        return None
    return base64.urlsafe_b64encode(told.bytes).decode().rstrip("=")
