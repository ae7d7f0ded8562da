"""The tab of a run, served by the real Airflow app with the Simple auth manager and a database of its own."""

from __future__ import annotations

import importlib
import inspect
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

from kafka_rebalance.documents.json_files import (
    CANCELLED,
    CONTROL,
    DECISION,
    PROGRESS,
    PROPOSALS,
    VERIFICATION,
    write_json,
)
from kafka_rebalance.pages.run_state import RunState
from kafka_rebalance.workflow.web import app, run_records
from support.airflow.airflow_home import RUNS
from support.airflow.web_run import NONCE_VALUE, SECRET, Run, waiting
from support.documents import report_samples as samples

pytestmark = pytest.mark.usefixtures("tables")


def test_a_viewer_sees_the_report_of_a_run(get: Any) -> None:
    run = Run().ready()
    answer = get(run.url)
    assert answer.status_code == 200, answer.text
    assert RunState.PLANNED.sentence in answer.text
    waiting(run)
    answer = get(run.url)
    assert "Waits for approval" in answer.text
    assert SECRET in answer.text


def test_who_cancelled_is_told_though_somebody_wrote_over_it_in_control_json(get: Any) -> None:
    run, at = Run().ready(), "2026-05-03T15:05:00+00:00"
    write_json(run.folder, DECISION, samples.decision())
    write_json(run.folder, CONTROL, {"stop_after_batch": {"by": "olive", "at": at}, "cancelled": None})
    write_json(run.folder, CANCELLED, {"cancelled": {"by": "omar", "at": at}})
    page = get(run.url).text
    assert "olive asked for no further batch" in page
    assert "omar cancelled the run" in page


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
    assert not re.search(r"elsewhere|/tmp|" + re.escape(str(RUNS)), answer.text)


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
    assert ("is of another attempt or run" if found else "is gone") in answer.text
    assert str(RUNS) not in answer.text
    assert SECRET not in answer.text


def test_a_broken_file_is_named(get: Any) -> None:
    run = Run().ready()
    (run.folder / DECISION).write_text('{"format_version": 1, "choice": 3}')
    answer = get(run.url)
    assert answer.status_code == 503
    assert "decision.json: choice: Expected str | null, got int" in answer.text


def test_what_the_cluster_names_itself_is_escaped(get: Any) -> None:
    page = get(Run().ready().url).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_page_asks_for_news_while_something_runs_or_somebody_is_to_answer(get: Any) -> None:
    run = Run().ready()
    waiting(run)
    assert 'data-seconds="15" data-note="Updates by itself once somebody answers."' in get(run.url).text
    assert "refresh.js" in get(run.url).text
    write_json(run.folder, DECISION, samples.decision())
    write_json(run.folder, "batches.json", samples.batches())
    write_json(run.folder, PROGRESS, samples.progress())
    assert 'data-seconds="5" data-note="Updates every 5 s."' in get(run.url).text
    assert "refresh.js" in get(run.url).text
    write_json(run.folder, VERIFICATION, samples.verification(passed=True))
    assert "refresh.js" not in get(run.url).text
    nothing = Run().ready()
    plan = samples.proposals()
    for candidate in plan["candidates"]:
        candidate["status"] = "infeasible"
    write_json(nothing.folder, PROPOSALS, plan)
    assert 'data-note="Updates by itself when the run ends."' in get(nothing.url).text, "nobody is asked"
    over = Run(state="failed").ready()
    assert "refresh.js" not in get(over.url).text
    write_json(over.folder, DECISION, samples.decision())
    assert "refresh.js" not in get(over.url).text


def test_a_page_that_waits_is_sent_again_only_when_it_has_changed(
    get: Any, client: TestClient, login: dict[str, dict[str, str]]
) -> None:
    run = Run().ready()
    first = get(run.url)
    for known in (first.headers["etag"], f"W/{first.headers['etag']}"):
        same = client.get(run.url, headers=login["vera"] | {"If-None-Match": known})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["cache-control"] == "no-store"
    assert client.get(run.url, headers={"If-None-Match": first.headers["etag"]}).status_code == 401
    write_json(run.folder, DECISION, samples.decision("Reject", digest=None))
    changed = client.get(run.url, headers=login["vera"] | {"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert "Rejected: nothing was written to the cluster" in changed.text
    assert changed.headers["etag"] != first.headers["etag"]


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_paused_dag_and_a_freeze_are_said_where_a_run_stands(
    get: Any, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    run = Run().ready()
    if has_begun:
        write_json(run.folder, DECISION, samples.decision())
        write_json(run.folder, "batches.json", samples.batches())
    monkeypatch.setattr(run_records, "is_paused", lambda session, dag_id: False)
    assert "is paused" not in get(run.url).text
    monkeypatch.setattr(run_records, "is_paused", lambda session, dag_id: True)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", '["orders-prod"]')
    assert "is paused" not in get(Run(state="failed").ready().url).text
    standing = get(run.url).text.partition('<div id="standing"')[2].partition("</div>")[0]
    assert "The Dag kafka_rebalance is paused" in standing
    assert "Frozen by the Variable kafka_rebalance_freeze" in standing
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "perhaps")
    assert "it must be JSON" in get(run.url).text


def test_a_dag_that_airflow_does_not_know_is_not_paused() -> None:
    with create_session() as session:
        assert run_records.is_paused(session, "nobody's") is False


def test_a_proposal_says_which_newer_run_of_its_cluster_waits_or_has_moved_since(get: Any) -> None:
    old, newer = attempt("orders-prod"), attempt("orders-prod")
    attempt("another-cluster")
    assert f"A newer proposal for this cluster waits in run {newer.run_id.partition('+')[0]}" in get(old.url).text
    write_json(newer.folder, "batches.json", samples.batches())
    assert "Superseded: the newer run" in get(old.url).text
    assert "newer" not in get(newer.url).text


def attempt(cluster: str) -> Run:
    """A run whose folder lies where ours are made: cluster, run, attempt."""
    run = Run()
    run.folder = RUNS / cluster / uuid.uuid4().hex / "1"
    return run.ready()


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ((), "Ended without a decision: nothing was written to the cluster"),
        ((DECISION,), "Approved, but the run ended before it requested anything from Kafka"),
        ((DECISION, "batches.json"), "the run ended before it verified the end"),
    ],
)
def test_a_run_that_airflow_has_ended_does_not_look_as_if_it_went_on(
    get: Any, documents: tuple[str, ...], words: str
) -> None:
    run = Run(state="failed").ready()
    for name in documents:
        write_json(run.folder, name, {DECISION: samples.decision(), "batches.json": samples.batches()}[name])
    assert words in get(run.url).text


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
    routes: list[Any] = app.create_app().routes
    for route in routes:
        calls = [dependency.call for dependency in route.dependant.dependencies]
        assert app.get_user in calls, route.path
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
        ("airflow.api_fastapi.core_api.security", "GetUserDep"),
        ("airflow.api_fastapi.core_api.security", "get_user"),
        ("airflow.api_fastapi.core_api.security", "requires_access_dag"),
        ("airflow.models.dag", "DagModel"),
        ("airflow.models.dagrun", "DagRun"),
        ("airflow.models.hitl", "HITLDetail"),
        ("airflow.models.taskinstance", "TaskInstance"),
        ("airflow.models.variable", "Variable"),
        ("airflow.models.xcom", "XComModel"),
        ("airflow.utils.state", "TaskInstanceState"),
    ],
)
def test_what_we_use_of_airflow_beyond_its_public_interface_is_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)
    sources = inspect.getsource(app) + inspect.getsource(run_records)
    assert f"from {module} import" in sources, "keep this list like the modules' imports"


def test_the_permission_check_still_reads_the_dag_from_the_path() -> None:
    # The whole protection hangs on this name; Airflow's own routes use it the same way.
    assert 'path_params.get("dag_id")' in inspect.getsource(app.requires_access_dag)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_overview_answers_get_alone(client: TestClient, login: dict[str, dict[str, str]], method: str) -> None:
    assert client.request(method, "/kafka-rebalance/clusters", headers=login["admin"]).status_code == 405
