"""The brokers' log dirs: what is in them, and requests to copy replicas into another one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka.errors import for_code
from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest

from kafka_rebalance.admin.clients import ANOTHER_SECONDS, REQUEST_SECONDS
from kafka_rebalance.admin.wire import DESCRIBE_CLUSTER, NOT_AUTHORIZED, Wire, check_read, kept_or_open_wire
from kafka_rebalance.errors import ReadDeniedError, ReadError, WriteDeniedError, WriteError
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition

log = logging.getLogger(__name__)
T = TypeVar("T")


# Bytes on disk, as the brokers report them. ZooKeeper has no sizes.


_STORAGE_ERROR = 56  # KAFKA_STORAGE_ERROR: this log directory is offline


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory. Its totals are known from Kafka 3.3 on (KIP-827), and only while it is online.

    `replicas`: how many it has, with those that are coming from another directory of the broker.
    """

    path: str
    total_bytes: int | None = None
    usable_bytes: int | None = None
    replicas: int = 0
    online: bool = True
    cordoned: bool = False  # it takes no new replica (KIP-1066, 4.4 and later)


@dataclass(frozen=True, slots=True)
class FutureReplica:
    """A copy of a replica in another log directory of its broker, which takes its place once it has caught up."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerDisks:
    """The disks of some brokers, by broker id."""

    replicas: Mapping[TopicPartition, Mapping[int, int]]  # bytes, which grow while a replica is copied
    log_dirs: Mapping[int, tuple[LogDir, ...]]
    paths: Mapping[TopicPartition, Mapping[int, str]] = field(default_factory=dict)  # each replica's log directory
    future: Mapping[TopicPartition, Mapping[int, FutureReplica]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metered:
    """Bytes of some replicas, by broker id."""

    replicas: Mapping[TopicPartition, Mapping[int, int]]
    silent: frozenset[int]  # brokers that did not answer
    disk_fractions: Mapping[int, float]  # the share of a broker's disks that is in use (Kafka 3.3 and later)
    offline: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # log directories that have failed


def read_log_dirs(kafka: KafkaConnection, brokers: Collection[int], *, of_the_rest: bool = False) -> BrokerDisks:
    """The sizes of all replicas on these brokers (DescribeLogDirs). Raises ReadError naming the broker.

    `of_the_rest`: a broker that does not answer is logged and absent, as long as another one answers.

    Sizes equal the bytes of the `*.log` files. Copies between two directories of one broker are `future`, and no part
    of them. Replicas on an offline directory, which has no totals, are absent.
    """
    if not brokers:
        return BrokerDisks({}, {})
    read: _Replicas = {}, {}, {}
    log_dirs: dict[int, tuple[LogDir, ...]] = {}
    with kept_or_open_wire(kafka) as wire:
        failed: ReadError | None = None
        for broker in brokers:
            try:
                answers = _describe(wire, broker, None)
                log_dirs[broker] = tuple(_log_dir(broker, answer) for answer in answers)
            except ReadError as silent:
                if not of_the_rest:
                    raise
                log.warning("%s", silent)
                failed = silent
                continue
            _note_replicas(broker, answers, read)
    if failed is not None and not log_dirs:
        raise failed
    return BrokerDisks(read[0], log_dirs, *read[1:])


def _without(
    known: Mapping[TopicPartition, Mapping[int, T]], again: Collection[TopicPartition]
) -> dict[TopicPartition, Mapping[int, T]]:
    return {tp: by_broker for tp, by_broker in known.items() if tp not in again}


# As in `BrokerDisks`: bytes, paths and future replicas.
_Replicas = tuple[
    dict[TopicPartition, dict[int, int]],
    dict[TopicPartition, dict[int, str]],
    dict[TopicPartition, dict[int, FutureReplica]],
]


def _note_replicas(broker: int, answers: Sequence[Any], read: _Replicas) -> None:
    replicas, paths, future = read
    for topic_partition, size_bytes, path in _replicas(answers):
        replicas.setdefault(topic_partition, {})[broker] = size_bytes
        paths.setdefault(topic_partition, {})[broker] = path
    for topic_partition, size_bytes, path in _replicas(answers, future=True):
        future.setdefault(topic_partition, {})[broker] = FutureReplica(path, size_bytes)


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def read_log_dirs_again(
    kafka: KafkaConnection, known: BrokerDisks, partitions: Collection[TopicPartition]
) -> BrokerDisks:
    """The disks of the same brokers now. Of the replicas, those of these partitions are read; others are as known.

    All are read again if a log dir has come, failed or is online again. Raises ReadError naming the broker.
    """
    brokers, again = sorted(known.log_dirs), frozenset(partitions)
    asked = _by_topic(again)
    log_dirs: dict[int, tuple[LogDir, ...]] = {}
    read: _Replicas = {}, {}, {}
    with kept_or_open_wire(kafka) as wire:
        for broker in brokers:
            answers = _describe(wire, broker, asked)
            log_dirs[broker] = tuple(_log_dir(broker, answer) for answer in answers)
            _note_replicas(broker, answers, read)
    there = {broker: {(one.path, one.online) for one in dirs} for broker, dirs in log_dirs.items()}
    if there != {broker: {(one.path, one.online) for one in dirs} for broker, dirs in known.log_dirs.items()}:
        return read_log_dirs(kafka, brokers)
    replicas, paths, future = (
        _without(known.replicas, again) | read[0],
        _without(known.paths, again) | read[1],
        _without(known.future, again) | read[2],
    )
    counts = Counter((broker, path) for lying in paths.values() for broker, path in lying.items())
    counts.update((broker, one.path) for coming in future.values() for broker, one in coming.items())
    counted = {
        broker: tuple(replace(one, replicas=counts[broker, one.path]) for one in dirs)
        for broker, dirs in log_dirs.items()
    }
    return BrokerDisks(replicas, counted, paths, future)


def read_dir_states(kafka: KafkaConnection, brokers: Collection[int]) -> dict[int, tuple[LogDir, ...]]:
    """The log dirs of these brokers, without what lies in them. A broker that does not answer is absent."""
    dir_states = {}
    with suppress(ReadError), kept_or_open_wire(kafka) as wire:
        for broker in sorted(brokers):
            with suppress(ReadError):
                dir_states[broker] = tuple(_log_dir(broker, answer) for answer in _describe(wire, broker, {}))
    return dir_states


def read_copies_within(kafka: KafkaConnection, brokers: Collection[int]) -> dict[int, frozenset[TopicPartition]]:
    """See `OpenCluster.read_copies_within`. Raises ReadError naming the broker."""
    found: dict[int, set[TopicPartition]] = {}
    for topic_partition, by_broker in read_log_dirs(kafka, brokers).future.items():
        for broker in by_broker:
            found.setdefault(broker, set()).add(topic_partition)
    return {broker: frozenset(copied) for broker, copied in found.items()}


def read_replica_sizes(
    kafka: KafkaConnection, brokers: Collection[int], partitions: Collection[TopicPartition]
) -> Metered:
    """Bytes of these replicas on these brokers, to measure what moves.

    Raises nothing: brokers that do not answer are `silent`, and the others count.
    """
    replicas: dict[TopicPartition, dict[int, int]] = {}
    fractions: dict[int, float] = {}
    offline: dict[int, tuple[str, ...]] = {}
    silent = set(brokers)
    asked = _by_topic(partitions)
    with suppress(ReadError), kept_or_open_wire(kafka) as wire:
        for broker in sorted(brokers):
            with suppress(ReadError):
                answers = _describe(wire, broker, asked)
                for topic_partition, size_bytes, _ in _replicas(answers):
                    replicas.setdefault(topic_partition, {})[broker] = size_bytes
                if (fraction := _fraction_in_use(answers)) is not None:
                    fractions[broker] = fraction
                if failed := tuple(answer.log_dir for answer in answers if answer.error_code == _STORAGE_ERROR):
                    offline[broker] = failed
                silent.discard(broker)
    return Metered(replicas, frozenset(silent), fractions, offline)


def _describe(wire: Wire, broker: int, asked: Mapping[str, Sequence[int]] | None) -> Sequence[Any]:
    """The broker's log directories, with these replicas; None: with all."""
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = None if asked is None else [topic(topic=name, partitions=list(each)) for name, each in asked.items()]
    # A broker that is away stays silent for this look: whoever asks has others to ask. All its replicas take longer.
    seconds = REQUEST_SECONDS if asked is None else ANOTHER_SECONDS
    answer = wire.read(DescribeLogDirsRequest(topics=topics), broker, repeat_seconds=0, answer_seconds=seconds)
    check_read(f"Broker {broker}: its log directories", DESCRIBE_CLUSTER, getattr(answer, "error_code", 0))
    if not answer.results:
        # Below 3.4 Kafka gives an unauthorised user an empty list instead of an error (KafkaApis).
        raise ReadDeniedError(f"Broker {broker} reports no log directory. Grant the Kafka user {DESCRIBE_CLUSTER}.")
    return list(answer.results)


def _log_dir(broker: int, answer: Any) -> LogDir:
    if answer.error_code not in (0, _STORAGE_ERROR):
        raise ReadError(
            f"Broker {broker}, log directory {answer.log_dir}: error {answer.error_code} of the Kafka protocol. "
            "Read that broker's log."
        )
    return LogDir(
        path=answer.log_dir,
        total_bytes=_known(answer.total_bytes),
        usable_bytes=_known(answer.usable_bytes),
        replicas=sum(len(topic.partitions) for topic in answer.topics),
        online=answer.error_code == 0,
        cordoned=bool(getattr(answer, "is_cordoned", False)),
    )


def _fraction_in_use(answers: Sequence[Any]) -> float | None:
    """The share in use of all the broker's log directories together; None if the size of one is unknown."""
    dirs = [(_known(answer.total_bytes), _known(answer.usable_bytes)) for answer in answers]
    total = sum(size or 0 for size, _ in dirs)
    if not total or any(size is None or usable is None for size, usable in dirs):
        return None
    return 1 - sum(usable or 0 for _, usable in dirs) / total


def _known(size: int | None) -> int | None:
    return None if size is None or size < 0 else size


def _replicas(answers: Sequence[Any], *, future: bool = False) -> Iterator[tuple[TopicPartition, int, str]]:
    """(partition, bytes, log directory)"""
    for answer in answers:
        for topic in answer.topics:
            for partition in topic.partitions:
                if bool(partition.is_future_key) == future:
                    yield (
                        TopicPartition(topic.name, partition.partition_index),
                        partition.partition_size,
                        answer.log_dir,
                    )


# Requests to copy replicas into another log dir of their broker (AlterReplicaLogDirs, KIP-113).
#
# Every such request is encoded and checked here. The broker itself copies: it makes a future replica in the other log
# dir, and lets it take the replica's place once it has caught up. The same request again changes nothing. The log dir
# in which a replica lies already cancels its copy.


_GONE = (3, 9)  # UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE: the replica has left this broker
_UNANSWERED = "the broker's answer does not name it"

Targets = Mapping[TopicPartition, str]  # an absolute path on the broker


def alter_log_dirs(
    wire: Wire,
    broker: int,
    targets: Targets,
    *,
    held: Collection[TopicPartition],
    log_dirs: Collection[str],
    not_later_than: float | None = None,
) -> dict[TopicPartition, str]:
    """One request to one broker. Returns {partition: why the broker refused it}; it carries out the others.

    `held` and `log_dirs` are what the broker has just told: its replicas, and its log dirs that are online. A replica
    that has left the broker since is not among the refused: the next look shows that. After `not_later_than`, a time of
    `time.monotonic`, nothing is sent.

    Raises WriteError if the request must not be sent, WriteDeniedError, LockLostError if it is too late, and ReadError
    if there is no answer.
    """
    _check(broker, targets, held, log_dirs)
    if not targets:
        return {}
    what = f"the copies of {len(targets)} replicas between log dirs of broker {broker}"
    subject = str(broker)
    answer = wire.write(_request(targets), what, Kind.LOG_DIRS, subject, broker=broker, not_later_than=not_later_than)
    codes = dict(_each(answer))
    if denied := [tp for tp in targets if codes.get(tp) in NOT_AUTHORIZED]:
        raise WriteDeniedError(
            f"Broker {broker} refused {what} ({some(denied)}): the Kafka user needs Alter on the cluster. Grant it."
        )
    refused = {
        tp: _UNANSWERED if tp not in codes else for_code(codes[tp]).__name__
        for tp in targets
        if codes.get(tp, -1) not in (0, *_GONE)
    }
    if len(refused) < len(targets):
        note(Kind.LOG_DIRS, subject)
    return refused


def _check(broker: int, targets: Targets, held: Collection[TopicPartition], log_dirs: Collection[str]) -> None:
    # The broker would remember the log dir for a replica that it does not have, and use it if that ever comes.
    missing = sorted(tp for tp in targets if tp not in held)
    unknown = sorted({path for path in targets.values() if path not in log_dirs})
    for names, why in ((missing, f"broker {broker} does not have"), (unknown, f"broker {broker} has no log dir")):
        if names:
            raise WriteError(f"{why} {some(names)}. No copy was requested there. Start a new Dag run.")


def _request(targets: Targets) -> AlterReplicaLogDirsRequest:
    of_dir = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    by_dir: dict[str, dict[str, list[int]]] = {}
    for tp, path in sorted(targets.items()):
        by_dir.setdefault(path, {}).setdefault(tp.topic, []).append(tp.partition)
    dirs = [
        of_dir(
            path=path,
            topics=[
                of_dir.AlterReplicaLogDirTopic(name=topic, partitions=numbers) for topic, numbers in by_topic.items()
            ],
        )
        for path, by_topic in by_dir.items()
    ]
    return AlterReplicaLogDirsRequest(dirs=dirs)


def _each(answer: Any) -> Iterator[tuple[TopicPartition, int]]:
    for topic in answer.results:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic_name, partition.partition_index), partition.error_code
