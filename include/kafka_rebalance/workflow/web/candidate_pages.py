"""What the run's tab fetches on demand: all moves and brokers of a candidate, in pages and as files.

Like the tab itself: the app has checked login and permission.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import HTMLResponse, Response, StreamingResponse
from sqlalchemy.orm import Session

from kafka_rebalance.documents.json_files import PROPOSALS, SNAPSHOT, read_json, read_json_if_there
from kafka_rebalance.report.candidate.broker_loads import BROKER_SORTS, brokers_page
from kafka_rebalance.report.candidate.candidate_report import CandidateReport
from kafka_rebalance.report.candidate.csv_files import brokers_csv, brokers_file, moves_file
from kafka_rebalance.report.candidate.search_query import SORTS, Query
from kafka_rebalance.report.page import plot_picture, render_brokers, render_candidate, render_moves
from kafka_rebalance.report.run.run_report import RunReport
from kafka_rebalance.steps.rebalance import plan_tables
from kafka_rebalance.steps.rebalance.read_report import read_report
from kafka_rebalance.steps.run_folder import RunFolder
from kafka_rebalance.workflow.urls import run_page_url, static_url
from kafka_rebalance.workflow.web.run_page import NotServed, answered, download, open_planned

CSV = "text/csv; charset=utf-8; header=present"


@answered
def moves_page(dag_id: str, run_id: str, asked: Mapping[str, str], session: Session) -> HTMLResponse:
    """What a search of a candidate's moves finds, or a page that says in words why nothing is shown."""
    folder = open_planned(dag_id, run_id, session)
    query = Query.of(asked, SORTS)
    found = _moves(folder, query.candidate).search(query)
    connection_id, urls = read_json(folder, SNAPSHOT)["connection_id"], _urls(dag_id, run_id)
    return HTMLResponse(render_moves(found, connection_id, query.candidate, **urls))


@answered
def brokers_table(dag_id: str, run_id: str, asked: Mapping[str, str], session: Session) -> HTMLResponse:
    """A page of all brokers of a candidate."""
    folder = open_planned(dag_id, run_id, session)
    query = Query.of(asked, BROKER_SORTS)
    report, candidate = _candidate(folder, query.candidate)
    found = brokers_page(candidate.brokers, query)
    return HTMLResponse(render_brokers(found, report.connection_id, query.candidate, **_urls(dag_id, run_id)))


@answered
def candidate_page(dag_id: str, run_id: str, name: str, session: Session) -> HTMLResponse:
    """Brokers and moves of a candidate that is not the one that the run's page is about."""
    report, candidate = _candidate(open_planned(dag_id, run_id, session), name)
    return HTMLResponse(render_candidate(report, candidate, **_urls(dag_id, run_id)))


@answered
def plot_file(dag_id: str, run_id: str, asked: Mapping[str, str], session: Session) -> Response:
    """One of a candidate's pictures: drawn when a page has asked for it, so that no page waits for them."""
    _, candidate = _candidate(open_planned(dag_id, run_id, session), asked.get("candidate", ""))
    number = asked.get("number", "")
    drawn = plot_picture(candidate, int(number)) if number in ("0", "1", "2", "3", "4") else None
    if drawn is None:
        raise NotServed(404, "There is no such picture", "The page of this run has fewer.")
    return Response(drawn, media_type="image/svg+xml")


@answered
def table_file(dag_id: str, run_id: str, name: str, session: Session) -> Response:
    """All moves, or all brokers, of a candidate as CSV, as a download."""
    folder = open_planned(dag_id, run_id, session)
    headers = download(f"{read_json(folder, SNAPSHOT)['connection_id']}-{name}")
    plan = _plan(folder)
    for candidate in (one["name"] for one in plan["candidates"]):
        if name == moves_file(candidate):
            rows = plan_tables.read_move_table(folder, plan, candidate).csv()
            return StreamingResponse(rows, media_type=CSV, headers=headers)
        if name == brokers_file(candidate):
            return Response(brokers_csv(_candidate(folder, candidate)[1].brokers), media_type=CSV, headers=headers)
    raise NotServed(404, "There is no such file", "It is not of a candidate of this run.")


def _urls(dag_id: str, run_id: str) -> dict[str, Any]:
    return {"static_url": static_url(), "run_url": run_page_url(dag_id, run_id)}


def _plan(folder: RunFolder) -> dict[str, Any]:
    found = read_json_if_there(folder, PROPOSALS)
    if found is None:
        raise NotServed(404, "No plan yet", "The task plan has not written this run's candidates.")
    return found


def _moves(folder: RunFolder, name: str) -> Any:
    plan = _plan(folder)
    if name not in (candidate["name"] for candidate in plan["candidates"]):
        raise _unknown(name)
    return plan_tables.read_move_table(folder, plan, name)


def _candidate(folder: RunFolder, name: str) -> tuple[RunReport, CandidateReport]:
    report = read_report(folder, for_page=True)
    for candidate in report.candidates:
        if candidate.name == name:
            return report, candidate
    raise _unknown(name)


def _unknown(name: str) -> NotServed:
    return NotServed(404, "There is no such candidate", f"This run has no candidate {name!r}.")
