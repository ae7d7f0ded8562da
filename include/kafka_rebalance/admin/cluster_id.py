"""The cluster's id, as its brokers report it."""

from __future__ import annotations

from confluent_kafka import KafkaException

from kafka_rebalance.admin.access.clients import REQUEST_SECONDS, open_admin, reason_of, unread
from kafka_rebalance.model.connection import KafkaConnection


def read_cluster_id(kafka: KafkaConnection) -> str:
    """The id that the brokers report. ZooKeeper of the same cluster has the same id. Raises ReadError."""
    admin = open_admin(kafka)  # kept until the answer is there: a client that Python collects drops its requests
    try:
        description = admin.describe_cluster(request_timeout=REQUEST_SECONDS).result(REQUEST_SECONDS + 5)
    except (KafkaException, TimeoutError) as failed:
        raise unread(
            failed,
            f"Kafka {kafka.bootstrap_servers} does not tell its cluster id ({reason_of(failed)}). Check that this host "
            "can reach the brokers, and check the user, password and TLS settings of the Airflow connection.",
        ) from failed
    return str(description.cluster_id)
