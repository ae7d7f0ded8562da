"""The nightly check, and a run's plan, with a metrics server in the connection. The cluster is simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.workflow.hooks import KafkaClusterHook
from support.metrics.http_server import answering, body, series
from support.runs.rebalance_run import CONNECTION, connection_fields
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, Step

TOKEN = "hunter2-s3cret"
BUSY = series(({"topic": "orders"}, lambda at: "4000"), ({"topic": "idle"}, lambda at: "0"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    topics = {"orders": {0: (1, 2)}, "idle": {0: (3, 4), 1: (4, 3)}}
    return SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, topics), monkeypatch, run_id="scheduled__one")


def connect(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    fields: dict[str, Any] = connection_fields(run.cluster)  # type: ignore[arg-type]
    metrics = {"url": url, "bytes_in": "sum by (topic) (rate(x[1h]))", "token": TOKEN}
    fields["extra"]["metrics_secret_config"] = json.dumps(metrics)
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(fields))


def test_the_servers_bytes_in_count_from_the_first_night_on(
    run: SimulatedRun, check: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(BUSY) as (url, asked):
        connect(run, monkeypatch, url)
        verdict = check()
    assert verdict["skew"]["bytes_in"] == pytest.approx(1.0), "brokers 1 and 2 of four take in all"
    assert "metrics server" not in verdict["text"]
    assert len(asked) == 28


def test_a_server_that_is_away_fails_no_check_and_is_told(
    run: SimulatedRun, check: Step, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(body({"status": "error", "error": f"{TOKEN} is away"}, 503)) as (url, _):
        connect(run, monkeypatch, url)
        verdict = check()
    assert "bytes_in" not in verdict["skew"]
    assert "the metrics server cannot be read: bytes in are those of the ledger alone" in verdict["text"]
    assert "HTTP 503, *** is away" in caplog.text
    assert TOKEN not in caplog.text + json.dumps(verdict)


def test_a_plan_uses_the_servers_rates_and_its_page_says_so(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run.dag_run.run_id, run.dag_run.run_type = "one", "manual"
    with answering(BUSY) as (url, _):
        connect(run, monkeypatch, url)
        proposals = run.plan()
    used = proposals["history"]["metrics_server"]
    assert (used["topics"], used["partitions"], used["share_of_bytes"], used["days"]) == (2, 3, 1.0, 28.0)
    page = (run.folder / "report.html").read_text()
    assert "95th percentile of 28 days by the metrics server, of 2 topics, for 100 % of the partitions" in page
    assert not [path for path in run.folder.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


def test_a_plan_without_the_server_says_why_on_its_page(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(body({"status": "error", "error": "<b>away</b>"}, 503)) as (url, _):
        connect(run, monkeypatch, url)
        proposals = run.plan()
    assert "HTTP 503" in proposals["history"]["metrics_server"]["problem"]
    page = (run.folder / "report.html").read_text()
    assert "the metrics server gives nothing: The metrics server" in page
    assert "&lt;b&gt;away&lt;/b&gt;" in page


def test_the_button_test_says_what_the_server_has_or_why_it_cannot_be_used(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(BUSY) as (url, asked):
        connect(run, monkeypatch, url)
        is_fine, said = KafkaClusterHook(CONNECTION).test_connection()
    assert is_fine, said
    assert "The metrics server has the bytes in of 2 of 2 topics in the last day." in said
    assert len(asked) == 1
    is_fine, said = KafkaClusterHook(CONNECTION).test_connection()
    assert not is_fine
    assert "cannot be read (Connection refused)" in said
