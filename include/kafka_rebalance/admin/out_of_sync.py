"""The partitions of a whole cluster that lack replicas in their ISR, and how fast brokers answer, from the brokers."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.admin import DescribeTopicPartitionsRequest

from kafka_rebalance.admin.wire import UNKNOWN_TOPIC, Wire, kept_or_open_wire, metadata_of
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

_PAGE = 2000  # partitions; brokers give no more
_TOPICS_ASKED = 200  # for their eligible leaders, at most: one partition with some is enough for a sign
_TIMED, _ANSWER_SECONDS = 3, 5.0


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """`leader` is -1 if there is none; then no replica counts as in sync. `eligible`: leaders beside the ISR."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: int = 0


def read_out_of_sync(kafka: KafkaConnection) -> dict[TopicPartition, OutOfSync]:
    """The partitions of all topics whose ISR lacks a replica, as one broker knows them. Raises ReadError."""
    with kept_or_open_wire(kafka) as wire:
        answer = wire.read(metadata_of(None))
        found: dict[TopicPartition, OutOfSync] = {}
        for topic in answer.topics:
            if topic.error_code == UNKNOWN_TOPIC:
                continue
            for one in topic.partitions:
                isr = tuple(one.isr_nodes) if one.leader_id >= 0 else ()
                if set(one.replica_nodes) - set(isr):
                    partition = OutOfSync(one.leader_id, tuple(one.replica_nodes), isr)
                    found[TopicPartition(topic.name, one.partition_index)] = partition
        return found


def read_eligible(kafka: KafkaConnection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """How many replicas of these Kafka keeps as eligible leaders beside the ISR (KIP-966, Kafka 4). None of them has
    any where brokers do not know it. Raises ReadError.
    """
    wanted, request_of = set(partitions), DescribeTopicPartitionsRequest
    names = sorted({tp.topic for tp in wanted})[:_TOPICS_ASKED]
    found: dict[TopicPartition, int] = {}
    cursor = None
    with kept_or_open_wire(kafka) as wire:
        while names:
            topics = [request_of.TopicRequest(name=name) for name in names]
            request = request_of(topics=topics, response_partition_limit=_PAGE, cursor=cursor)
            try:
                answer = wire.read(request)
            except IncompatibleBrokerVersion:  # below 3.7
                return {}
            for topic in answer.topics:
                for one in topic.partitions:
                    tp = TopicPartition(topic.name, one.partition_index)
                    eligible = set(one.eligible_leader_replicas or ()) - set(one.isr_nodes)
                    if tp in wanted and eligible:
                        found[tp] = len(eligible)
            if answer.next_cursor is None:
                break
            at = answer.next_cursor
            cursor = request_of.Cursor(topic_name=at.topic_name, partition_index=at.partition_index)
            names = [name for name in names if name >= at.topic_name]
    return found


def read_answer_seconds(kafka: KafkaConnection, brokers: Collection[int]) -> Mapping[int, float | None]:
    """How long each of these brokers takes for a small answer; None: it gives none. Raises ReadError if none does."""
    found: dict[int, float | None] = {}
    silent: ReadError | None = None
    with kept_or_open_wire(kafka) as wire:
        for broker in sorted(brokers):
            try:
                found[broker] = _seconds(wire, broker)
            except ReadError as no_answer:
                silent = no_answer
                found[broker] = None
    if silent is not None and not any(found.values()):
        raise silent
    return found


def _seconds(wire: Wire, broker: int) -> float:
    times = []
    for _ in range(_TIMED + 1):
        began = time.monotonic()
        wire.read(metadata_of([]), broker, repeat_seconds=0, answer_seconds=_ANSWER_SECONDS)
        times.append(time.monotonic() - began)
    return median(times[1:])  # the first one may have opened a connection
