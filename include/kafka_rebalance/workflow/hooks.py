"""Reads the Airflow connection of a cluster, of either type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from airflow.sdk import BaseHook

from kafka_rebalance.errors import ConnectionSettingsError, ReadError, RebalanceError
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
        from kafka_rebalance.run.connection_check import check_connection

        try:
            return True, check_connection(self.get_conn())
        except RebalanceError as refused:
            return False, str(refused)


class AdminApiHook(KafkaClusterHook):
    conn_type = WITH_ADMIN_API
    hook_name = "Kafka (Admin API)"


_read: ContextVar[dict[str, ClusterConnection] | None] = ContextVar("connections that were read", default=None)


@contextmanager
def noting_connections() -> Iterator[dict[str, ClusterConnection]]:
    """The connections that are read meanwhile, by id, as they were read last."""
    connections: dict[str, ClusterConnection] = {}
    token = _read.set(connections)
    try:
        yield connections
    finally:
        _read.reset(token)


def read_connection(connection_id: str) -> ClusterConnection:
    """The cluster's connection. If there is none, the error says where to create it."""
    try:
        connection = KafkaClusterHook(connection_id).get_conn()
        noted = _read.get()
        if noted is not None:
            noted[connection_id] = connection
        return connection
    except ConnectionSettingsError:
        raise
    except Exception as missing:
        if not _is_missing(missing):
            raise
        raise ConnectionSettingsError(
            f"There is no Airflow connection {connection_id!r}. Create one under "
            "Admin, Connections: of type kafka_zookeeper, whose host is ZooKeeper's connect string with the chroot, or "
            "for a cluster without ZooKeeper of type kafka_admin_api, whose host holds the bootstrap servers."
        ) from None


def has_connection(connection_id: str) -> bool:
    """Whether there is such a connection, whatever it holds. Raises ReadError if Airflow does not tell."""
    try:
        KafkaClusterHook.get_connection(connection_id)
    except Exception as failed:
        if _is_missing(failed):
            return False
        raise ReadError(
            f"Airflow does not tell whether there is a connection {connection_id!r} ({type(failed).__name__}: "
            f"{failed}). Clear this task when Airflow answers again."
        ) from failed
    return True


def _is_missing(error: Exception) -> bool:
    """Tasks, the triggerer and tests get different classes."""
    return "isn't defined" in str(error) or "not found" in str(error).lower()
