"""How this connection gets into a cluster, and what it may do there."""
