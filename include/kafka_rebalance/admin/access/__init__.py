"""How this connection gets into a cluster."""
