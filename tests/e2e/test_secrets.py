"""What the runs of this folder must not have left behind. Runs after them: pytest takes files in the order of names."""

from __future__ import annotations

from urllib.parse import quote

import httpx

from demo.local_airflow import LocalAirflow
from support.airflow.command_lines import CommandLines
from support.metrics.http_server import Asked


def test_no_secret_is_in_any_file_that_airflow_and_the_runs_have_left(
    airflow: LocalAirflow, secrets: tuple[str, ...]
) -> None:
    """Logs, the database with its XComs, run folders, the ledger. The connection itself comes from the environment."""
    files = [path for path in airflow.home.rglob("*") if path.is_file()]
    assert any("spark" in path.read_text(errors="replace").lower() for path in files if "task_id=plan" in str(path))
    for secret in secrets:
        assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_no_secret_was_in_the_arguments_of_a_process(command_lines: CommandLines) -> None:
    assert command_lines.saw_spark
    assert command_lines.telling == set()


def test_no_secret_is_on_a_page_though_the_metrics_server_was_asked_with_its_password(
    approver: httpx.Client, metrics_server: tuple[str, list[Asked]], secrets: tuple[str, ...]
) -> None:
    _, asked = metrics_server
    assert {one.headers.get("Authorization") for one in asked} == {f"Basic {secrets[-1]}"}
    runs = approver.get("/api/v2/dags/kafka_rebalance/dagRuns").json()["dag_runs"]
    assert runs
    urls = [f"/kafka-rebalance/run/kafka_rebalance/{quote(run['dag_run_id'], safe='')}" for run in runs]
    pages = [approver.get(url).text for url in (*urls, "/kafka-rebalance/clusters")]
    assert any("metrics server" in page for page in pages)
    for secret in secrets:
        assert [page for page in pages if secret in page] == []
