"""The snapshot of a large cluster, and what it costs other clients."""
