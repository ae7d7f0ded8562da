"""The first and last offsets of partitions, and where the local log of a tiered one begins, from the brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka.errors import IncompatibleBrokerVersion, for_code
from kafka.protocol.consumer import ListOffsetsRequest

from kafka_rebalance.admin.clients import ANOTHER_SECONDS, REQUEST_SECONDS, open_admin, reason_of, unread
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.documents.key_sample import OffsetRange, newest_rows
from kafka_rebalance.errors import ReadDeniedError, ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

log = logging.getLogger(__name__)

_SETTLE_SECONDS, _PAUSE_SECONDS = 10.0, 0.2
_SETTLING = (
    KafkaError._NOENT,  # librdkafka found no leader
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)

# ListOffsets tells it from version 8 on, of Kafka 3.6 (KIP-405). To an older broker, -4 is a time like any other.
_EARLIEST_LOCAL, _TELLS_LOCAL = -4, 8


@dataclass(frozen=True, slots=True)
class LocalStarts:
    """`offsets`: of the first record on the leader's own disk. `untold`: why it is unknown, by partition."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    untold: Mapping[TopicPartition, str] = field(default_factory=dict)


def read_end_offsets(
    kafka: KafkaConnection, partitions: Collection[TopicPartition], *, of_the_rest: bool = False
) -> dict[TopicPartition, int]:
    """The offset after the last record of each partition. Raises ReadError naming partitions.

    `of_the_rest`: partitions whose leader does not answer are logged and absent.
    """
    return _read_offsets(kafka, partitions, OffsetSpec.latest(), "end offsets", of_the_rest=of_the_rest)


def read_start_offsets(
    kafka: KafkaConnection, partitions: Collection[TopicPartition], *, of_the_rest: bool = False
) -> dict[TopicPartition, int]:
    """The offset of the first record that each partition still has. Errors and `of_the_rest` as above."""
    return _read_offsets(kafka, partitions, OffsetSpec.earliest(), "first offsets", of_the_rest=of_the_rest)


def read_local_starts(kafka: KafkaConnection, leaders: Mapping[TopicPartition, int]) -> LocalStarts:
    """Where the log of each of these partitions begins on the disk of its leader. Older records are in remote storage.

    Raises ReadError if no broker answers; a partition that is not told alone is named in `untold`.
    """
    if not leaders:
        return LocalStarts()
    offsets: dict[TopicPartition, int] = {}
    untold: dict[TopicPartition, str] = {}
    with open_wire(kafka) as wire:
        for broker in sorted(set(leaders.values())):
            asked = sorted(tp for tp, leader in leaders.items() if leader == broker)
            untold |= dict.fromkeys(asked, f"the answer of broker {broker} does not name it")
            try:
                answer = wire.read(_local_starts(asked), broker, repeat_seconds=ANOTHER_SECONDS)
            except IncompatibleBrokerVersion:
                untold |= dict.fromkeys(asked, f"broker {broker} is of a release before 3.6, which cannot tell it")
                continue
            except ReadError as silent:
                untold |= dict.fromkeys(asked, str(silent))
                continue
            for topic in answer.topics:
                for partition in topic.partitions:
                    topic_partition = TopicPartition(topic.name, partition.partition_index)
                    if partition.error_code:
                        untold[topic_partition] = f"broker {broker} answers {for_code(partition.error_code).__name__}"
                    elif partition.offset >= 0:
                        offsets[topic_partition] = partition.offset
                        del untold[topic_partition]
    for topic_partition, why in untold.items():
        log.warning("What the disks hold of the tiered partition %s is unknown: %s", topic_partition, why)
    return LocalStarts(offsets, untold)


def _local_starts(asked: Collection[TopicPartition]) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition
    by_topic: dict[str, list[int]] = {}
    for name, number in asked:
        by_topic.setdefault(name, []).append(number)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=number, current_leader_epoch=-1, timestamp=_EARLIEST_LOCAL)
                    for number in numbers
                ],
            )
            for name, numbers in by_topic.items()
        ],
        min_version=_TELLS_LOCAL,
        max_version=_TELLS_LOCAL,
    )


def read_offset_ranges(
    kafka: KafkaConnection, topic: str, partitions: Collection[int], *, max_rows: int, not_before_ms: int
) -> tuple[OffsetRange, ...]:
    """The newest records of each partition, at most `max_rows` in all. Raises ReadError naming partitions.

    They start at the first record that is not older than that time (ms). Older records may follow it, if producers set
    timestamps that do not rise.
    """
    wanted = [TopicPartition(topic, partition) for partition in sorted(partitions)]
    ends = read_end_offsets(kafka, wanted)
    firsts = read_start_offsets(kafka, wanted)
    since = _read_offsets(kafka, wanted, OffsetSpec.for_timestamp(not_before_ms), "offsets by time")
    ranges = []
    for topic_partition in wanted:
        end = ends[topic_partition]
        # -1: all records are older. Retention may have passed the offset since.
        start = max(since[topic_partition], firsts[topic_partition]) if since[topic_partition] >= 0 else end
        ranges.append(OffsetRange(topic_partition.partition, min(start, end), end))
    return newest_rows(ranges, max_rows)


def _read_offsets(
    kafka: KafkaConnection,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    what: str,
    *,
    of_the_rest: bool = False,
) -> dict[TopicPartition, int]:
    """One offset for each partition, in one request. `what` names the offsets in errors. Raises ReadError.

    Brokers tell clients the leaders of a new topic a moment after ZooKeeper has them. So the request is repeated for
    partitions without a leader.
    """
    offsets: dict[TopicPartition, int] = {}
    give_up = time.monotonic() + _SETTLE_SECONDS
    while waiting := [partition for partition in partitions if partition not in offsets]:
        found, failures = _asked_once(kafka, waiting, spec)
        offsets |= found
        _check_not_denied(kafka, what, failures)
        if failures and (not all(map(_settles, failures.values())) or time.monotonic() > give_up):
            named = [f"{partition} ({reason_of(failed)})" for partition, failed in failures.items()]
            silent = unread(
                next(iter(failures.values())),
                f"The {what} of {len(failures)} partitions cannot be read, among them {', '.join(named[:3])}. "
                "Check that they have a leader and that the Kafka user has Describe on all topics.",
            )
            if not of_the_rest:
                raise silent
            log.warning("%s", silent)
            break
        if failures:
            time.sleep(_PAUSE_SECONDS)
    return offsets


def _check_not_denied(
    kafka: KafkaConnection, what: str, failures: Mapping[TopicPartition, KafkaException | TimeoutError]
) -> None:
    """Raises ReadDeniedError. For librdkafka, a topic that the user may not describe is one without leaders."""
    hidden = sorted(
        tp.topic
        for tp, failed in failures.items()
        if isinstance(failed, KafkaException) and failed.args[0].code() == KafkaError._NOENT
    )
    if not hidden:
        return
    admin = open_admin(kafka)
    try:
        admin.describe_topics(TopicCollection(hidden[:1]), request_timeout=REQUEST_SECONDS)[hidden[0]].result()
    except KafkaException as failed:
        if failed.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ReadDeniedError(
                f"The {what} of topic {hidden[0]} cannot be read: the Kafka user may not describe it. "
                "Grant it Describe on all topics."
            ) from failed


def _asked_once(
    kafka: KafkaConnection, partitions: Collection[TopicPartition], spec: OffsetSpec
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaException | TimeoutError]]:
    """(offsets, failures) of one request."""
    admin = open_admin(kafka)  # kept until the answers are there: a client that Python collects drops its requests
    wanted = {ClientTopicPartition(topic, partition): spec for topic, partition in partitions}
    offsets: dict[TopicPartition, int] = {}
    failures: dict[TopicPartition, KafkaException | TimeoutError] = {}
    for asked, answer in admin.list_offsets(wanted, request_timeout=REQUEST_SECONDS).items():
        topic_partition = TopicPartition(asked.topic, asked.partition)
        try:
            offsets[topic_partition] = int(answer.result(REQUEST_SECONDS + 5).offset)
        except (KafkaException, TimeoutError) as failed:
            failures[topic_partition] = failed
    return offsets, failures


def _settles(failed: KafkaException | TimeoutError) -> bool:
    return isinstance(failed, KafkaException) and failed.args[0].code() in _SETTLING
