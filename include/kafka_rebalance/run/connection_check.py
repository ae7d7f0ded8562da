"""What a connection reaches, and which rights it lacks there: for a person who sets it up."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance import clock
from kafka_rebalance.admin import configs, log_dirs, offsets
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.metrics_server import read_hourly_rates
from kafka_rebalance.model.connection import ClusterConnection


def check_connection(connection: ClusterConnection) -> str:
    """In words. It reads what a plan needs and writes nothing.

    Raises ReadError, which names a right that is missing to read, and ConnectionSettingsError for another cluster.
    """
    with open_cluster(connection) as cluster:
        view = cluster.read_view()
        if connection.expected_cluster_id not in (None, view.cluster_id):
            raise ConnectionSettingsError(
                f"The connection expects the cluster {connection.expected_cluster_id} and reaches {view.cluster_id}. "
                "Correct the addresses, or expected_cluster_id."
            )
        cluster.check_is_whole(view)
        cluster.check_same_cluster(view)
        brokers, topics = sorted(view.brokers), {tp.topic for tp in view.partitions}
        cluster.read_topic_configs(topics)
        cluster.read_broker_configs(brokers)
        cluster.lock.read()
        log_dirs.read_log_dirs(connection.kafka, brokers)
        configs.read_effective_configs(connection.kafka, brokers)
        offsets.read_start_offsets(connection.kafka, sorted(view.partitions)[:1])
        missing = cluster.read_missing_rights(view)
    measured = _read_metrics(connection, topics)
    reached = f"Cluster {view.cluster_id}: {len(brokers)} brokers, {len(view.partitions)} partitions.{measured}"
    if not missing:
        return f"{reached} This connection has every right that a rebalance needs."
    return f"{reached} This connection may plan, but not rebalance. {' '.join(f'{right}.' for right in missing)}"


def _read_metrics(connection: ClusterConnection, topics: Collection[str]) -> str:
    if connection.metrics is None:
        return ""
    rates = read_hourly_rates(connection.metrics, topics, clock.utc_now(), days=1)
    return f" The metrics server has the bytes in of {len(rates.topics)} of {len(topics)} topics in the last day."
