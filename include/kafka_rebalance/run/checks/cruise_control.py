"""Whether Cruise Control works on the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_rebalance.model.configs import ConfigsByBroker
from kafka_rebalance.model.finding import Finding, listed, some

# Cruise Control's own names (CruiseControlMetricsReporterConfig, KafkaSampleStore) and Strimzi's.
CRUISE_CONTROL_TOPICS = ("__CruiseControlMetrics", "__KafkaCruiseControl", "strimzi.cruisecontrol.")


def cruise_control(topics: Iterable[str], configs: ConfigsByBroker) -> Iterable[Finding]:
    """Signs of Cruise Control, which moves partitions by its own goals: its topics, and its metrics reporter."""
    signs = [f"topic {topic}" for topic in sorted(topics) if topic.startswith(CRUISE_CONTROL_TOPICS)]
    reporting = [
        broker
        for broker, values in sorted(configs.items())
        if "cruisecontrol" in (values.get("metric.reporters", (None, ""))[0] or "").lower()
    ]
    signs += [f"metric.reporters of broker {listed(reporting)}"] if reporting else []
    if signs:
        yield Finding(
            "Cruise Control",
            f"it works on this cluster ({some(signs)}): two tools that move partitions undo each other's work",
            "Pause it, and set beside_cruise_control: true in the policy. If it is gone, remove what it left behind",
        )
