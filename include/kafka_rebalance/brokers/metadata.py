"""What brokers know of a cluster beyond ZooKeeper: its id as they see it, and how far each partition has grown."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import OffsetSpec

from kafka_rebalance.brokers.connecting import REQUEST_SECONDS, open_admin, reason_of
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition


def read_cluster_id(kafka: KafkaConnection) -> str:
    """The id that the brokers report: two connect strings that belong together give the same. Raises ReadError."""
    admin = open_admin(kafka)  # kept until the answer is there: a client that is collected drops its requests
    try:
        description = admin.describe_cluster(request_timeout=REQUEST_SECONDS).result(REQUEST_SECONDS + 5)
    except (KafkaException, TimeoutError) as failed:
        raise ReadError(
            f"Kafka {kafka.bootstrap_servers} does not tell its cluster id ({reason_of(failed)}). Check that the "
            "brokers can be reached from here, and the user, password and TLS settings of the Airflow connection."
        ) from failed
    return str(description.cluster_id)


def read_end_offsets(kafka: KafkaConnection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The offset after the last record of each partition, all asked for at once. Raises ReadError naming partitions."""
    if not partitions:
        return {}
    wanted = {ClientTopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in partitions}
    admin = open_admin(kafka)  # kept, as above
    answers = admin.list_offsets(wanted, request_timeout=REQUEST_SECONDS)
    offsets: dict[TopicPartition, int] = {}
    failures: list[str] = []
    for asked, answer in answers.items():
        topic_partition = TopicPartition(asked.topic, asked.partition)
        try:
            offsets[topic_partition] = int(answer.result(REQUEST_SECONDS + 5).offset)
        except (KafkaException, TimeoutError) as failed:
            failures.append(f"{topic_partition} ({reason_of(failed)})")
    if failures:
        raise ReadError(
            f"The end offsets of {len(failures)} partitions cannot be read, first {', '.join(failures[:3])}. "
            "Check that they have a leader and that the Kafka user may describe the topics."
        )
    return offsets
