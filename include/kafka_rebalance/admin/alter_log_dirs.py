"""Requests to copy replicas into another log dir of their broker (AlterReplicaLogDirs, KIP-113).

Every such request is encoded and checked here. The broker itself copies: it makes a future replica in the other log
dir, and lets it take the replica's place once it has caught up. The same request again changes nothing. The log dir in
which a replica lies already cancels its copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import AlterReplicaLogDirsRequest

from kafka_rebalance.admin.wire import NOT_AUTHORIZED, Wire
from kafka_rebalance.errors import WriteDeniedError, WriteError
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition

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
        for one in topic.partitions:
            yield TopicPartition(topic.topic_name, one.partition_index), one.error_code
