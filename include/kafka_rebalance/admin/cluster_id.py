"""The cluster's id, as its brokers tell it."""

from __future__ import annotations

from confluent_kafka import KafkaException

from kafka_rebalance.admin.clients import REQUEST_SECONDS, open_admin, reason_of
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection


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
