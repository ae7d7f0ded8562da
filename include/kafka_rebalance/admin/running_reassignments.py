"""Reassignments as the controller itself has them, and cancelling them one by one (KIP-455, 2.4+)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import (
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaError,
    NoReassignmentInProgressError,
)

from kafka_rebalance.admin.clients import open_kafka_python, unreachable
from kafka_rebalance.errors import ReadError, WriteError
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition


def can_cancel(kafka: KafkaConnection) -> bool:
    """Whether this cluster takes requests to cancel a reassignment: 2.4+. Raises ReadError where it cannot be told."""
    with open_kafka_python(kafka) as client:
        try:
            client.list_partition_reassignments([])
        except IncompatibleBrokerVersion:
            return False
        except (KafkaError, OSError, RuntimeError) as failed:  # RuntimeError: no controller was found
            raise unreachable(kafka, failed) from failed
    return True


def read_reassignments(kafka: KafkaConnection) -> Mapping[TopicPartition, tuple[int, ...]] | None:
    """Every partition that is being reassigned, whoever asked for it, with the list it goes to: one request to the
    controller, however large the cluster. Nothing below 2.4, where only the request znode reassigns.

    None where this user may not ask (DESCRIBE on the cluster): what is in motion is then in the topics' znodes. Raises
    ReadError where it cannot be told.
    """
    with open_kafka_python(kafka) as client:
        try:
            found = client.list_partition_reassignments()
        except IncompatibleBrokerVersion:
            return {}
        except ClusterAuthorizationFailedError:
            return None
        except (KafkaError, OSError, RuntimeError) as failed:  # RuntimeError: no controller was found
            raise unreachable(kafka, failed) from failed
    return {
        TopicPartition(*one): tuple(broker for broker in lists["replicas"] if broker not in lists["removing_replicas"])
        for one, lists in found.items()
    }


def cancel_reassignments(kafka: KafkaConnection, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """Cancels exactly these, and returns those that were being reassigned: the others had ended meanwhile.

    Raises WriteError naming every partition whose cancelling was refused, with Kafka's own name of the error; the
    others are cancelled then. Raises ReadError where there was no answer: what became of the request is then unknown,
    and it may be repeated.
    """
    wanted = {KafkaTopicPartition(*topic_partition): None for topic_partition in sorted(partitions)}
    if not wanted:
        return frozenset()
    with open_kafka_python(kafka) as client:
        try:
            answers = client.alter_partition_reassignments(wanted)
        except IncompatibleBrokerVersion as old:
            raise WriteError(
                "The controller is below Kafka 2.4 and cannot cancel a reassignment by request. Nothing was written."
            ) from old
        except (KafkaError, OSError, RuntimeError) as failed:  # RuntimeError: no controller was found
            raise ReadError(
                f"Kafka {kafka.bootstrap_servers} did not answer the request to cancel {len(wanted)} reassignments "
                f"({type(failed).__name__}), so whether it was carried out is unknown. Clear this task: it looks, and "
                "asks again for what is still in flight."
            ) from failed
    for one in sorted(answers):
        if answers[one] is None:
            note(Kind.CANCEL, str(TopicPartition(*one)))
    refused = {}
    for one in wanted:
        if one not in answers:
            refused[TopicPartition(*one)] = "no answer"
        elif answers[one] not in (None, NoReassignmentInProgressError):
            refused[TopicPartition(*one)] = answers[one].__name__
    if refused:
        shown = ", ".join(f"{tp} ({error})" for tp, error in sorted(refused.items())[:10])
        more = f" and {len(refused) - 10} more" if len(refused) > 10 else ""
        raise WriteError(
            f"Kafka did not cancel {len(refused)} of {len(wanted)} reassignments: {shown}{more}. The others are "
            "cancelled. Clear this task to ask again; the broker that is controller logs the reason."
        )
    return frozenset(TopicPartition(*one) for one in wanted if answers[one] is None)
