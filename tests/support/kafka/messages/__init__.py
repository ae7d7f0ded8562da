"""Kafka's own descriptions of requests that only tests send, without their comments (Apache License 2.0)."""
