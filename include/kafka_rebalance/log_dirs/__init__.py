"""The Dag kafka_log_dirs: replicas between the log dirs of each broker."""
