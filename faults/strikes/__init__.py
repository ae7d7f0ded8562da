"""What each fault does to the cluster, to storage or to us, and how it heals: one function a fault."""
