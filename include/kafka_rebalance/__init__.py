"""Human-approved rebalancing of ZooKeeper-mode Kafka clusters, orchestrated by Airflow."""

__version__ = "0.1.0"
