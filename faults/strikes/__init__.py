"""What each fault does to the cluster, to storage or to our processes, and how it heals."""
