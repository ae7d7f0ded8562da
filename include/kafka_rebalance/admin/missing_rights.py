"""What the Kafka user of a cluster without ZooKeeper may not do, as the brokers tell it; nothing is tried."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_rebalance.admin.cluster_view import read_topic_names
from kafka_rebalance.admin.lock_topic import who_coordinates_transactions
from kafka_rebalance.admin.topic_writes import new_topic
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, Wire
from kafka_rebalance.errors import ReadError, WriteDeniedError
from kafka_rebalance.kafka.topics import LOCK_TOPIC, TRANSACTION_TOPIC, TRANSACTIONAL_ID
from kafka_rebalance.model.finding import Finding, some

# AclOperation
_READ, _WRITE, _ALTER, _ALTER_CONFIGS = 3, 4, 7, 11
_NOT_THIS_ID = 53  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def read_missing_rights(wire: Wire, topics: Collection[str]) -> tuple[Finding, ...]:
    """A finding for each right that a rebalance of these topics needs and this user lacks. Raises ReadError.

    Whether the user may write under the lock's transactional id is known once a cluster has had transactions.
    """
    return (*_of_cluster(wire), *_of_topics(wire, topics), *_of_transactions(wire, topics))


def with_all_missing(wire: Wire, denied: WriteDeniedError) -> WriteDeniedError:
    """The same error, with every right that a rebalance needs and this user lacks, so that nobody grants one a day."""
    try:
        missing = read_missing_rights(wire, read_topic_names(wire))
    except ReadError:
        return denied
    if not missing:
        return denied
    named = "; ".join(f"{one.subject}: {one.problem}" for one in missing)
    return WriteDeniedError(f"{denied} In all, a rebalance lacks here: {named}.")


def _of_cluster(wire: Wire) -> Iterator[Finding]:
    answer = wire.read(DescribeClusterRequest(include_cluster_authorized_operations=True))
    for name, operation, purpose in (
        ("Alter", _ALTER, "request moves and elections"),
        ("AlterConfigs", _ALTER_CONFIGS, "set the rates of a throttle"),
    ):
        if operation not in answer.authorized_operations:
            yield _missing(name, "the cluster", purpose)


def _of_topics(wire: Wire, topics: Collection[str]) -> Iterator[Finding]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    found = {topic.name: topic.authorized_operations for topic in wire.read(request).topics}
    denied = [topic for topic in sorted(topics) if _ALTER_CONFIGS not in found.get(topic, ())]
    if denied:
        yield _missing("AlterConfigs", f"all topics (not on {some(denied)})", "set the replicas of a throttle")
    if LOCK_TOPIC in found:
        for name, operation in (("Read", _READ), ("Write", _WRITE)):
            if operation not in found[LOCK_TOPIC]:
                yield _missing(name, f"topic {LOCK_TOPIC}", "hold the cluster's lock")
    elif _may_not_create(wire):
        yield _missing("Create", f"topic {LOCK_TOPIC}", "make the topic of the cluster's lock")


def _may_not_create(wire: Wire) -> bool:
    answer = wire.read(new_topic(LOCK_TOPIC, {}, {}, numbers=(1, 1), validate_only=True))
    return answer.topics[0].error_code in NOT_AUTHORIZED


def _of_transactions(wire: Wire, topics: Collection[str]) -> Iterator[Finding]:
    if TRANSACTION_TOPIC not in topics:
        return  # the question would make a broker create that topic
    answer = wire.read(who_coordinates_transactions())
    codes: list[Any] = [answer.error_code, *(coordinator.error_code for coordinator in answer.coordinators or ())]
    if _NOT_THIS_ID in codes:
        yield _missing("Write", f"transactional id {TRANSACTIONAL_ID}", "write the cluster's lock")


def _missing(name: str, on: str, purpose: str) -> Finding:
    return Finding(on, f"the Kafka user lacks {name}, to {purpose}", f"Grant {name} on {on.partition(' (')[0]}")
