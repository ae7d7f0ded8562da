"""Whether ZooKeeper's hosts and the bootstrap servers lead to the same cluster, and to the approved one."""

from __future__ import annotations

from collections.abc import Collection

from kazoo.client import KazooClient

from kafka_rebalance.admin import cluster_id
from kafka_rebalance.errors import ClusterNotReadyError, ConnectionSettingsError
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.zookeeper.reader import read_cluster_view


def check_same_cluster(connection: ClusterConnection, view: ClusterView) -> None:
    """Raises ConnectionSettingsError if the brokers report another cluster id than ZooKeeper has, ReadError.

    They are two settings of the connection, and people can edit either while a request waits.
    """
    reported = cluster_id.read_cluster_id(connection.kafka)
    if reported != view.cluster_id:
        raise ConnectionSettingsError(
            f"The connection {connection.connection_id!r} names two clusters: ZooKeeper {connection.zookeeper.hosts} "
            f"is {view.cluster_id}, bootstrap servers {connection.kafka.bootstrap_servers} are {reported}. Nothing was "
            "written. Correct one of them under Admin, Connections."
        )


def read_view_of(client: KazooClient, topics: Collection[str], approved_cluster_id: str) -> ClusterView:
    """ZooKeeper's view of these topics. Raises ClusterNotReadyError if the connection now leads to another cluster."""
    view = read_cluster_view(client, topics)
    if view.cluster_id != approved_cluster_id:
        raise ClusterNotReadyError(
            f"This is cluster {view.cluster_id}, the approval is for {approved_cluster_id}. Nothing was written. "
            "Correct the connection."
        )
    return view
