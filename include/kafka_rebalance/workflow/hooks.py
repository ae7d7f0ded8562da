"""Reads the Airflow connection of a cluster, of either type."""

from __future__ import annotations

from airflow.sdk import BaseHook

from kafka_rebalance.errors import ConnectionSettingsError, RebalanceError
from kafka_rebalance.model.connection import WITH_ADMIN_API, WITH_ZOOKEEPER, ClusterConnection, cluster_connection


class KafkaClusterHook(BaseHook):
    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_default"
    conn_type = WITH_ZOOKEEPER
    hook_name = "Kafka (ZooKeeper mode)"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def get_conn(self) -> ClusterConnection:
        """Raises ConnectionSettingsError, which names the connection and each wrong field."""
        return cluster_connection(self.get_connection(self.kafka_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Airflow's button *Test*: whether a plan can be made, and which right is missing for what."""
        from kafka_rebalance.steps.run.connection_check import check_connection

        try:
            return True, check_connection(self.get_conn())
        except RebalanceError as refused:
            return False, str(refused)


class AdminApiHook(KafkaClusterHook):
    conn_type = WITH_ADMIN_API
    hook_name = "Kafka (Admin API)"


def read_connection(connection_id: str) -> ClusterConnection:
    """The cluster's connection. If there is none, the error says where to create it."""
    try:
        return KafkaClusterHook(connection_id).get_conn()
    except ConnectionSettingsError:
        raise
    except Exception as missing:  # tasks, the triggerer and tests get different classes
        if "isn't defined" not in str(missing) and "not found" not in str(missing).lower():
            raise
        raise ConnectionSettingsError(
            f"There is no Airflow connection {connection_id!r}. Nothing was read or written. Create one under "
            "Admin, Connections: of type kafka_zookeeper, whose host is ZooKeeper's connect string with the chroot, or "
            "for a cluster without ZooKeeper of type kafka_admin_api, whose host holds the bootstrap servers."
        ) from None
