"""The Dag kafka_rebalance, from its snapshot to its record."""
