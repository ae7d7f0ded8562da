"""Web app and tabs where the package is only on the path. An installed one registers them itself, by entry point."""

from importlib.metadata import entry_points

if "kafka_rebalance" not in entry_points(group="airflow.plugins").names:
    from kafka_rebalance.workflow.plugin import KafkaRebalancePlugin  # noqa: F401
