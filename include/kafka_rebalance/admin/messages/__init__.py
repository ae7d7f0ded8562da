"""Kafka's own descriptions of requests that kafka-python does not have, without their comments (Apache License 2.0)."""
