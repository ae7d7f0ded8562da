"""docs/monitoring.md and its dashboard name the gauges that the janitor sends, and no others."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import yaml

from kafka_rebalance.model.candidate import Metric
from kafka_rebalance.throttle.janitor import read_gauges

DOCS = Path(__file__).parents[3] / "docs"
NOW = datetime(2026, 5, 3, tzinfo=UTC)
EVERYTHING = {
    **{f"skew_{metric}": 0.1 for metric in Metric}, "imbalance": 0.1, "limit": 0.2,
    "fullest_disk_share": 0.5, "first_full_days": 9.0, "brokers_away": [], "observed_at": NOW,
}  # fmt: skip


def sent() -> set[str]:
    return {*read_gauges._of_check(EVERYTHING, NOW), *read_gauges._of_report({"lock": None}, NOW)}


def test_the_page_has_every_gauge_once() -> None:
    table = (DOCS / "monitoring.md").read_text().partition("<!-- gauges -->")[2].partition("<!-- /gauges -->")[0]
    named = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`([\w.]+)`", row.split("|")[1] if "|" in row else "")
    ]
    assert sorted(named) == sorted(sent())


def test_alerts_and_dashboard_ask_for_gauges_that_are_sent() -> None:
    rules = (DOCS / "monitoring.md").read_text().partition("## Alerts")[2].partition("## A dashboard")[0]
    asked = set(re.findall(r"\b((?:skew|disk|check|run|throttle|lock|janitor)\.[a-z_]+)", rules))
    dashboard = json.loads((DOCS / "monitoring/dashboard.json").read_text())
    asked |= {
        re.findall(r'gauge="([^"]+)"', target["expr"])[0]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    assert asked <= sent()
    assert len(asked) > 10


def test_the_mapping_takes_a_name_apart() -> None:
    (mapping,) = yaml.safe_load((DOCS / "monitoring/statsd_mapping.yml").read_text())["mappings"]
    found = re.fullmatch(mapping["match"], "airflow.kafka_rebalance.orders-prod.skew.disk")
    assert found is not None
    assert found.groups() == ("orders-prod", "skew.disk")
