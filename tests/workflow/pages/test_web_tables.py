"""What a run's tab fetches on demand: moves and brokers of a candidate, in pages and as CSV."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents.json_files import PROPOSALS
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.rebalance import report
from support.airflow.web_run import SECRET, Run
from support.documents import report_samples as samples

pytestmark = pytest.mark.usefixtures("tables")

MOVES = samples.all_moves(samples.HOSTILE)
PARTS = ("moves?candidate=balanced", "brokers?candidate=balanced", "candidate?candidate=light")
FILES = ("tables/moves-balanced.csv", "tables/brokers-balanced.csv", "plot?candidate=balanced&number=0")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_a_page_of_its_own_that_leads_back_to_the_run(get: Any, part: str) -> None:
    run = Run().ready()
    answer = get(f"{run.url}/{part}")
    assert answer.status_code == 200, answer.text
    assert "data-answer" in answer.text
    assert f'href="{run.url}"' in answer.text
    assert "<script>alert" not in answer.text
    assert "form-action 'self'" in answer.headers["content-security-policy"]
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", answer.text)


@pytest.mark.parametrize(("user", "status"), [(None, 401), ("nora", 403)])
@pytest.mark.parametrize("path", [*PARTS, *FILES])
def test_a_part_needs_a_login_and_permission_for_the_dag(get: Any, path: str, user: str | None, status: int) -> None:
    answer = get(f"{Run().ready().url}/{path}", user=user)
    assert answer.status_code == status
    assert SECRET not in answer.text
    assert "replicas" not in answer.text.lower()


@pytest.mark.parametrize("path", [*PARTS, *FILES])
def test_nothing_is_given_of_an_unknown_run_or_before_there_is_a_plan(get: Any, path: str) -> None:
    assert get(f"/kafka-rebalance/run/kafka_rebalance/nosuch/{path}").status_code == 404
    assert get(f"{Run().with_tasks('snapshot', 'render_report').url}/{path}").status_code == 404
    unplanned = Run().ready()
    (unplanned.folder / PROPOSALS).unlink()
    assert get(f"{unplanned.url}/{path}").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("moves", 404),
        ("moves?candidate=optimal", 404),
        ("moves?candidate=..%2F..%2Fdecision", 404),
        ("moves?candidate=%3Cscript%3Ealert(1)%3C%2Fscript%3E", 404),
        ("brokers?candidate=nosuch", 404),
        ("candidate?candidate=nosuch", 404),
        ("plot?candidate=nosuch&number=0", 404),
        ("plot?candidate=balanced&number=9", 404),
        ("plot?candidate=balanced&number=-1", 404),
        ("plot?candidate=balanced", 404),
        ("tables/moves-optimal.csv", 404),
        ("tables/moves-balanced.csv.bak", 404),
        ("tables/..%2Fproposals.json", 404),
        ("tables/%2Fetc%2Fpasswd", 404),
        ("moves?candidate=balanced&sort=%3Cscript%3E", 400),
        ("moves?candidate=balanced&page=0", 400),
        ("moves?candidate=balanced&page=two", 400),
        ("moves?candidate=balanced&group=-1", 400),
        ("moves?candidate=balanced&q=" + "x" * 201, 400),
        ("brokers?candidate=balanced&sort=bytes", 400),
    ],
)
def test_an_address_that_asks_for_nothing_there_is_gets_a_page_in_words(get: Any, path: str, status: int) -> None:
    answer = get(f"{Run().ready().url}/{path}")
    assert answer.status_code == status
    assert "<h1>" in answer.text
    assert "<script>" not in answer.text
    assert "content-disposition" not in answer.headers


def test_a_search_says_how_many_moves_it_finds_and_keeps_what_was_asked(get: Any) -> None:
    run = Run().ready()
    answer = get(f"{run.url}/moves", params={"candidate": "balanced", "q": "leaders", "sort": "batch"})
    found = [move for move in MOVES["balanced"] if "leaders" in move.reason]
    assert f"{len(found)} of {len(MOVES['balanced'])}\N{NO-BREAK SPACE}moves" in answer.text
    assert 'name="q" value="leaders"' in answer.text
    assert '<option value="batch" selected>' in answer.text
    hostile = get(f"{run.url}/moves", params={"candidate": "balanced", "q": '"><script>alert(1)</script>'}).text
    assert 'value="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in hostile


def test_every_link_of_the_page_and_its_parts_leads_to_something(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/team/airflow/")
    run = Run().ready()
    waiting, seen = [run.url], set()
    while waiting:
        answer = get(waiting.pop())
        assert answer.status_code == 200, answer.text
        if answer.headers["content-type"].startswith("image/svg+xml"):
            assert answer.text.startswith("<svg")
            continue
        if not answer.headers["content-type"].startswith("text/html"):
            assert answer.headers["content-disposition"].startswith("attachment;")
            continue
        for link in re.findall(r'(?:<a href|data-load|<img src)="([^"]+)"', answer.text):
            if not link.startswith("#") and link not in seen:
                assert link.startswith("/team/airflow/kafka-rebalance/run/"), link
                seen.add(link)
                waiting.append(unescape(link).removeprefix("/team/airflow"))
    parts = {re.sub(r"\?.*", "", link).rpartition("/")[2] for link in seen}
    assert {"moves", "candidate", "moves-balanced.csv", "brokers-light.csv"} <= parts


def test_all_moves_are_downloaded_as_csv_that_no_spreadsheet_computes(get: Any) -> None:
    answer = get(f"{Run().ready().url}/tables/moves-balanced.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert {(row["topic"], int(row["partition"])) for row in rows} == {
        tuple(move.topic_partition) for move in MOVES["balanced"]
    }
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="orders-prod-moves-balanced.csv"'
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_moves_that_are_no_longer_the_proposed_ones_are_not_searched(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(folder: Path, proposals: object, name: str) -> None:
        raise ArtifactError(f"The moves of candidate {name!r} have another digest")

    monkeypatch.setattr(report, "read_move_table", changed)
    for path in ("moves?candidate=balanced", "tables/moves-balanced.csv"):
        answer = get(f"{Run().ready().url}/{path}")
        assert answer.status_code == 503
        assert "another digest" in answer.text
