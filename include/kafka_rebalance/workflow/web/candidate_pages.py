"""The parts that the run's tab fetches on demand: all moves and brokers of a candidate, as pages and as files.

The app has checked login and permission.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from sqlalchemy.orm import Session

from kafka_rebalance.documents.json_files import PROPOSALS, SNAPSHOT, read_json, read_json_if_there
from kafka_rebalance.pages.broker_loads import BROKER_SORTS, brokers_page
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.csv_files import brokers_csv, brokers_file, moves_file
from kafka_rebalance.pages.page import plot_picture, render_brokers, render_candidate, render_moves
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.search_query import SORTS, Query
from kafka_rebalance.rebalance import plan_tables
from kafka_rebalance.rebalance.read_report import read_report
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.workflow.urls import run_page_url, static_url
from kafka_rebalance.workflow.web.run_page import NotServed, answered, download, open_folder

CSV = "text/csv; charset=utf-8; header=present"


@answered
def moves_page(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """The result of a search among a candidate's moves, or a page that says why there is none."""
    folder, _ = open_folder(dag_id, run_id, session)
    query = Query.of(request.query_params, SORTS)
    plan = _plan(folder)
    if query.candidate not in (candidate["name"] for candidate in plan["candidates"]):
        raise _unknown(query.candidate)
    found = plan_tables.read_move_table(folder, plan, query.candidate).search(query)
    connection_id = read_json(folder, SNAPSHOT)["connection_id"]
    return HTMLResponse(render_moves(found, connection_id, query.candidate, **_urls(dag_id, run_id)))


@answered
def brokers_table(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """A page of all brokers of a candidate."""
    folder, _ = open_folder(dag_id, run_id, session)
    query = Query.of(request.query_params, BROKER_SORTS)
    report, candidate = _candidate(folder, query.candidate)
    found = brokers_page(candidate.brokers, query)
    return HTMLResponse(render_brokers(found, report.connection_id, query.candidate, **_urls(dag_id, run_id)))


@answered
def candidate_page(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """Brokers and moves of a candidate other than the one on the run's page."""
    folder, _ = open_folder(dag_id, run_id, session)
    report, candidate = _candidate(folder, request.query_params.get("candidate", ""))
    return HTMLResponse(render_candidate(report, candidate, **_urls(dag_id, run_id)))


@answered
def plot_file(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """One of a candidate's pictures. It is drawn when a page asks for it, so no page waits for it."""
    folder, _ = open_folder(dag_id, run_id, session)
    _, candidate = _candidate(folder, request.query_params.get("candidate", ""))
    drawn = plot_picture(candidate, request.query_params.get("number", ""))
    if drawn is None:
        raise NotServed(404, "There is no such picture", "The page of this run has fewer pictures.")
    return Response(drawn, media_type="image/svg+xml")


@answered
def table_file(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """All moves or all brokers of a candidate as CSV, for download."""
    folder, _ = open_folder(dag_id, run_id, session)
    name = request.path_params["name"]
    headers = download(f"{read_json(folder, SNAPSHOT)['connection_id']}-{name}")
    plan = _plan(folder)
    for candidate in (one["name"] for one in plan["candidates"]):
        if name == moves_file(candidate):
            rows = plan_tables.read_move_table(folder, plan, candidate).csv()
            return StreamingResponse(rows, media_type=CSV, headers=headers)
        if name == brokers_file(candidate):
            return Response(brokers_csv(_candidate(folder, candidate)[1].brokers), media_type=CSV, headers=headers)
    raise NotServed(404, "There is no such file", "No candidate of this run has a file of this name.")


def _urls(dag_id: str, run_id: str) -> dict[str, Any]:
    return {"static_url": static_url(), "run_url": run_page_url(dag_id, run_id)}


def _plan(folder: RunFolder) -> dict[str, Any]:
    found = read_json_if_there(folder, PROPOSALS)
    if found is None:
        raise NotServed(404, "No plan yet", "The task plan has not written this run's candidates.")
    return found


def _candidate(folder: RunFolder, name: str) -> tuple[RunReport, CandidateReport]:
    report = read_report(folder, for_page=True)
    for candidate in report.candidates:
        if candidate.name == name:
            return report, candidate
    raise _unknown(name)


def _unknown(name: str) -> NotServed:
    return NotServed(404, "There is no such candidate", f"This run has no candidate {name!r}.")
