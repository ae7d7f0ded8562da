"""Cruise Control is told by its topics, and by its reporter in the brokers."""

from __future__ import annotations

import pytest

from kafka_rebalance.run.checks.cluster_ready import cruise_control


@pytest.mark.parametrize(
    "topic",
    [
        "__CruiseControlMetrics",
        "__KafkaCruiseControlModelTrainingSamples",
        "__KafkaCruiseControlPartitionMetricSamples",
        "strimzi.cruisecontrol.metrics",
    ],
)
def test_cruise_control_is_told_by_its_topics(topic: str) -> None:
    (finding,) = cruise_control(["orders", topic], {})
    assert f"topic {topic}" in finding.problem
    assert "beside_cruise_control: true" in finding.remedy


def test_cruise_control_is_told_by_its_reporter_in_the_brokers() -> None:
    reporter = "com.linkedin.kafka.cruisecontrol.metricsreporter.CruiseControlMetricsReporter"
    (finding,) = cruise_control([], {1: {"metric.reporters": (reporter, "STATIC_BROKER_CONFIG")}, 2: {}})
    assert "metric.reporters of broker 1" in finding.problem
    assert list(cruise_control(["orders"], {1: {"metric.reporters": ("", "DEFAULT_CONFIG")}})) == []


def test_the_finding_is_about_cruise_control() -> None:
    (finding,) = cruise_control(["__CruiseControlMetrics"], {})
    assert finding.subject == "Cruise Control"
