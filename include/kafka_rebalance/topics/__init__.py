"""The Dag kafka_topics: topics are made, changed, listed and deleted."""
