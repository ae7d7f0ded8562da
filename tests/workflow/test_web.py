"""The tab of a run, served by the real Airflow app with the Simple auth manager and a database of its own."""

from __future__ import annotations

import importlib
import inspect
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import insert

import report_samples as samples
from airflow_home import RUNS, USERS
from kafka_rebalance.model.artifacts import DECISION, PROGRESS, PROPOSALS, SNAPSHOT, VERIFICATION, write_json
from kafka_rebalance.workflow import report_files, web
from kafka_rebalance.workflow.run_folder import NONCE

NONCE_VALUE = "12345678901234567890123456789012"  # all digits: must not be read as a number
SECRET = "only for eyes with permission"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """Airflow's api-server in this process, with the plugin that it found in the plugins folder."""
    with TestClient(create_app(apps="core"), raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="module")
def login(client: TestClient) -> dict[str, dict[str, str]]:
    """Headers by user, with tokens from Airflow's own login."""
    headers = {}
    for user in USERS:
        answer = client.post("/auth/token", json={"username": user, "password": user})
        headers[user] = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    # Permissions come from the role: someone without one is logged in, and that is all.
    nobody = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="nora", role=None))
    return headers | {"nora": {"Authorization": f"Bearer {nobody}"}}


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Parquet tables are somebody else's test; here their rows come from the samples, with a hostile topic."""
    monkeypatch.setattr(report_files, "read_loads", lambda folder, name: samples.loads()[name])
    moves = samples.all_moves(samples.HOSTILE)
    monkeypatch.setattr(report_files, "read_candidate", lambda folder, name: SimpleNamespace(moves=moves[name]))


class Run:
    """A Dag run in the database, and its folder."""

    def __init__(self, dag_id: str = "kafka_rebalance", state: str = "running") -> None:
        self.dag_id = dag_id
        self.run_id = f"manual__2026-05-03T14:31:58+00:00_{uuid.uuid4().hex[:8]}"
        self.folder = RUNS / "orders-prod" / uuid.uuid4().hex
        self.url = f"/kafka-rebalance/run/{dag_id}/{quote(self.run_id, safe='')}"
        with create_session() as session:
            session.add(
                DagRun(dag_id=dag_id, run_id=self.run_id, run_type="manual", state=state, run_after=datetime.now(UTC))
            )

    def with_tasks(self, *tasks: str) -> Run:
        values = {
            "dag_id": self.dag_id,
            "run_id": self.run_id,
            "map_index": -1,
            "state": "success",
            "pool": "default_pool",
        }
        values |= {"try_number": 1, "max_tries": 0, "pool_slots": 1, "priority_weight": 1, "queue": "default"}
        with create_session() as session:
            for task in tasks:
                session.execute(insert(TaskInstance).values(id=uuid.uuid4(), task_id=task, **values))
        return self

    def with_xcom(self, **values: Any) -> Run:
        with create_session() as session:
            dag_run_id = session.query(DagRun.id).filter_by(dag_id=self.dag_id, run_id=self.run_id).scalar()
            for key, value in values.items():
                session.add(
                    XComModel(
                        dag_run_id=dag_run_id, dag_id=self.dag_id, run_id=self.run_id, task_id="snapshot", map_index=-1,
                        key=key, value=value, timestamp=datetime.now(UTC),
                    )
                )  # fmt: skip
        return self

    def with_folder(self, nonce: str = NONCE_VALUE, **snapshot: Any) -> Run:
        self.folder.mkdir(parents=True)
        write_json(self.folder, NONCE, {"nonce": nonce})
        ours = {"dag_id": self.dag_id, "run_id": self.run_id, "reason": SECRET}
        write_json(self.folder, SNAPSHOT, samples.snapshot(**ours | snapshot))
        write_json(self.folder, PROPOSALS, samples.proposals())
        return self

    def ready(self) -> Run:
        return (
            self.with_tasks("snapshot", "render_report")
            .with_folder()
            .with_xcom(run_folder=str(self.folder), nonce=NONCE_VALUE)
        )


@pytest.fixture
def get(client: TestClient, login: dict[str, dict[str, str]]) -> Any:
    def ask(url: str, user: str | None = "vera", **options: Any) -> Any:
        return client.get(url, headers=login[user] if user else {}, **options)

    return ask


def test_a_viewer_sees_the_report_of_a_run(get: Any) -> None:
    answer = get(Run().ready().url)
    assert answer.status_code == 200, answer.text
    assert "Waits for approval" in answer.text
    assert SECRET in answer.text


def test_the_login_cookie_of_the_iframe_is_enough(client: TestClient, login: dict[str, dict[str, str]]) -> None:
    token = login["vera"]["Authorization"].removeprefix("Bearer ")
    answer = client.get(Run().ready().url, headers={"Cookie": f"_token={token}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/kafka-rebalance/static/report.css", "/kafka-rebalance/static/refresh.js"])
def test_files_of_the_page_need_a_login_too(get: Any, path: str) -> None:
    assert get(path, user=None).status_code == 401
    assert get(path).status_code == 200


def test_nobody_gets_anything_without_a_login(get: Any) -> None:
    answer = get(Run().ready().url, user=None)
    assert answer.status_code == 401
    assert SECRET not in answer.text


def test_a_login_without_permission_for_the_dag_is_refused(get: Any) -> None:
    answer = get(Run().ready().url, user="nora")
    assert answer.status_code == 403
    assert SECRET not in answer.text


def test_a_forged_token_is_refused(client: TestClient) -> None:
    answer = client.get(Run().ready().url, headers={"Authorization": "Bearer e30.e30.e30"})
    assert answer.status_code in (401, 403)
    assert SECRET not in answer.text


def test_the_permission_is_asked_for_the_dag_of_the_path(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def only_other_dags(self: Any, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        asked.append((method, access_entity.name, details.id))
        return False

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_dag", only_other_dags)
    assert get(Run().ready().url, user="admin").status_code == 403
    assert asked == [("GET", "XCOM", "kafka_rebalance")]


def test_an_unknown_run_is_not_found(get: Any) -> None:
    answer = get("/kafka-rebalance/run/kafka_rebalance/no<b>such")
    assert answer.status_code == 404
    assert "no&lt;b&gt;such" in answer.text


def test_a_run_of_another_dag_is_told_in_words(get: Any) -> None:
    answer = get(Run("nightly_sales").url)
    assert answer.status_code == 404
    assert "This run is not a rebalance" in answer.text


def test_a_run_without_a_snapshot_yet_says_so(get: Any) -> None:
    answer = get(Run().with_tasks("snapshot", "render_report").url)
    assert answer.status_code == 200
    assert "No snapshot yet" in answer.text


def outside_the_root(run: Run) -> str:
    secret = RUNS.parent / "elsewhere" / uuid.uuid4().hex
    secret.parent.mkdir(exist_ok=True)
    run.with_folder().folder.rename(secret)
    return str(secret)


def up_and_out(run: Run) -> str:
    return f"{RUNS}/x/../../elsewhere/{Path(outside_the_root(run)).name}"


def by_a_link(run: Run) -> str:
    link = RUNS / uuid.uuid4().hex
    link.symlink_to(outside_the_root(run))
    return str(link)


def as_a_file_url(run: Run) -> str:
    return f"file://{RUNS}/%2e%2e/elsewhere/{Path(outside_the_root(run)).name}"


@pytest.mark.parametrize("trick", [outside_the_root, up_and_out, by_a_link, as_a_file_url])
def test_a_folder_outside_the_root_is_not_read(get: Any, trick: Any) -> None:
    run = Run().with_tasks("snapshot", "render_report")
    answer = get(run.with_xcom(run_folder=trick(run), nonce=NONCE_VALUE).url)
    assert answer.status_code == 403
    assert SECRET not in answer.text


def test_the_folder_of_another_run_is_not_shown(get: Any) -> None:
    other = Run("kafka_rebalance_of_another_team").ready()
    run = Run().with_tasks("snapshot").with_xcom(run_folder=str(other.folder), nonce=NONCE_VALUE)
    answer = get(run.url)
    assert answer.status_code == 403
    assert SECRET not in answer.text


@pytest.mark.parametrize("value", [17, {"__classname__": "pathlib.Path"}, ["a"], None, '"open'])
def test_a_folder_that_is_not_text_counts_as_none(get: Any, value: Any) -> None:
    run = Run().with_tasks("snapshot", "render_report").with_xcom(run_folder=value, nonce=NONCE_VALUE)
    assert "No snapshot yet" in get(run.url).text


@pytest.mark.parametrize("found", ["another", None])
def test_a_folder_that_this_process_does_not_share_is_said_so(get: Any, found: str | None) -> None:
    run = Run().with_tasks("snapshot").with_xcom(run_folder="", nonce=NONCE_VALUE)
    if found:
        run.with_folder(nonce=found)
    with create_session() as session:
        session.query(XComModel).filter_by(run_id=run.run_id, key="run_folder").update({"value": str(run.folder)})
    answer = get(run.url)
    assert answer.status_code == 503
    assert "run folder not shared" in answer.text
    assert SECRET not in answer.text


def test_a_broken_file_is_named(get: Any) -> None:
    run = Run().ready()
    (run.folder / DECISION).write_text('{"format_version": 1, "choice": 3}')
    answer = get(run.url)
    assert answer.status_code == 503
    assert "decision.json: &#39;choice&#39; is not text" in answer.text


def test_what_the_cluster_names_itself_is_escaped(get: Any) -> None:
    page = get(Run().ready().url).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_page_refreshes_only_while_something_runs(get: Any) -> None:
    run = Run().ready()
    assert "refresh.js" not in get(run.url).text
    write_json(run.folder, DECISION, samples.decision())
    write_json(run.folder, "batches.json", samples.batches())
    write_json(run.folder, PROGRESS, samples.progress())
    assert "refresh.js" in get(run.url).text
    write_json(run.folder, VERIFICATION, samples.verification(passed=True))
    assert "refresh.js" not in get(run.url).text
    over = Run(state="failed").ready()
    write_json(over.folder, DECISION, samples.decision())
    assert "refresh.js" not in get(over.url).text


@pytest.mark.parametrize("user", ["vera", None])
@pytest.mark.parametrize("path", ["run/kafka_rebalance/x", "static/report.css", "static/other", "nothing"])
def test_every_answer_carries_the_strict_headers(get: Any, path: str, user: str | None) -> None:
    answer = get(f"/kafka-rebalance/{path}", user=user)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_keeps_to_its_own_policy(get: Any) -> None:
    run = Run().ready()
    write_json(run.folder, DECISION, samples.decision())
    page = get(run.url).text
    assert " style=" not in page
    assert "<style" not in page
    assert "<script>" not in page
    assert not re.search(r"<[^>]*\son\w+=", page)


@pytest.mark.parametrize("name", ["../page.py", "..%2Fpage.py", "report.html", "%2Fetc%2Fpasswd", "report.css.bak"])
def test_only_the_pages_own_files_are_served(get: Any, name: str) -> None:
    assert get(f"/kafka-rebalance/static/{name}").status_code == 404


@pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json"])
def test_the_app_does_not_describe_itself(get: Any, path: str) -> None:
    assert get(f"/kafka-rebalance/{path}").status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_only_get_is_answered(client: TestClient, login: dict[str, dict[str, str]], method: str) -> None:
    for path in (Run().ready().url, "/kafka-rebalance/static/report.css"):
        assert client.request(method, path, headers=login["admin"]).status_code == 405


def test_every_route_asks_for_the_user() -> None:
    for route in web.create_app().routes:
        calls = [dependency.call for dependency in route.dependant.dependencies]
        assert web.get_user in calls, route.path
        assert route.methods == {"GET"}, route.path


def test_behind_a_prefix_the_page_finds_its_files(
    client: TestClient, login: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/team/airflow/")
    behind = TestClient(client.app, root_path="/team/airflow")
    answer = behind.get(f"/team/airflow{Run().ready().url}", headers=login["vera"])
    assert answer.status_code == 200
    style = "/team/airflow/kafka-rebalance/static/report.css"
    assert f'href="{style}"' in answer.text
    assert behind.get(style, headers=login["vera"]).headers["content-type"].startswith("text/css")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("airflow.api_fastapi.auth.managers.models.resource_details", "DagAccessEntity"),
        ("airflow.api_fastapi.common.db.common", "SessionDep"),
        ("airflow.api_fastapi.core_api.security", "get_user"),
        ("airflow.api_fastapi.core_api.security", "requires_access_dag"),
        ("airflow.models.dagrun", "DagRun"),
        ("airflow.models.taskinstance", "TaskInstance"),
        ("airflow.models.xcom", "XComModel"),
    ],
)
def test_what_we_use_of_airflow_beyond_its_public_interface_is_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)
    assert f"from {module} import" in inspect.getsource(web), "keep this list like the module's imports"


def test_the_permission_check_still_reads_the_dag_from_the_path() -> None:
    # The whole protection hangs on this name; Airflow's own routes use it the same way.
    assert 'path_params.get("dag_id")' in inspect.getsource(web.requires_access_dag)
