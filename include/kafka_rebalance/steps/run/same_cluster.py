"""Whether a connection still leads to the approved cluster."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.cluster_view import ClusterView


def read_view_of(cluster: OpenCluster, topics: Collection[str], approved_cluster_id: str) -> ClusterView:
    """ZooKeeper's view of these topics. Raises ClusterNotReadyError if the connection now leads to another cluster."""
    view = cluster.read_view(topics)
    check_approved_cluster(view, approved_cluster_id)
    return view


def check_approved_cluster(view: ClusterView, approved_cluster_id: str) -> None:
    """Raises ClusterNotReadyError if this is another cluster than the approved one."""
    if view.cluster_id != approved_cluster_id:
        raise ClusterNotReadyError(
            f"This is cluster {view.cluster_id}, the approval is for {approved_cluster_id}. Nothing was written. "
            "Correct the connection."
        )
