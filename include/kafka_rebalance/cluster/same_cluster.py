"""Whether ZooKeeper's hosts and the bootstrap servers lead to the same cluster."""

from __future__ import annotations

from kafka_rebalance.admin import cluster_id
from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection


def check_same_cluster(connection: ClusterConnection, view: ClusterView) -> None:
    """Raises ConnectionSettingsError if the brokers report another cluster id than ZooKeeper has, ReadError.

    They are two settings of the connection, and people can edit either while a request waits.
    """
    reported = cluster_id.read_cluster_id(connection.kafka)
    if reported != view.cluster_id:
        raise ConnectionSettingsError(
            f"The connection {connection.connection_id!r} names two clusters: ZooKeeper {connection.zookeeper.hosts} "
            f"is {view.cluster_id}, bootstrap servers {connection.kafka.bootstrap_servers} are {reported}. "
            "Correct one of them under Admin, Connections."
        )
