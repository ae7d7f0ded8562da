"""What the page of a run of `kafka_log_dirs` says."""
