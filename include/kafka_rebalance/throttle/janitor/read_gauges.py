"""What is measured of a cluster for Airflow's metrics: from the janitor's report, and from the newest nightly check.

Nothing here asks the cluster. A gauge keeps its last value in most receivers, so what has ended is told as 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.documents.janitor_report import JanitorReport
from kafka_rebalance.model.candidate import Metric
from kafka_rebalance.run import ledger
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.throttle.janitor.look_after_cluster import last_report

PREFIX = "kafka_rebalance"
CHECK_DAYS = 3.0  # an older check says nothing of today

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")  # a dot would be a level of its own


@dataclass(frozen=True, slots=True)
class Gauge:
    """`name` has the cluster in it, for receivers without tags."""

    name: str
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


def read_gauges(deployment: Deployment, connection_id: str, now: datetime | None = None) -> tuple[Gauge, ...]:
    """Raises StorageError."""
    now = now or clock.utc_now()
    checks = ledger.read(deployment, "balance", connection_id, CHECK_DAYS, now=now).rows
    values = {
        **_of_check(checks[0] if checks else {}, now),
        **_of_report(last_report(deployment, connection_id), now),
    }
    cluster = _UNFIT.sub("_", connection_id)
    tags = {"cluster": connection_id}
    return tuple(Gauge(f"{PREFIX}.{cluster}.{name}", value, tags) for name, value in values.items())


def _of_check(row: Mapping[str, Any], now: datetime) -> dict[str, float]:
    """Shares, days and seconds. What the check does not know is left out."""
    known = {f"skew.{metric}": row.get(f"skew_{metric}") for metric in Metric}
    known |= {
        "skew.worst": row.get("imbalance"),
        "skew.limit": row.get("limit"),
        "disk.fullest": row.get("fullest_disk_share"),
        "disk.days_until_full": row.get("first_full_days"),
        "brokers_away": len(row["brokers_away"]) if row.get("brokers_away") is not None else None,
        "check.age_seconds": _age(row.get("observed_at"), now),
    }
    return {name: float(value) for name, value in known.items() if value is not None}


def _of_report(report: JanitorReport | None, now: datetime) -> dict[str, float]:
    if report is None:
        return {}
    progress, throttle = report.progress, report.throttle
    return {
        "run.bytes_left": float(progress.bytes_left if progress else 0),
        "run.partitions_left": float(progress.partitions_left if progress else 0),
        "run.seconds_since_progress": _age(progress and progress.since, now) or 0.0,
        "throttle.bytes_per_second": float(throttle.bytes_per_second if throttle else 0),
        "throttle.age_seconds": _age(throttle and throttle.taken_at, now) or 0.0,
        "lock.held": float(report.lock is not None),
        "lock.age_seconds": _age(report.locked_since, now) or 0.0,
        "janitor.alerts": float(len(report.alerts)),
        "janitor.findings": float(len(report.findings)),
    }


def _age(at: object, now: datetime) -> float | None:
    """Seconds; None if it is not a time."""
    try:
        found = at if isinstance(at, datetime) else datetime.fromisoformat(str(at))
        return max(0.0, (now - found).total_seconds())
    except (TypeError, ValueError):
        return None
