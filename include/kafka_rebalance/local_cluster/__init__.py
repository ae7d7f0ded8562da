"""ZooKeeper and Kafka brokers as local processes, without containers: for the demo and for tests."""

from kafka_rebalance.local_cluster.cluster import LocalCluster
from kafka_rebalance.local_cluster.errors import LocalClusterError

__all__ = ["LocalCluster", "LocalClusterError"]
