"""The Dag kafka_log_dirs."""
