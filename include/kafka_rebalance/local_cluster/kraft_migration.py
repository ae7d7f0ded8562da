"""A cluster's way from ZooKeeper to KRaft, in the steps of Kafka's documentation (3.4 to 3.9)."""

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster import zookeeper_topics
from kafka_rebalance.local_cluster.cluster import WAIT_SECONDS, LocalCluster
from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jvms.server_settings import MIGRATION, migration_settings
from kafka_rebalance.local_cluster.kraft_mode import KraftMode
from kafka_rebalance.local_cluster.mode import Properties
from kafka_rebalance.local_cluster.zookeeper_mode import ZooKeeperMode


class _MigratingMode(ZooKeeperMode):
    """Brokers register in ZooKeeper, and follow the quorum."""

    def __init__(self, before: ZooKeeperMode, quorum: KraftMode) -> None:
        super().__init__(ports=before.server_ports)
        self._quorum = quorum

    @property
    def ports(self) -> Collection[int]:
        return {*super().ports, *self._quorum.ports}

    def settings(self, broker: int, port: int, folder: Path) -> Properties:
        return {
            **super().settings(broker, port, folder),
            **migration_settings(self._quorum.settings(broker, port, folder)),
        }


class KraftMigration:
    """Of a running cluster with one ZooKeeper, to a quorum of one node."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._quorum = KraftMode(controllers=1)
        self._quorum.plan(())

    def begin(self) -> None:
        """Returns when the quorum owns the cluster. From then on it writes all metadata to ZooKeeper too."""
        cluster, before = self._cluster, self._cluster.zookeeper_mode
        with zookeeper_topics.open_client(before.connect) as client:
            self._quorum.cluster_id = json.loads(client.get("/cluster/id")[0])["id"]
            with_zookeeper = {"zookeeper.connect": before.connect, **MIGRATION}
            controllers = {node: {**values, **with_zookeeper} for node, values in self._controllers().items()}
            cluster.layout.format_storage(self._quorum.cluster_id, controllers)
            cluster.layout.start_brokers(controllers)
            cluster.restart_as(_MigratingMode(before, self._quorum))
            self._wait_for_quorum(client)

    def end(self) -> None:
        """Returns when no broker and no controller has to do with ZooKeeper any more."""
        self._cluster.restart_as(self._quorum)
        for node, values in self._controllers().items():
            self._cluster.layout.stop_broker(node)
            self._cluster.layout.start_brokers({node: values})

    def _controllers(self) -> Mapping[int, Properties]:
        return {node: self._quorum.controller_properties(node, self._cluster.folder) for node in self._quorum.quorum}

    def _wait_for_quorum(self, client: Any) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while zookeeper_topics.read_controller(client) not in self._quorum.quorum:
            if time.monotonic() > give_up:
                logs = f"The logs are in {self._cluster.folder}."
                raise LocalClusterError(f"The quorum does not own the cluster after {WAIT_SECONDS} s. {logs}")
            time.sleep(0.03)
