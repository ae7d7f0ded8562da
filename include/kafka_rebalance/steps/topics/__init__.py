"""The Dag kafka_topics."""
