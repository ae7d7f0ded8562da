"""The downloads of a run's tab: every candidate and its way back in Kafka's JSON, for those who may see the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import get_auth_manager

from kafka_rebalance.documents.json_files import PROPOSALS, write_json
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.kafka.reassignment_json import parse_reassignment
from kafka_rebalance.rebalance import report
from support.airflow.airflow_home import RUNS
from support.airflow.web_run import NONCE_VALUE, Run
from support.documents import report_samples as samples

pytestmark = pytest.mark.usefixtures("tables")

MOVES = samples.all_moves(samples.HOSTILE)


def url_of(run: Run, name: str) -> str:
    return f"{run.url}/reassignments/{name}"


@pytest.mark.parametrize("name", MOVES)
def test_a_candidate_and_its_way_back_are_downloaded_in_kafkas_json(get: Any, name: str) -> None:
    run = Run().ready()
    forth, back = (get(url_of(run, f"{name}{end}.json")) for end in ("", "-rollback"))
    assert forth.status_code == back.status_code == 200
    assert parse_reassignment(forth.text) == {move.topic_partition: move.after for move in MOVES[name]}
    assert parse_reassignment(back.text) == {move.topic_partition: move.before for move in MOVES[name]}
    assert forth.headers["content-disposition"] == f'attachment; filename="orders-prod-{name}.json"'
    assert back.headers["content-disposition"] == f'attachment; filename="orders-prod-{name}-rollback.json"'


def test_a_download_is_data_to_every_browser_whatever_topics_are_named(get: Any) -> None:
    answer = get(url_of(Run().ready(), "balanced.json"))
    assert "<script>" in answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert answer.headers["cache-control"] == "no-store"


def test_every_link_of_the_page_leads_to_a_download(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/team/airflow/")
    page = get(Run().ready().url).text
    links = re.findall(r'<a href="([^"]+)" download ', page)
    assert len([link for link in links if link.endswith(".json")]) == 2 * len(MOVES)
    assert len([link for link in links if link.endswith(".csv")]) == 2
    for link in links:
        assert link.startswith("/team/airflow/kafka-rebalance/run/")
        answer = get(link.removeprefix("/team/airflow"))
        assert answer.status_code == 200
        assert answer.headers["content-disposition"].startswith("attachment;")


@pytest.mark.parametrize(("user", "status"), [(None, 401), ("nora", 403)])
def test_a_download_needs_a_login_and_permission_for_the_dag(get: Any, user: str | None, status: int) -> None:
    answer = get(url_of(Run().ready(), "balanced.json"), user=user)
    assert answer.status_code == status
    assert "partitions" not in answer.text


def test_the_permission_is_asked_for_the_dag_of_the_path(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def none(self: Any, *, method: str, access_entity: Any, details: Any, **_: Any) -> bool:
        asked.append((method, access_entity.name, details.id))
        return False

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_dag", none)
    assert get(url_of(Run().ready(), "balanced.json"), user="admin").status_code == 403
    assert asked == [("GET", "XCOM", "kafka_rebalance")]


@pytest.mark.parametrize(
    "name",
    [
        "optimal.json",
        "balanced",
        "balanced.json.bak",
        "balanced-rollback-rollback.json",
        "decision.json",
        "..%2Fproposals.json",
        "%2e%2e%2fsnapshot.json",
        "..%5Cproposals.json",
        "balanced.json%00",
        "%2Fetc%2Fpasswd",
    ],
)
def test_only_files_of_candidates_that_exist_are_given(get: Any, name: str) -> None:
    answer = get(url_of(Run().ready(), name))
    assert answer.status_code == 404
    assert "content-disposition" not in answer.headers


def test_a_candidate_that_moves_nothing_has_no_download(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MOVES, "light", ())
    monkeypatch.setattr(report, "read_candidate", lambda folder, name: type("Candidate", (), {"moves": MOVES[name]}))
    assert get(url_of(Run().ready(), "light.json")).status_code == 404


def test_before_there_is_a_snapshot_or_a_plan_there_is_nothing_to_download(get: Any) -> None:
    assert get(url_of(Run().with_tasks("snapshot", "read_report"), "balanced.json")).status_code == 404
    unplanned = Run().ready()
    (unplanned.folder / PROPOSALS).unlink()
    assert get(url_of(unplanned, "balanced.json")).status_code == 404


def test_nothing_is_given_of_another_runs_folder_or_from_outside_the_root(get: Any) -> None:
    other = Run("kafka_rebalance_of_another_team").ready()
    elsewhere = RUNS.parent / "elsewhere"
    for folder in (other.folder, elsewhere):
        run = Run().with_tasks("snapshot").with_xcom(run_folder=str(folder), nonce=NONCE_VALUE)
        answer = get(url_of(run, "balanced.json"))
        assert answer.status_code == 403
        assert "replicas" not in answer.text


def test_moves_that_are_no_longer_the_proposed_ones_are_not_given(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(folder: Path, name: str) -> None:
        raise ArtifactError(f"The moves of candidate {name!r} have another digest")

    monkeypatch.setattr(report, "read_candidate", changed)
    answer = get(url_of(Run().ready(), "balanced.json"))
    assert answer.status_code == 503
    assert "another digest" in answer.text


def test_a_file_that_somebody_changed_in_the_folder_is_not_what_is_given(get: Any) -> None:
    run = Run().ready()
    (run.folder / "reassignments").mkdir()
    write_json(run.folder / "reassignments", "balanced.json", {"version": 1, "partitions": []})
    assert len(parse_reassignment(get(url_of(run, "balanced.json")).text)) == len(MOVES["balanced"])
