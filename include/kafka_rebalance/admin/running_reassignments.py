"""Reads the controller's own list of reassignments, and cancels single ones (KIP-455, 2.4+)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import (
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaError,
    NoReassignmentInProgressError,
)

from kafka_rebalance.admin.clients import open_kafka_python, unreachable
from kafka_rebalance.errors import ReadError, WriteDeniedError, WriteError
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition


def can_cancel(kafka: KafkaConnection) -> bool:
    """Whether this cluster takes requests to cancel a reassignment: 2.4+. Raises ReadError."""
    with _opened(kafka) as client:
        try:
            client.list_partition_reassignments([])
        except IncompatibleBrokerVersion:
            return False
    return True


def read_reassignments(kafka: KafkaConnection) -> Mapping[TopicPartition, tuple[int, ...]] | None:
    """Every partition that is being reassigned, whoever requested it, with its target list.

    This is one request to the controller, however large the cluster is. Below 2.4 the result is empty, because only the
    request znode reassigns there. None: this user may not ask (DESCRIBE on the cluster); then only the topics' znodes
    show what is in motion. Raises ReadError.
    """
    with _opened(kafka) as client:
        try:
            found = client.list_partition_reassignments()
        except IncompatibleBrokerVersion:
            return {}
        except ClusterAuthorizationFailedError:
            return None
    return {
        TopicPartition(*one): tuple(broker for broker in lists["replicas"] if broker not in lists["removing_replicas"])
        for one, lists in found.items()
    }


@contextmanager
def _opened(kafka: KafkaConnection) -> Iterator[KafkaAdminClient]:
    with open_kafka_python(kafka) as client:
        try:
            yield client
        except (KafkaError, OSError, RuntimeError) as failed:  # RuntimeError: no controller was found
            raise unreachable(kafka, failed) from failed


def cancel_reassignments(kafka: KafkaConnection, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """Cancels exactly these, and returns those that were being reassigned. The others had ended meanwhile.

    Raises WriteDeniedError without the permission, and WriteError naming every partition that Kafka refused to cancel,
    with Kafka's name of the error; the others are cancelled. Raises ReadError if there was no answer: the outcome is
    unknown, and the request may be repeated.
    """
    wanted = {KafkaTopicPartition(*topic_partition): None for topic_partition in sorted(partitions)}
    if not wanted:
        return frozenset()
    with open_kafka_python(kafka) as client:
        try:
            answers = client.alter_partition_reassignments(wanted)
        except IncompatibleBrokerVersion as old:
            raise WriteError("The controller is below Kafka 2.4 and cannot cancel a reassignment by request.") from old
        except ClusterAuthorizationFailedError as denied:
            raise WriteDeniedError(
                f"Kafka refused the cancelling of {len(wanted)} reassignments: the Kafka user needs Alter on the "
                "cluster. Nothing was cancelled. Grant it, then clear this task."
            ) from denied
        except (KafkaError, OSError, RuntimeError) as failed:  # RuntimeError: no controller was found
            raise ReadError(
                f"Kafka {kafka.bootstrap_servers} did not answer the request to cancel {len(wanted)} reassignments "
                f"({type(failed).__name__}), so whether Kafka cancelled them is unknown. Clear this task: it looks "
                "and asks again for what is still in flight."
            ) from failed
    names = {one: error and error.__name__ for one, error in answers.items()}
    errors = {TopicPartition(*one): names.get(one, "no answer") for one in wanted}
    cancelled = frozenset(tp for tp, error in errors.items() if error is None)
    for tp in sorted(cancelled):
        note(Kind.CANCEL, str(tp))
    refused = {tp: error for tp, error in errors.items() if error not in (None, NoReassignmentInProgressError.__name__)}
    if refused:
        shown = ", ".join(f"{tp} ({error})" for tp, error in sorted(refused.items())[:10])
        more = f" and {len(refused) - 10} more" if len(refused) > 10 else ""
        raise WriteError(
            f"Kafka did not cancel {len(refused)} of {len(wanted)} reassignments: {shown}{more}. The others are "
            "cancelled. Clear this task to ask again; the broker that is controller logs the reason."
        )
    return cancelled
