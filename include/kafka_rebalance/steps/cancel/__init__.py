"""The Dag kafka_rebalance_cancel."""
