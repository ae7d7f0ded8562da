"""What a run's page and its request fetch by themselves: the plan against its cluster, and the request's picture."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import update

from kafka_rebalance.dags.kafka_rebalance_cancel_dag import ACTIONS
from kafka_rebalance.documents.json_files import BATCHES, DECISION, PROPOSALS, write_json
from kafka_rebalance.errors import ReadError
from kafka_rebalance.log_dirs.page import LogDirState
from kafka_rebalance.pages.page import CandidateDrift, DriftReport
from kafka_rebalance.pages.run_state import Action, RunState
from kafka_rebalance.rebalance import drift
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.read_in_time import Reads
from kafka_rebalance.workflow.web import run_page as run_pages
from support.airflow.airflow_home import RUNS
from support.airflow.log_dir_stages import LogDirCase
from support.airflow.web_run import Run, waiting
from support.documents import report_samples as samples

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

pytestmark = pytest.mark.usefixtures("tables")

NOW = datetime(2026, 5, 3, 15, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "_reads", Reads(drift.AT_ONCE, drift.KEPT_SECONDS))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that were compared, all alike."""
    folders: list[Path] = []
    bad = f"{samples.HOSTILE}-0: replicas are now [3, 1]"

    def read(_: Deployment, folder: Path) -> DriftReport:
        folders.append(folder)
        one = CandidateDrift("balanced", 30, 3, 1, (bad,), ("broker 2: it has registered again",))
        return DriftReport(NOW - timedelta(minutes=28), NOW, (one,), ("controller: there is none. Wait",), True)

    monkeypatch.setattr(drift, "read_drift", read)
    return folders


def test_the_page_of_a_run_that_waits_asks_for_what_has_changed(
    get: Any, asked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/team/airflow/")
    run = Run().ready()
    page = get(run.url).text
    assert f'data-url="/team/airflow{run.url}/drift"' in page
    assert "drift.js" in page
    assert asked == []
    answer = get(f"{run.url}/drift")
    assert answer.status_code == 200
    text = answer.text.replace("\N{NO-BREAK SPACE}", " ")
    for words in ("28 min after the snapshot", "1 move in conflict", "30 moves unchanged", "3 changed without harm"):
        assert words in text, words
    assert "This would stop the first write now: controller: there is none" in text
    assert "<script>alert" not in text
    assert asked == [run.folder]


def test_what_was_looked_at_is_said_and_what_is_checked_only_later(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = DriftReport(NOW - timedelta(minutes=28), NOW, (CandidateDrift("balanced", 34, 0, 0, (), ()),), (), True)
    monkeypatch.setattr(drift, "read_drift", lambda *_: found)
    text = get(f"{Run().ready().url}/drift").text
    assert "Brokers, controller and open requests are ready for the first write." in text
    assert "Before its first write the run also checks the freeze, the policy and the age of the approval." in text


@pytest.mark.parametrize(("user", "status"), [(None, 401), ("nora", 403)])
def test_nobody_without_permission_makes_the_server_ask_a_cluster(
    get: Any, asked: list[Path], user: str | None, status: int
) -> None:
    assert get(f"{Run().ready().url}/drift", user=user).status_code == status
    assert asked == []


def test_once_a_batch_was_requested_there_is_nothing_to_compare(get: Any, asked: list[Path]) -> None:
    run = Run().ready()
    write_json(run.folder, DECISION, samples.decision())
    write_json(run.folder, BATCHES, {"batches": []})  # the run has stopped before its first one
    assert "drift.js" in get(run.url).text
    assert "The run has requested its first batch" not in get(f"{run.url}/drift").text
    asked.clear()
    write_json(run.folder, BATCHES, samples.batches())
    assert "drift.js" not in get(run.url).text
    answer = get(f"{run.url}/drift")  # which a page asks for that was made before the batch
    assert answer.status_code == 200
    assert "The run has requested its first batch" in answer.text
    assert "Look again" not in answer.text
    assert 'data-again="no"' in answer.text
    assert get("/kafka-rebalance/run/kafka_rebalance/nothing/drift").status_code == 404
    assert asked == []


@pytest.mark.parametrize("choice", [None, "balanced", "Reject"])
def test_of_a_run_that_is_over_no_cluster_is_asked(get: Any, asked: list[Path], choice: str | None) -> None:
    run = Run(state="success" if choice == "Reject" else "failed").ready()
    if choice is not None:
        write_json(run.folder, DECISION, samples.decision(choice))
    assert "drift.js" not in get(run.url).text
    answer = get(f"{run.url}/drift")
    assert answer.status_code == 200
    assert "The run is over" in answer.text
    assert "Look again" not in answer.text
    assert asked == []


def test_a_cluster_that_cannot_be_read_from_here_is_said_so_without_a_trace(
    get: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> DriftReport:
        raise ReadError("ZooKeeper zk1:2181 cannot be read (ConnectionLoss).")

    monkeypatch.setattr(drift, "read_drift", fail)
    answer = get(f"{Run().ready().url}/drift")
    assert answer.status_code == 200
    assert "Airflow&#39;s API server cannot read the cluster" in answer.text.replace("'", "&#39;")
    assert "The run checks that before its first write" in answer.text
    assert "ConnectionLoss" in answer.text
    assert "Traceback" not in answer.text


def test_a_file_that_cannot_be_read_is_named_without_where_the_server_keeps_it(get: Any) -> None:
    run = Run().ready()
    text = get(f"{run.url}/drift").text
    assert "moves/part" in text
    assert str(RUNS) not in text
    (run.folder / PROPOSALS).write_text("{")
    assert "proposals.json is not JSON" in get(run.url).text
    assert str(RUNS) not in get(run.url).text


def test_nobody_waits_for_a_cluster_that_hangs(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(drift, "read_drift", lambda *_: go_on.wait(10))
    monkeypatch.setattr(run_pages, "drift_now", lambda deployment, folder: drift.drift_now(deployment, folder, 0))
    answer = get(f"{Run().ready().url}/drift")
    go_on.set()
    assert "has not answered within 5\N{NO-BREAK SPACE}s" in answer.text
    assert 'data-again="yes"' in answer.text


# --- the picture


def test_the_picture_is_an_svg_without_a_script_under_the_strict_policy(get: Any) -> None:
    answer = get(f"{Run().ready().url}/brokers.svg")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert not [one for one in ElementTree.fromstring(answer.content).iter() if one.tag.endswith("script")]


@pytest.mark.parametrize(("user", "status"), [(None, 401), ("nora", 403)])
def test_the_picture_needs_a_login_and_permission_for_the_dag(get: Any, user: str | None, status: int) -> None:
    assert get(f"{Run().ready().url}/brokers.svg", user=user).status_code == status


def test_without_a_plan_there_is_no_picture(get: Any) -> None:
    run = Run().ready()
    (run.folder / PROPOSALS).unlink()
    assert get(f"{run.url}/brokers.svg").status_code == 404
    assert get("/kafka-rebalance/run/kafka_rebalance/nothing/brokers.svg").status_code == 404


def test_an_action_that_is_not_done_in_airflow_itself_is_one_of_the_cancel_dag() -> None:
    in_airflow = {
        Action.ANSWER, Action.ASK_AGAIN, Action.GO_ON, Action.VERIFY_AGAIN, Action.START_ANEW, Action.FIND_CAUSE,
        Action.GIVE_BACK,
    }  # fmt: skip
    assert {action for state in RunState for action in state.actions} - in_airflow <= set(ACTIONS)


@pytest.mark.parametrize(
    "planned",
    [lambda state: Run(state=state).ready(), lambda state: LogDirCase(LogDirState.PLANNED, state).run()],
    ids=["rebalance", "log dirs"],
)
@pytest.mark.parametrize("state", ["failed", "running"])
def test_an_answer_that_came_after_the_expiry_is_named(
    get: Any, client: TestClient, login: dict[str, dict[str, str]], planned: Callable[[str], Run], state: str
) -> None:
    """Airflow takes it without a word, and its page shows it as the answer."""
    run = planned(state)
    waiting(run, assigned=None)
    ended = update(TaskInstance).where(TaskInstance.run_id == run.run_id, TaskInstance.task_id == "approve")
    with create_session() as session:
        session.execute(ended.values(state="failed"))
    write_json(run.folder, DECISION, {"choice": None, "expired": True})
    assert "does not count" not in get(run.url).text
    address = f"/api/v2/dags/{run.dag_id}/dagRuns/{quote(run.run_id, safe='')}/taskInstances/approve/-1/hitlDetails"
    reply = client.patch(address, json={"chosen_options": ["light"], "params_input": {}}, headers=login["admin"])
    assert reply.status_code == 200, reply.text
    said = get(run.url).text
    assert "admin answered “light” at " in said
    assert "does not count, and nothing was started by it" in said
    write_json(run.folder, DECISION, {"choice": "Reject", "digest": None})
    assert "does not count" not in get(run.url).text
