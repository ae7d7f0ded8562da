"""Gauges of a cluster: of a simulated run, and sent by Airflow's own client to real receivers of StatsD and OTLP."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from kafka_rebalance.dags.kafka_throttle_janitor_dag import DAG as JANITOR
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import StorageError, UnwatchedError
from kafka_rebalance.run import ledger
from kafka_rebalance.throttle.janitor.read_gauges import read_gauges
from kafka_rebalance.workflow import gauges as workflow_gauges
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.documents import report_samples as samples
from support.runs.janitor_run import Airflow, janitors_run, last_report, tend
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, approved_run

NOW = datetime.now(UTC)
CLUSTER = f"kafka_rebalance.{CONNECTION}"
# As Airflow's task runner does before it runs a task.
AS_A_TASK = f"""
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
from kafka_rebalance.workflow.gauges import send_gauges
send_gauges({CONNECTION!r})
"""


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    Airflow.answering(monkeypatch)
    return approved_run(tmp_path, cluster, monkeypatch)


def gauges(later: timedelta = timedelta(0)) -> dict[str, float]:
    found = read_gauges(airflow_deployment(), CONNECTION, datetime.now(UTC) + later)
    assert {one.tags["cluster"] for one in found} <= {CONNECTION}
    return {one.name.removeprefix(f"{CLUSTER}."): one.value for one in found}


def checked(**columns: object) -> None:
    """The newest row of the nightly check."""
    row = {"skew_disk": 0.31, "imbalance": 0.31, "limit": 0.2, "brokers_away": [7], **columns}
    ledger.append(airflow_deployment(), "balance", CONNECTION, "nightly", NOW, [row])


def test_a_run_at_work_tells_what_is_left_and_how_long_nothing_has_come_further(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    run.request()
    cluster.step()
    json_files.write_json(run.folder, json_files.PROGRESS, samples.progress())
    tend()
    first = gauges(timedelta(minutes=10))
    assert (first["run.bytes_left"], first["run.partitions_left"]) == (82 * samples.GIB, 17)
    assert first["throttle.bytes_per_second"] > 0
    assert first["lock.held"] == 1
    tend()
    for name in ("run.seconds_since_progress", "throttle.age_seconds", "lock.age_seconds"):
        assert gauges(timedelta(minutes=10))[name] >= first[name] > 500, "the same progress as at the last look"
    json_files.write_json(run.folder, json_files.PROGRESS, samples.progress(partitions_done=18))
    tend()
    assert gauges(timedelta(minutes=1))["run.seconds_since_progress"] < 120, "one more partition is in place"


def test_what_has_ended_is_told_as_nothing(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    tend()
    found = gauges()
    ended = ("run.bytes_left", "run.seconds_since_progress", "throttle.bytes_per_second", "throttle.age_seconds")
    assert {name: found[name] for name in (*ended, "lock.held", "lock.age_seconds")} == dict.fromkeys(
        (*ended, "lock.held", "lock.age_seconds"), 0.0
    )
    assert (found["janitor.alerts"], found["janitor.findings"]) == (0, 0)
    assert "skew.disk" not in found, "no check has told it"


def test_the_newest_check_tells_skew_and_disks_and_what_it_does_not_know_is_left_out(run: SimulatedRun) -> None:
    checked()
    found = gauges()
    assert (found["skew.disk"], found["skew.worst"], found["skew.limit"], found["brokers_away"]) == (0.31, 0.31, 0.2, 1)
    assert found["check.age_seconds"] >= 0
    assert "skew.leaders" not in found


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[60:76] = b"\xff" * 16
    file.write_bytes(bytes(data))


def test_a_damaged_check_hides_neither_an_earlier_one_nor_the_janitors_own_gauges(run: SimulatedRun) -> None:
    tend()
    checked()
    row = {"imbalance": 0.9, "limit": 0.2}
    damage(Path(str(ledger.append(airflow_deployment(), "balance", CONNECTION, "later", NOW, [row] * 50))))
    found = gauges()
    assert (found["skew.worst"], found["janitor.alerts"]) == (0.31, 0)


@pytest.mark.parametrize("failed", [ZeroDivisionError("of a report"), OSError("of a receiver"), StorageError("away")])
def test_gauges_that_cannot_be_sent_replace_no_alert(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, failed: Exception
) -> None:
    airflow = Airflow.answering(monkeypatch)
    run.hold()
    run.request()
    cluster.step()
    airflow.states["one"] = "failed"

    def cannot(*_: object, **__: object) -> None:
        raise failed

    monkeypatch.setattr(workflow_gauges, "read_gauges", cannot)
    monkeypatch.setattr(workflow_gauges.stats, "gauge", cannot)
    nothing = {"kafka_conn_id": None, "clean": [], "break_lock": None}
    with pytest.raises(UnwatchedError, match="Nobody follows"):
        JANITOR.get_task("tend").python_callable(CONNECTION, nothing, janitors_run())
    assert len(last_report().alerts) == 1


@pytest.fixture
def statsd() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(60)
        yield receiver


class Collector(ThreadingHTTPServer):
    """Takes metrics by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Take)
        self.gauges: dict[str, float] = {}
        self.clusters: set[str] = set()


class Take(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        sent = ExportMetricsServiceRequest.FromString(body)
        for resource in sent.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.gauge.data_points:
                        self.server.gauges[metric.name] = point.as_double
                        self.server.clusters |= {
                            one.value.string_value for one in point.attributes if one.key == "cluster"
                        }
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


def send(**metrics: str) -> None:
    settings = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in metrics.items()}
    subprocess.run(
        [sys.executable, "-c", AS_A_TASK], env=os.environ | settings, check=True, capture_output=True, timeout=120
    )


def test_a_statsd_server_gets_them_under_the_clusters_name(run: SimulatedRun, statsd: socket.socket) -> None:
    tend()
    checked()
    send(statsd_on="True", statsd_host="127.0.0.1", statsd_port=str(statsd.getsockname()[1]))
    wanted = {f"airflow.{CLUSTER}.{name}" for name in gauges()}
    got: dict[str, str] = {}
    while not wanted <= got.keys():
        name, _, value = statsd.recv(4096).decode().partition(":")
        got[name] = value
    assert got[f"airflow.{CLUSTER}.skew.disk"] == "0.31|g"
    assert got[f"airflow.{CLUSTER}.lock.held"] == "0.0|g"


def test_an_opentelemetry_collector_gets_them_with_the_cluster_as_an_attribute(run: SimulatedRun) -> None:
    tend()
    checked()
    with Collector() as collector:
        serving = threading.Thread(target=collector.serve_forever, daemon=True)
        serving.start()
        send(otel_on="True", otel_host="127.0.0.1", otel_port=str(collector.server_address[1]))
        collector.shutdown()
        serving.join()
    assert {f"airflow.{CLUSTER}.{name}" for name in gauges()} <= collector.gauges.keys()
    assert collector.gauges[f"airflow.{CLUSTER}.skew.disk"] == 0.31
    assert collector.clusters == {CONNECTION}
