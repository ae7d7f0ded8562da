"""The Dag kafka_rebalance_cancel: stop what runs, go back, elect a controller, change a rate."""
