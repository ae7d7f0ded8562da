"""Kafka's own tool for reassignments, of the version of the cluster that it is used on."""

from __future__ import annotations

from kafka_rebalance.local_cluster import LocalCluster
from support.kafka.java.kafka_classes import KafkaClasses


class ReassignPartitions:
    """kafka-reassign-partitions of the cluster's version: of ZooKeeper where it still can, else of the brokers."""

    def __init__(self, classes: KafkaClasses, cluster: LocalCluster) -> None:
        self._classes = classes
        if cluster.version >= "3":
            self._class = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
            self._where = ["--bootstrap-server", cluster.bootstrap_servers]
        else:
            self._class = "kafka.admin.ReassignPartitionsCommand"
            self._where = ["--zookeeper", cluster.zookeeper]

    def __call__(self, *arguments: str) -> str:
        """What it prints; fails where it ends with another code than 0."""
        code, said, complained = self._classes.run_tool(self._class, [*self._where, *arguments])
        assert code == 0, said + complained
        return said
