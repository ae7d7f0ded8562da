"""The page "Kafka balance", served by the real Airflow app: what is known of each cluster, and what is not."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import FolderOwner
from kafka_rebalance.documents.json_files import PROGRESS, VERDICT, VERIFICATION, write_json
from kafka_rebalance.pages import read_fleet
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.web import clusters_page
from support.airflow.airflow_home import RUNS
from support.airflow.web_fleet import CLUSTER, checked, forget_all, rebalanced
from support.airflow.web_run import Run, janitor_report, waiting
from support.airflow.web_stages import run_at
from support.documents import report_samples as samples

pytestmark = pytest.mark.usefixtures("tables")

URL = "/kafka-rebalance/clusters"


@pytest.fixture(autouse=True)
def _fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps([CLUSTER]))
    yield
    forget_all()


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)).replace("\N{NO-BREAK SPACE}", " ")


def test_who_may_read_the_rebalances_sees_the_fleet(get: Any) -> None:
    checked()
    answer = get(URL)
    assert answer.status_code == 200, answer.text
    seen = words(answer.text)
    for known in (
        "orders-prod",
        "1 error in segment settings",
        "31 % off their share, limit 20 %",
        "71 %, broker 4",
        "broker 2 (kafka-2.orders.example)",
        "31 %",
        "none of ours",
    ):
        assert known in seen, known


@pytest.mark.parametrize(("user", "status"), [(None, 401), ("nora", 403)])
def test_nobody_else_gets_anything(get: Any, user: str | None, status: int) -> None:
    checked()
    answer = get(URL, user=user)
    assert answer.status_code == status
    assert CLUSTER not in answer.text


def test_a_page_that_is_open_can_ask_whether_its_requests_are_still_the_open_ones(get: Any) -> None:
    first, second = rebalanced(), rebalanced()
    waiting(first)
    page = get(URL).text
    known = re.findall('data-known="([^"]+)"', page)
    assert f'data-url="{URL}/requests"' in page
    assert [get(f"{URL}/requests").text] == known
    waiting(second)
    asked = get(f"{URL}/requests").text
    assert asked not in known
    with create_session() as session:
        session.query(TaskInstance).filter_by(run_id=first.run_id).update({"state": "success"})
    assert get(f"{URL}/requests").text not in (asked, *known)
    assert first.run_id not in asked
    assert [get(f"{URL}/requests", user=user).status_code for user in (None, "nora")] == [401, 403]


def test_the_permission_is_asked_for_the_dag_that_rebalances(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(self: Any, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        asked.append((method, access_entity.name, details.id))
        return False

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_dag", refuse)
    assert get(f"{URL}?dag_id=mine", user="admin").status_code == 403
    assert asked == [("GET", "XCOM", "kafka_rebalance")]


def test_the_page_keeps_to_the_strict_policy_and_escapes_the_cluster(get: Any) -> None:
    checked(text=samples.HOSTILE)
    waiting(rebalanced(), samples.HOSTILE)
    answer = get(URL)
    assert "unsafe" not in answer.headers["content-security-policy"]
    for forbidden in ("<script>", " style=", "<style", "<script>alert"):
        assert forbidden not in answer.text, forbidden
    assert not re.search(r"<[^>]*\son\w+=", answer.text)
    assert answer.text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 4


def test_behind_a_prefix_every_link_stays_below_it(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/team/airflow/")
    checked()
    waiting(rebalanced())
    links = re.findall(r'(?:href|src)="([^"#]+)"', get(URL).text)
    assert len(links) > 4
    assert [link for link in links if not link.startswith("/team/airflow/")] == []


def test_each_run_and_request_leads_to_its_page(get: Any) -> None:
    run = rebalanced()
    waiting(run)
    page = get(URL).text
    assert f'href="{run.url}"' in page
    assert get(run.url).status_code == 200
    quoted = run.url.rpartition("/")[2]
    assert f'href="/dags/kafka_rebalance/runs/{quoted}/tasks/approve/required_actions" data-airflow' in page
    assert "omar may answer" in words(page)


@pytest.mark.parametrize(
    ("since", "health", "said"),
    [
        (timedelta(minutes=2), "ok", "Balanced, nothing to do"),
        (timedelta(hours=2), "act", "The janitor has stopped looking after it"),
        (None, "watch", "The janitor has not looked yet"),
    ],
)
def test_a_janitor_that_does_not_look_is_no_healthy_cluster(
    get: Any, since: timedelta | None, health: str, said: str
) -> None:
    checked(imbalance=0.1, segment_errors=0)
    if since is not None:
        janitor_report(CLUSTER, datetime.now(UTC) - since)
    page = get(URL).text
    assert f" {health} {said} " in words(page)
    assert f'class="pill {health}"' in page
    assert ("the janitor has not looked since" in words(page)) == (health == "act")


def test_what_the_janitor_found_is_shown_with_what_to_do_and_the_id_that_it_takes(get: Any) -> None:
    kept = {"id": "replica:3:orders-1", "text": "broker 3 has one", "remedy": "Stop it.", "can_be_cleaned": False}
    ticked = {"id": "config:old:7", "text": "a config is left", "remedy": "Tick it.", "can_be_cleaned": True}
    janitor_report(CLUSTER, datetime.now(UTC), findings=[kept, ticked])
    page = get(URL).text
    assert "The janitor has 2 findings" in words(page)
    assert "broker 3 has one. Stop it. " in words(page)
    assert "replica:3:orders-1" not in page
    assert "a config is left. Tick it. Value for clean : config:old:7" in words(page)


def also_asked(dag_id: str, subject: str, connection: str = CLUSTER) -> Run:
    """A run of another Dag of ours that waits for its approval."""
    run = Run(dag_id).with_tasks("snapshot").with_xcom(run_folder=str(RUNS / connection / uuid4().hex / "1"))
    waiting(run, subject)
    return run


def test_a_cancel_and_a_change_of_a_topic_that_wait_are_shown_at_their_cluster_too(get: Any) -> None:
    known = get(f"{URL}/requests").text
    cancel = also_asked("kafka_rebalance_cancel", "Cancel it now?")
    asked = get(f"{URL}/requests").text
    also_asked("kafka_topics", "Delete orders?")
    also_asked("kafka_topics", "Delete what is elsewhere?", connection="other")
    assert len({known, asked, get(f"{URL}/requests").text}) == 3
    page = get(URL).text
    assert "Cancel it now? omar may answer." in words(page)
    assert "Delete orders?" in page
    assert "elsewhere" not in page
    quoted = cancel.url.rpartition("/")[2]
    assert f'href="/dags/kafka_rebalance_cancel/runs/{quoted}/tasks/approve/required_actions" data-airflow' in page


def test_a_request_of_a_dag_that_one_may_not_read_is_not_shown(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    allows = type(get_auth_manager()).is_authorized_dag

    def but_topics(self: Any, *, details: Any = None, **asked: Any) -> bool:
        return details.id != "kafka_topics" and allows(self, details=details, **asked)

    known = get(f"{URL}/requests").text
    also_asked("kafka_topics", "Delete orders?")
    assert "Delete orders?" in get(URL).text
    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_dag", but_topics)
    assert get(f"{URL}/requests").text == known
    page = get(URL)
    assert page.status_code == 200
    assert "Delete orders?" not in page.text


def test_a_run_waits_also_for_who_may_not_read_its_request(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(rebalanced())
    allows = type(get_auth_manager()).is_authorized_dag

    def but_requests(self: Any, *, access_entity: Any = None, **asked: Any) -> bool:
        return access_entity is not DagAccessEntity.HITL_DETAIL and allows(self, access_entity=access_entity, **asked)

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_dag", but_requests)
    assert "waits for approval" in (page := words(get(URL).text))
    assert "omar may answer" not in page


PASSED, FAILED = samples.verification(passed=True), samples.verification(passed=False)
BEHIND = FAILED | {"again": True}
NONE_BEGUN = {"batches": [], "stopped": {"at": "2026-05-03T15:05:00+00:00", "why": "uma asked to stop"}}


@pytest.mark.parametrize(
    ("airflow_state", "documents", "ours", "differs"),
    [
        ("success", {"decision": samples.decision(), "verification": FAILED}, "verification failed", "by hand"),
        ("failed", {"decision": samples.decision(), "verification": PASSED}, "done and verified", "as failed"),
        ("success", {"decision": samples.decision(), "batches": samples.batches()}, "end not verified", "by hand"),
        ("running", {"decision": samples.decision(), "batches": samples.batches()}, "reassigning", ""),
        ("running", {"decision": samples.decision(), "verification": BEHIND}, "replicas not in sync yet", ""),
        ("failed", {"decision": samples.decision(), "verification": BEHIND}, "verification failed", ""),
        ("success", {"decision": {"choice": "Reject"}}, "rejected", ""),
        ("failed", {"decision": {"choice": None}}, "expired without an answer", ""),
        ("failed", {}, "ended without a decision", ""),
        ("failed", {"decision": samples.decision()}, "approved, ended before it began", ""),
        ("running", {"decision": samples.decision(), "batches": NONE_BEGUN}, "approved, not started", ""),
    ],
)
def test_our_state_of_a_run_is_shown_beside_airflows(
    get: Any, airflow_state: str, documents: dict[str, Any], ours: str, differs: str
) -> None:
    rebalanced(airflow_state, **documents)
    seen = words(get(URL).text)
    assert ours in seen
    assert ("Airflow has the run" in seen) == bool(differs)
    assert differs in seen


def test_a_broken_file_of_one_cluster_is_named_and_hides_no_other(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps([CLUSTER, "other"]))
    run = rebalanced()
    (run.folder / VERIFICATION).write_text("{")
    run_id = checked("other")
    folder = RUNS / CLUSTER / run_id / "1"
    folder.mkdir(parents=True)
    owner = FolderOwner("kafka_balance_check", run_id, CLUSTER, 1)
    json_files.write_json(folder, json_files.NONCE, {"nonce": run_id, "owner": owner})
    (folder / VERDICT).write_text('{"format_version": 9}')
    seen = words(get(URL).text)
    assert "its folder cannot be read" in seen
    assert f"The check of {run_id} cannot be read" in seen
    assert "unknown Its newest check cannot be read" in seen
    assert "31 % off their share" in seen
    assert seen.index(CLUSTER) < seen.index("other"), "what cannot be read comes first"


def test_a_folder_that_hangs_is_said_so_hides_no_other_and_is_not_asked_twice(
    get: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps(["hangs", "other"]))
    checked("other")
    asked, answers = [], threading.Event()
    read = read_fleet._newest_check

    def hang(deployment: Any, cluster: read_fleet.ClusterToRead, problems: list[Any]) -> Any:
        if cluster.connection_id == "hangs":
            asked.append(cluster.connection_id)
            answers.wait(60)
        return read(deployment, cluster, problems)

    monkeypatch.setattr(read_fleet, "_newest_check", hang)
    with create_session() as session:
        for _ in range(2):
            seen = clusters_page.read_overview(session, ["kafka_rebalance"], patience_seconds=0.2)
            by_name = {row.cluster.connection_id: row.cluster for row in seen.rows}
            assert "did not answer in time" in by_name["hangs"].problems[0].error
    assert asked == ["hangs"]
    answers.set()
    assert by_name["other"].check is not None


@pytest.mark.parametrize(
    ("variable", "said"),
    [('"one"', "must be a JSON list of connection ids"), ("[]", "Your first cluster, in three steps")],
)
def test_a_fleet_that_is_not_set_or_wrong_is_said_with_what_to_do(
    get: Any, monkeypatch: pytest.MonkeyPatch, variable: str, said: str
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", variable)
    answer = get(URL)
    assert answer.status_code == 200
    assert said in words(answer.text)


def test_a_check_that_failed_is_shown_although_an_older_one_is_there(get: Any) -> None:
    checked(observed_at=(datetime.now(UTC) - timedelta(days=2)).isoformat())
    run_id = checked(state="failed")
    page = get(URL).text
    assert "The last check failed" in words(page)
    assert f"/dags/kafka_balance_check/runs/{run_id}/tasks/cluster.check/mapped/0" in page


def test_a_file_of_the_ledger_that_cannot_be_read_is_said_and_the_others_are_drawn(get: Any) -> None:
    for skew in (0.31, 0.25):
        checked(skew={"disk": skew}, imbalance=0.1, segment_errors=0)
    janitor_report(CLUSTER, datetime.now(UTC))
    written = ledger.append(airflow_deployment(), "balance", CLUSTER, "broken", datetime.now(UTC), [])
    written.write_bytes(b"no parquet")
    page = get(URL).text
    assert "1 files of the ledger cannot be read" in words(page)
    assert "watch Some of its earlier checks cannot be read" in words(page)
    assert "over 2 checks in 30 days. The dashed line is the limit, 20 %" in words(page)
    drawn = re.findall(r'<polyline class="skew" points="([^"]+)"', page)
    assert [len(points.split()) for points in drawn] == [2, 2], "the worst resource, and the only one"
    assert f"Bytes on disk of {CLUSTER}: 31 %" in page.replace("\N{NO-BREAK SPACE}", " "), (
        "the numbers are there as text, too"
    )


def test_a_freeze_of_one_or_of_all_is_shown(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "frozen" not in words(get(URL).text).lower()
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", f'["{CLUSTER}"]')
    assert "Frozen: no rebalance writes" in words(get(URL).text)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "true")
    assert "All clusters are frozen" in words(get(URL).text)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "perhaps")
    assert "it must be JSON: true (all clusters), false, or a list" in words(get(URL).text)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", '["kafka-no-such"]')
    assert "but there is no Airflow connection of exactly this id" in words(get(URL).text)


def test_a_run_whose_folder_lies_outside_the_root_is_not_read(get: Any) -> None:
    run = Run().with_tasks("snapshot").with_xcom(run_folder=f"/elsewhere/{CLUSTER}/one/1", nonce="x")
    seen = words(get(URL).text)
    assert "its folder cannot be read" in seen
    assert "is not below runs_url" in seen
    assert run.url in get(URL).text


def test_a_run_that_failed_before_its_folder_is_shown_at_the_cluster_that_was_asked_for(get: Any) -> None:
    run = Run(state="failed")
    with create_session() as session:
        session.query(DagRun).filter_by(run_id=run.run_id).update({"conf": {"kafka_conn_id": CLUSTER}})
    assert "ended before there was a plan" in words(get(URL).text)


def test_a_request_in_a_folder_of_another_cluster_is_not_mixed_in(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps(["other"]))
    waiting(rebalanced(), "not for these eyes")
    assert "not for these eyes" not in get(URL).text


def test_the_web_server_asks_no_cluster(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the overview opened a connection to a cluster")

    monkeypatch.setattr("kafka_rebalance.zookeeper.client.Client", never)
    monkeypatch.setattr("kafka_rebalance.workflow.hooks.read_connection", never)
    checked()
    assert get(URL).status_code == 200


def test_how_far_a_run_is_comes_from_its_follower_and_cannot_be_guessed_without_it(get: Any) -> None:
    run = run_at("executing", RUNS / CLUSTER / uuid4().hex / "1")
    seen = words(get(URL).text)
    assert "71 % 12 min–2 h 35 min left" in seen
    assert "17 of 34 partitions, 205 GiB of 287 GiB" in seen
    write_json(run.folder, PROGRESS, samples.progress())
    assert "act Nobody has followed its run for" in words(get(URL).text)
    (run.folder / PROGRESS).write_text("{")
    seen = words(get(URL).text)
    assert "unknown Its last run cannot be read" in seen
    assert "71 %" not in seen
