"""Bytes on disk, as the brokers report them: ZooKeeper holds no sizes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from kafka_rebalance.admin.clients import open_kafka_python
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

log = logging.getLogger(__name__)

_STORAGE_ERROR = 56  # KAFKA_STORAGE_ERROR: this log directory is offline


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory; totals are known from Kafka 3.3 on (KIP-827), and only while it is online.

    `replicas`: how many lie in it, those that are on their way from another directory of the broker included.
    """

    path: str
    total_bytes: int | None = None
    usable_bytes: int | None = None
    replicas: int = 0
    online: bool = True


@dataclass(frozen=True, slots=True)
class BrokerDisks:
    """`replicas` holds the bytes of each replica by broker; while one is copied it grows. By broker: `log_dirs`.

    `paths` holds the log directory of each replica by broker.
    """

    replicas: Mapping[TopicPartition, Mapping[int, int]]
    log_dirs: Mapping[int, tuple[LogDir, ...]]
    paths: Mapping[TopicPartition, Mapping[int, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metered:
    """Bytes of some replicas by broker, the brokers that did not tell, and of those that tell (Kafka 3.3 and later) the
    share of their disks that is in use, by whatever. `offline`: the log directories that have failed, by broker.
    """

    replicas: Mapping[TopicPartition, Mapping[int, int]]
    silent: frozenset[int]
    disk_fractions: Mapping[int, float]
    offline: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def read_log_dirs(kafka: KafkaConnection, brokers: Collection[int], *, of_the_rest: bool = False) -> BrokerDisks:
    """The sizes of all replicas on these brokers (DescribeLogDirs). Raises ReadError naming the broker.

    `of_the_rest`: a broker that does not tell is logged and absent, as long as another tells.

    Sizes equal the bytes of the `*.log` files. Left out: copies between two directories of one broker (future
    replicas), and what lies on an offline directory, which is returned without totals.
    """
    if not brokers:
        return BrokerDisks({}, {})
    replicas: dict[TopicPartition, dict[int, int]] = {}
    paths: dict[TopicPartition, dict[int, str]] = {}
    log_dirs: dict[int, tuple[LogDir, ...]] = {}
    with open_kafka_python(kafka) as client:
        asked = _every_partition(client)
        failed: ReadError | None = None
        for broker in brokers:
            try:
                answers = _describe(client, broker, asked)
                log_dirs[broker] = tuple(_log_dir(broker, answer) for answer in answers)
            except ReadError as silent:
                if not of_the_rest:
                    raise
                log.warning("%s", silent)
                failed = silent
                continue
            for answer in answers:
                for topic_partition, size in _sizes(answer):
                    replicas.setdefault(topic_partition, {})[broker] = size
                    paths.setdefault(topic_partition, {})[broker] = answer["log_dir"]
    if failed is not None and not log_dirs:
        raise failed
    return BrokerDisks(replicas, log_dirs, paths)


def read_replica_sizes(
    kafka: KafkaConnection, brokers: Collection[int], partitions: Collection[TopicPartition]
) -> Metered:
    """Bytes of these replicas on these brokers: one that is away hides none of the others.

    For metering what moves. Raises nothing: where no broker can be reached, all of them did not tell.
    """
    replicas: dict[TopicPartition, dict[int, int]] = {}
    fractions: dict[int, float] = {}
    offline: dict[int, tuple[str, ...]] = {}
    silent = set(brokers)
    asked: dict[str, list[int]] = {}
    for topic, partition in partitions:
        asked.setdefault(topic, []).append(partition)
    try:
        with open_kafka_python(kafka) as client:
            for broker in sorted(brokers):
                with suppress(ReadError):
                    answers = _describe(client, broker, asked)
                    for answer in answers:
                        for topic_partition, size in _sizes(answer):
                            replicas.setdefault(topic_partition, {})[broker] = size
                    if (fraction := _fraction_in_use(answers)) is not None:
                        fractions[broker] = fraction
                    failed = tuple(one["log_dir"] for one in answers if one["error_code"] == _STORAGE_ERROR)
                    if failed:
                        offline[broker] = failed
                    silent.discard(broker)
    except ReadError:
        pass
    return Metered(replicas, frozenset(silent), fractions, offline)


def _every_partition(client: KafkaAdminClient) -> dict[str, list[int]]:
    # Asked for no partitions, the client would do this again for each broker.
    try:
        topics = client.describe_topics()
    except (KafkaError, OSError) as failed:
        raise ReadError(
            f"The brokers do not list their topics ({type(failed).__name__}). "
            "Check that they are up and that the Kafka user may describe topics."
        ) from failed
    return {topic["name"]: [one["partition_index"] for one in topic["partitions"]] for topic in topics}


def _describe(client: KafkaAdminClient, broker: int, asked: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    # One request a broker, so that a failure has a name.
    try:
        answers = client.describe_log_dirs(asked, brokers=[broker])
    except (KafkaError, OSError) as failed:
        raise ReadError(
            f"Broker {broker} does not tell its log directories ({type(failed).__name__}). "
            "Check that it is up and that the Kafka user may describe the cluster."
        ) from failed
    log_dirs = [log_dir for answer in answers for log_dir in answer["log_dirs"]]
    if not log_dirs:
        # Kafka answers an unauthorised user with an empty list instead of an error (KafkaApis).
        raise ReadError(
            f"Broker {broker} reports no log directory. Grant the Kafka user Describe on the cluster resource."
        )
    return log_dirs


def _log_dir(broker: int, answer: Mapping[str, Any]) -> LogDir:
    if answer["error_code"] not in (0, _STORAGE_ERROR):
        raise ReadError(
            f"Broker {broker}, log directory {answer['log_dir']}: error {answer['error_code']} of the Kafka protocol. "
            "Look into that broker's log."
        )
    return LogDir(
        path=answer["log_dir"],
        total_bytes=_known(answer.get("total_bytes")),
        usable_bytes=_known(answer.get("usable_bytes")),
        replicas=sum(len(topic["partitions"]) for topic in answer.get("topics") or ()),
        online=answer["error_code"] == 0,
    )


def _fraction_in_use(answers: Sequence[Mapping[str, Any]]) -> float | None:
    """Of all the broker's log directories together; None where one of them does not tell."""
    dirs = [(_known(answer.get("total_bytes")), _known(answer.get("usable_bytes"))) for answer in answers]
    total = sum(size or 0 for size, _ in dirs)
    if not total or any(size is None or usable is None for size, usable in dirs):
        return None
    return 1 - sum(usable or 0 for _, usable in dirs) / total


def _known(size: int | None) -> int | None:
    return None if size is None or size < 0 else size


def _sizes(answer: Mapping[str, Any]) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic["name"], partition["partition_index"]), partition["partition_size"])
        for topic in answer.get("topics") or ()
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    ]
