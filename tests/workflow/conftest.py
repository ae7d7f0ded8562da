"""Tests of this folder use an Airflow of their own: a fresh SQLite database in a temporary home."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import event

from support.airflow.airflow_home import HOME, RUNS, USERS  # first: it sets Airflow's environment
from support.documents import report_samples as samples
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batched_run
from support.storage.s3_server import BUCKET, S3Server, s3_server

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


def check_each_schema_once() -> None:
    """Airflow has the schema of a param checked whenever it looks at its value, which is a third of a whole Dag run."""
    check, valid = Draft202012Validator.check_schema, set[str]()

    def check_once(schema: object) -> None:
        text = json.dumps(schema, sort_keys=True)
        if text not in valid:
            check(schema)
            valid.add(text)

    Draft202012Validator.check_schema = check_once


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Iterator[Path]:
    """The home with its database, ready to use. Users log in with their name as password."""
    RUNS.mkdir()
    (HOME / "passwords.json").write_text(json.dumps({user: user for user in USERS}))
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from airflow import settings
    from airflow.utils.db import initdb

    # Nothing of this has to survive a crash, and a whole run commits hundreds of times.
    event.listen(settings.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    settings.engine.dispose()
    initdb()
    check_each_schema_once()
    yield HOME
    settings.dispose_orm()


@pytest.fixture(autouse=True)
def events_wait_for_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scheduler runs here: an event need not wait until it knows that the task is deferred."""
    from kafka_rebalance.workflow import triggers

    monkeypatch.setattr(triggers, "YOUNGEST_EVENT_SECONDS", 0.0)


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """Airflow's api-server in this process, with the plugin that it found in the plugins folder."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    with TestClient(create_app(apps="core"), raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="session")
def login(client: TestClient) -> dict[str, dict[str, str]]:
    """Headers by user, with tokens from Airflow's own login."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    headers = {}
    for user in USERS:
        answer = client.post("/auth/token", json={"username": user, "password": user})
        headers[user] = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    # Permissions come from the role: someone without one is logged in, and that is all.
    nobody = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="nora", role=None))
    return headers | {"nora": {"Authorization": f"Bearer {nobody}"}}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Parquet tables are somebody else's test; here their rows come from the samples, with a hostile topic."""
    from kafka_rebalance.pages.tables import CandidateTables, MoveTable
    from kafka_rebalance.rebalance import report
    from support.documents.built_report import summary_of
    from support.plans.move_tables import move_table

    moves = samples.all_moves(samples.HOSTILE)

    def read_tables(folder: Path, proposals: object, name: str) -> CandidateTables:
        return CandidateTables.of(name, samples.loads()[name], summary_of(moves[name]), ())

    for reader in ("read_tables", "read_page_tables"):
        monkeypatch.setattr(report, reader, read_tables)
    monkeypatch.setattr(report, "read_move_table", lambda folder, proposals, name: MoveTable(move_table(moves[name])))
    monkeypatch.setattr(report, "read_candidate", lambda folder, name: SimpleNamespace(moves=moves[name]))


@pytest.fixture
def get(client: TestClient, login: dict[str, dict[str, str]]) -> Any:
    """Asks as a user, `vera` unless said otherwise; None is nobody."""

    def ask(url: str, user: str | None = "vera", **options: Any) -> Any:
        return client.get(url, headers=login[user] if user else {}, **options)

    return ask


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """runs_url of this test: a folder of the bucket that no other test has, by the connection `store`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    url = f"s3://store@{BUCKET}/{request.node.name}"
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(s3.connection()))
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", url)
    return url


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Of Kafka 2.8, where a file or a folder has no other."""
    return SimulatedCluster(monkeypatch, TOPICS)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """Approved, in several batches."""
    return batched_run(tmp_path, cluster, monkeypatch)
