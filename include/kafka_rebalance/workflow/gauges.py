"""Sends what is measured of a cluster to StatsD or OpenTelemetry, as Airflow's section `metrics` says."""

from __future__ import annotations

import logging

from airflow.sdk.observability import stats

from kafka_rebalance.errors import StorageError
from kafka_rebalance.steps.janitor.read_gauges import read_gauges
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment

log = logging.getLogger(__name__)


def send_gauges(connection_id: str) -> None:
    """Within an Airflow task, which has set up Airflow's metrics. Without a receiver it does nothing.

    What cannot be read is logged: the janitor's own work does not depend on it.
    """
    try:
        found = read_gauges(airflow_deployment(), connection_id)
    except StorageError as unreadable:
        log.warning("%s: no gauge was sent: %s", connection_id, unreadable)
        return
    for gauge in found:
        stats.gauge(gauge.name, gauge.value, tags=dict(gauge.tags))
