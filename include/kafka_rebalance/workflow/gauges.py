"""Sends what is measured of a cluster to StatsD or OpenTelemetry, as Airflow's section `metrics` says."""

from __future__ import annotations

import logging

from airflow.sdk.observability import stats

from kafka_rebalance.throttle.janitor.read_gauges import read_gauges
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment

log = logging.getLogger(__name__)


def send_gauges(connection_id: str) -> None:
    """Within an Airflow task, which has set up Airflow's metrics. Without a receiver it does nothing.

    Never raises: what cannot be read or sent is logged, because the janitor's own work does not depend on it.
    """
    try:
        for gauge in read_gauges(airflow_deployment(), connection_id):
            stats.gauge(gauge.name, gauge.value, tags=dict(gauge.tags))
    except Exception as failed:  # of storage, of a damaged report or of a receiver; an alert on its way must arrive
        log.warning("%s: not all gauges were sent: %s: %s", connection_id, type(failed).__name__, failed)
