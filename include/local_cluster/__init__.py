"""ZooKeeper and Kafka brokers as local processes, without containers: for the demo and for tests."""

from local_cluster.cluster import LocalCluster
from local_cluster.errors import LocalClusterError

__all__ = ["LocalCluster", "LocalClusterError"]
