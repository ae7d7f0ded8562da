"""The tab of a Dag run, and what it fetches. The app has checked login and permission."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from sqlalchemy.orm import Session

from kafka_rebalance import clock
from kafka_rebalance.documents.folder_owner import read_folder_owner
from kafka_rebalance.documents.json_files import BATCHES, PROPOSALS
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.documents.storage import file_name, is_there
from kafka_rebalance.errors import InputError, ReadError, RebalanceError, RunFolderError, SettingsError
from kafka_rebalance.log_dirs.page import LogDirRun, LogDirState, read_log_dir_run, render_log_dirs
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.page import (
    InAirflow,
    picture,
    plot_picture,
    render_brokers,
    render_candidate,
    render_drift,
    render_moves,
    render_page,
)
from kafka_rebalance.pages.read_fleet import read_run_state
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.run_state import ACTIVE_STATES, Action, RunState
from kafka_rebalance.pages.shell import render_message
from kafka_rebalance.pages.tables import BROKER_SORTS, SORTS, Query, brokers_csv, brokers_file, brokers_page, moves_file
from kafka_rebalance.pages.units import format_time
from kafka_rebalance.rebalance import report as plan_tables
from kafka_rebalance.rebalance.drift import PATIENCE_SECONDS, drift_now
from kafka_rebalance.rebalance.report import begin_to_read, read_reassignment, read_report
from kafka_rebalance.run.clusters import CANCEL_DAG, LOG_DIRS_DAG
from kafka_rebalance.run.freeze import VARIABLE, check_frozen_exist, frozen_clusters
from kafka_rebalance.run.run_folder import RunFolder, check_shared, find_run_folder, open_run_folder
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.urls import answer_url, dag_url, run_page_url, run_url, static_url, task_url
from kafka_rebalance.workflow.web import run_records

log = logging.getLogger(__name__)


# The "Rebalance" tab of a Dag run, and the files that it links to. The app has checked login and permission.


MANY_MOVES = 10_000  # so many are read in advance: a search should not wait for them
APPROVE_TASK, FIRST_WRITING_TASK, VERIFY_TASK = "approve", "hold_throttle", "verify"
NEWER_READ = 30  # runs of the Dag after this one that are looked at


class NotServed(Exception):
    """Nothing can be shown: the status, and the words of the page that says why."""

    def __init__(self, status: int, heading: str, text: str) -> None:
        super().__init__(text)
        self.status, self.heading, self.text = status, heading, text


Page = Callable[[str, str, Request, Session], Response]


def answered(make: Page) -> Page:
    """Answers with a page that gives the reason in words if the page of a run cannot be made."""

    @functools.wraps(make)
    def answer(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
        try:
            return make(dag_id, run_id, request, session)
        except NotServed as why:
            return _message(why.status, why.heading, why.text)
        except InputError as wrong:
            return _message(400, "This address is wrong", str(wrong))
        except (RebalanceError, OSError) as unusable:
            log.warning("%s %s: the page cannot be shown: %s", dag_id, run_id, unusable)
            return _message(503, "The report cannot be shown", _without_places(str(unusable)))

    return answer


@answered
def run_page(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """The run's report, or a page that says why there is none. An unchanged page is not sent again (If-None-Match)."""
    if dag_id == LOG_DIRS_DAG:
        return _unless_known(_log_dirs(run_id, session), request)
    folder, dag_run = _open_folder(dag_id, run_id, session, not_yet=200)
    is_active, is_asked = _asked_of_airflow(dag_run, session)
    report = read_report(folder, for_page=True).in_airflow(is_active=is_active, has_open_request=is_asked)
    state = report.state
    if report.focus is not None and report.focus.partitions >= MANY_MOVES:
        begin_to_read(folder, PROPOSALS_FILE.read(folder), report.focus.name)
    obstacles = holds(session, dag_id, report.taken.connection_id) if is_active else ()
    airflow = InAirflow(
        is_live=is_active and (state.changes_by_itself or state.waits_for_people),
        drift_url=f"{run_page_url(dag_id, run_id)}/drift" if is_active and state.may_be_written else None,
        pages=_pages(dag_id, run_id, is_asked=is_asked, is_demote=report.settings.is_demote),
        now=clock.utc_now(),
        holds=(*obstacles, *_said_too_late(session, dag_run, state is RunState.UNANSWERED)),
        superseded=_superseded_by(session, dag_run, folder) if is_active and state.is_before_writes else "",
    )
    html = render_page(report, static_url=static_url(), run_url=run_page_url(dag_id, run_id), airflow=airflow)
    return _unless_known(html, request)


def _unless_known(html: str, request: Request) -> Response:
    """Nothing is sent again that the browser has already."""
    tag = f'"{sha256(html.encode()).hexdigest()}"'
    known = request.headers.get("if-none-match", "").removeprefix("W/")  # weak: a proxy has compressed it
    return Response(status_code=304) if known == tag else HTMLResponse(html, headers={"ETag": tag})


def _log_dirs(run_id: str, session: Session) -> str:
    dag_run = _read_run(LOG_DIRS_DAG, run_id, session)
    folder = _folder_of(session, dag_run, PLAN_TASK)
    if folder is None:
        raise _nothing_yet(PLAN_TASK, dag_run, 200)
    owner = read_folder_owner(folder)
    if (owner.dag_id, owner.run_id) != (dag_run.dag_id, dag_run.run_id):
        raise _of_another_run()
    run = read_log_dirs(dag_run, folder, session)
    obstacles = holds(session, LOG_DIRS_DAG, owner.connection_id) if str(dag_run.state) in ACTIVE_STATES else ()
    late = _said_too_late(session, dag_run, run.state is LogDirState.UNANSWERED)
    return _log_dirs_html(run, dag_run, owner.connection_id, (*obstacles, *late))


def _pages(dag_id: str, run_id: str, *, is_asked: bool, is_demote: bool) -> dict[Action, str]:
    """Airflow's pages on which people act on the run."""
    answer = {Action.ANSWER: answer_url(dag_id, run_id, APPROVE_TASK)} if is_asked else {}
    give_back = {Action.GIVE_BACK: dag_url(dag_id)} if is_demote else {}
    return (
        answer
        | give_back
        | {
            Action.FIND_CAUSE: run_url(dag_id, run_id),
            Action.ASK_AGAIN: task_url(dag_id, run_id, APPROVE_TASK),
            Action.VERIFY_AGAIN: task_url(dag_id, run_id, VERIFY_TASK),
            Action.GO_ON: task_url(dag_id, run_id, FIRST_WRITING_TASK),
            Action.START_ANEW: dag_url(dag_id),
            **dict.fromkeys((Action.STOP, Action.CANCEL, Action.ROLL_BACK), dag_url(CANCEL_DAG)),
        }
    )


def holds(session: Session, dag_id: str, connection_id: str) -> tuple[str, ...]:
    """What keeps the run from going on, and what to do."""
    obstacles = []
    if run_records.is_paused(session, dag_id):
        obstacles.append(
            # One line in Airflow's tab, so that the first screen stays whole.
            f"The Dag {dag_id} is paused: no next batch, no end of the throttle. Unpause it."
        )
    try:
        frozen = frozen_clusters(run_records.read_variable(VARIABLE))
        if frozen is True or (frozen and connection_id in frozen):
            obstacles.append(
                f"Frozen by the Variable {VARIABLE}: the run requests no batch. Copies in flight go on. "
                "Unset the Variable under Admin, Variables."
            )
        check_frozen_exist(frozen, (connection_id,), airflow_deployment().exists)
    except (SettingsError, ReadError) as unusable:
        obstacles.append(str(unusable))
    return tuple(obstacles)


def _said_too_late(session: Session, dag_run: run_records.DagRun, is_unanswered: bool) -> tuple[str, ...]:
    """Names an answer that Airflow has taken after the request had ended without one."""
    answer = run_records.unheard_answer(session, dag_run) if is_unanswered else None
    if answer is None:
        return ()
    by, choice, at = answer
    return (
        f"{by} answered “{choice}” at {format_time(at)}, when the request had expired. This answer does not count, and "
        f"nothing was started by it. To be asked again, clear the task {APPROVE_TASK}.",
    )


def _superseded_by(session: Session, dag_run: run_records.DagRun, folder: RunFolder) -> str:
    """Names the newer run of the same cluster that has planned or moved since; empty if there is none."""
    waiting = ""
    for newer in run_records.rebalances(session, dag_run.dag_id, NEWER_READ, after=dag_run.id):
        try:
            other = find_run_folder(airflow_deployment(), newer, newer.conf.get("kafka_conn_id"))
            if other is None and newer.folder:
                other = open_run_folder(airflow_deployment(), newer.folder)
            if other is None or other.parent.parent != folder.parent.parent:
                continue
            has_moved = is_there(other / BATCHES)
        except RebalanceError:
            continue
        if has_moved:
            return (
                f"Superseded: the newer run {newer.run_id} has moved partitions of this cluster since this plan was "
                "made. The run compares this plan with the cluster before it accepts an approval, and refuses it if "
                "they differ. Reject it. Start a new Dag run if there is still something to do."
            )
        if newer.state in ACTIVE_STATES:
            waiting = (
                waiting or f"A newer proposal for this cluster waits in run {newer.run_id}. Decide on one of them."
            )
    return waiting


@answered
def drift_page(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """What has changed in the cluster since the run's snapshot."""
    folder, dag_run = _open_folder(dag_id, run_id, session)
    if not is_there(folder / PROPOSALS):
        raise NotServed(404, "There is nothing to compare", "The run has no plan yet.")
    # A page asks as soon as it is shown. The run may have gone on or ended meanwhile: for the reader this is no error.
    past = _past_comparing(folder, dag_run, session)
    drift = None if past else drift_now(airflow_deployment(), folder)
    return HTMLResponse(
        render_drift(
            _within(folder, drift) if isinstance(drift, str) else drift,
            static_url=static_url(),
            drift_url=f"{run_page_url(dag_id, run_id)}/drift",
            run_url=run_page_url(dag_id, run_id),
            patience_seconds=PATIENCE_SECONDS,
            past=past,
        )
    )


def _asked_of_airflow(dag_run: run_records.DagRun, session: Session) -> tuple[bool, bool]:
    """Whether the run is not over, and whether it waits for an answer."""
    is_active = str(dag_run.state) in ACTIVE_STATES
    return is_active, is_active and run_records.has_open_request(session, dag_run)


def _past_comparing(folder: RunFolder, dag_run: run_records.DagRun, session: Session) -> str:
    """Why the plan is no longer compared with the cluster; empty while it may still be written."""
    is_active, is_asked = _asked_of_airflow(dag_run, session)
    state = read_run_state(folder, is_active=is_active, has_open_request=is_asked)
    if state.is_unverified or state.is_judged:
        return "The run has requested its first batch. The plan is compared with the cluster only before that."
    if not is_active:
        return "The run is over. The plan is compared with the cluster only while it may still be written."
    return ""


def _within(folder: RunFolder, text: str) -> str:
    """An error's text without the path of the run's folder: a page does not tell where the server keeps it."""
    short = text.replace(f"{folder}/", "").replace(f"the run's folder {folder}", "the run's folder")
    return short.replace(str(folder), "the run's folder")


@answered
def run_picture(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """The picture of the approval request."""
    drawn = picture(read_report(_open_folder(dag_id, run_id, session)[0], for_page=True))
    if drawn is None:
        raise NotServed(404, "There is no picture", "The loads of the brokers are not known.")
    return Response(drawn, media_type="image/svg+xml")


@answered
def reassignment_file(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """A candidate or its way back in Kafka's JSON, for download."""
    folder, _ = _open_folder(dag_id, run_id, session)
    name = request.path_params["name"]
    content = read_reassignment(folder, name)
    if content is None:
        raise NotServed(404, "There is no such file", "No candidate of this run that moves something has this file.")
    headers = download(f"{SNAPSHOT_FILE.read(folder).connection_id}-{name}")
    return Response(content, media_type="application/json", headers=headers)


def download(name: str) -> dict[str, str]:
    """The headers that make the browser save a file."""
    return {"Content-Disposition": f'attachment; filename="{file_name(name)}"'}


def _open_folder(
    dag_id: str, run_id: str, session: Session, not_yet: int = 404
) -> tuple[RunFolder, run_records.DagRun]:
    """The run's folder and the run. Raises NotServed, and ArtifactError if its snapshot.json cannot be used.

    `not_yet`: the status of an answer for a run without a snapshot.
    """
    dag_run = _read_run(dag_id, run_id, session)
    folder = _folder_of(session, dag_run, run_records.SNAPSHOT_TASK)
    if folder is None:
        if run_records.is_rebalance(session, dag_run):
            raise _nothing_yet(run_records.SNAPSHOT_TASK, dag_run, not_yet)
        raise NotServed(
            404,
            "This run is not a rebalance",
            f"The Dag {dag_id} does not plan a rebalance of a Kafka cluster, so there is nothing to show here. If it "
            "asks for an approval, the request is under Browse, Required Actions. The logs of its tasks say the rest.",
        )
    taken = SNAPSHOT_FILE.read(folder)
    if (taken.dag_id, taken.run_id) != (dag_run.dag_id, dag_run.run_id):
        raise _of_another_run()
    return folder, dag_run


def _read_run(dag_id: str, run_id: str, session: Session) -> run_records.DagRun:
    dag_run = run_records.read_run(session, dag_id, run_id)
    if dag_run is None:
        raise NotServed(404, "Unknown Dag run", f"There is no run {run_id} of the Dag {dag_id}.")
    return dag_run


def _folder_of(session: Session, dag_run: run_records.DagRun, task_id: str) -> RunFolder | None:
    """The run's own folder; None if its first task has made none.

    If this server does not see it, what the first task pushed says why: another storage, or an edited XCom.
    """
    own = find_run_folder(airflow_deployment(), dag_run, (dag_run.conf or {}).get("kafka_conn_id"))
    if own is not None:
        return own
    pushed = _pushed(session, dag_run, task_id)
    return None if pushed is None else _open_pushed(*pushed)


def _pushed(session: Session, dag_run: run_records.DagRun, task_id: str) -> tuple[str, str] | None:
    """The folder's address and its nonce, as the run's first task pushed them."""
    url = run_records.read_pushed(session, dag_run, run_records.FOLDER_KEY, task_id)
    nonce = run_records.read_pushed(session, dag_run, run_records.NONCE_KEY, task_id)
    return None if url is None or nonce is None else (url, nonce)


def _open_pushed(url: str, nonce: str) -> RunFolder:
    try:
        folder = open_run_folder(airflow_deployment(), url)
    except RunFolderError as outside:
        log.warning("A folder is not served: %s", outside)
        raise NotServed(403, "This folder is not served", "It lies outside of runs_url. The log names it.") from outside
    try:
        check_shared(airflow_deployment(), folder, nonce)
    except (RunFolderError, OSError) as unshared:
        log.warning("A run's folder cannot be used: %s", unshared)
        why = _without_places(str(unshared).replace(f"folder {folder}", "folder"))
        raise NotServed(503, "The run's folder cannot be used by the API server", why) from unshared
    return folder


def _without_places(text: str) -> str:
    """A page does not tell where the server keeps its runs, policies and plans; the log does."""
    here = airflow_deployment()
    for place in (here.runs_root, here.policies_folder, here.plans_folder):
        text = text.replace(f"{place}/", "").replace(f"below {place}", "below runs_url").replace(str(place), "runs_url")
    return text


def _nothing_yet(task_id: str, dag_run: run_records.DagRun, status: int) -> NotServed:
    return NotServed(
        status,
        f"No {task_id} yet",
        f"The task {task_id} has not written this run's folder. The run is {dag_run.state}. Reload the page when the "
        "task is done. If it failed, read its log.",
    )


def _of_another_run() -> NotServed:
    """People who may edit another Dag's XComs could name this folder. The permission was checked for this Dag only."""
    return NotServed(403, "This folder is not served", "The folder that this run names belongs to another run.")


def _message(status: int, heading: str, text: str) -> HTMLResponse:
    return HTMLResponse(render_message(heading, text, static_url=static_url()), status_code=status)


# The parts that the run's tab fetches on demand: all moves and brokers of a candidate, as pages and as files.
#
# The app has checked login and permission.


CSV = "text/csv; charset=utf-8; header=present"


@answered
def moves_page(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """The result of a search among a candidate's moves, or a page that says why there is none."""
    folder, _ = _open_folder(dag_id, run_id, session)
    query = Query.of(request.query_params, SORTS)
    plan = _plan(folder)
    if query.candidate not in (candidate.name for candidate in plan.candidates):
        raise _unknown(query.candidate)
    moves = plan_tables.read_move_table(folder, plan, query.candidate).search(query)
    connection_id = SNAPSHOT_FILE.read(folder).connection_id
    return HTMLResponse(render_moves(moves, connection_id, query.candidate, **_urls(dag_id, run_id)))


@answered
def brokers_table(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """A page of all brokers of a candidate."""
    folder, _ = _open_folder(dag_id, run_id, session)
    query = Query.of(request.query_params, BROKER_SORTS)
    report, candidate = _candidate(folder, query.candidate)
    brokers = brokers_page(candidate.brokers, query)
    return HTMLResponse(render_brokers(brokers, report.taken.connection_id, query.candidate, **_urls(dag_id, run_id)))


@answered
def candidate_page(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """Brokers and moves of a candidate other than the one on the run's page."""
    folder, _ = _open_folder(dag_id, run_id, session)
    report, candidate = _candidate(folder, request.query_params.get("candidate", ""))
    return HTMLResponse(render_candidate(report, candidate, **_urls(dag_id, run_id)))


@answered
def plot_file(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """One of a candidate's pictures. It is drawn when a page asks for it, so no page waits for it."""
    folder, _ = _open_folder(dag_id, run_id, session)
    _, candidate = _candidate(folder, request.query_params.get("candidate", ""))
    drawn = plot_picture(candidate, request.query_params.get("number", ""))
    if drawn is None:
        raise NotServed(404, "There is no such picture", "The page of this run has fewer pictures.")
    return Response(drawn, media_type="image/svg+xml")


@answered
def table_file(dag_id: str, run_id: str, request: Request, session: Session) -> Response:
    """All moves or all brokers of a candidate as CSV, for download."""
    folder, _ = _open_folder(dag_id, run_id, session)
    name = request.path_params["name"]
    headers = download(f"{SNAPSHOT_FILE.read(folder).connection_id}-{name}")
    plan = _plan(folder)
    for candidate in (one.name for one in plan.candidates):
        if name == moves_file(candidate):
            rows = plan_tables.read_move_table(folder, plan, candidate).csv()
            return StreamingResponse(rows, media_type=CSV, headers=headers)
        if name == brokers_file(candidate):
            return Response(brokers_csv(_candidate(folder, candidate)[1].brokers), media_type=CSV, headers=headers)
    raise NotServed(404, "There is no such file", "No candidate of this run has a file of this name.")


def _urls(dag_id: str, run_id: str) -> dict[str, Any]:
    return {"static_url": static_url(), "run_url": run_page_url(dag_id, run_id)}


def _plan(folder: RunFolder) -> Proposals:
    plan = PROPOSALS_FILE.read_if_there(folder)
    if plan is None:
        raise NotServed(404, "No plan yet", "The task plan has not written this run's candidates.")
    return plan


def _candidate(folder: RunFolder, name: str) -> tuple[RunReport, CandidateReport]:
    report = read_report(folder, for_page=True)
    for candidate in report.candidates:
        if candidate.name == name:
            return report, candidate
    raise _unknown(name)


def _unknown(name: str) -> NotServed:
    return NotServed(404, "There is no such candidate", f"This run has no candidate {name!r}.")


# The tab of a run of `kafka_log_dirs`. The app has checked login and permission.


PLAN_TASK = "plan"  # pushes folder and nonce


def read_log_dirs(dag_run: run_records.DagRun, folder: RunFolder, session: Session) -> LogDirRun:
    """Raises ArtifactError, StorageError."""
    is_active, is_asked = _asked_of_airflow(dag_run, session)
    has_succeeded = str(dag_run.state) == "success"
    return read_log_dir_run(folder, is_active=is_active, has_succeeded=has_succeeded, has_open_request=is_asked)


def _log_dirs_html(run: LogDirRun, dag_run: run_records.DagRun, connection_id: str, holds: tuple[str, ...]) -> str:
    """The page. `holds` says what keeps the run from going on, or what came too late."""
    dag_id, run_id = dag_run.dag_id, dag_run.run_id
    pages = {
        Action.ANSWER: answer_url(dag_id, run_id, "approve"),
        Action.STOP: task_url(dag_id, run_id, "move"),
        Action.FIND_CAUSE: run_url(dag_id, run_id),
        Action.ASK_AGAIN: task_url(dag_id, run_id, "approve"),
        Action.GO_ON: task_url(dag_id, run_id, "hold_rate"),
        **dict.fromkeys((Action.ROLL_BACK, Action.START_ANEW), dag_url(dag_id)),
    }
    return render_log_dirs(run, connection_id, static_url=static_url(), pages=pages, now=clock.utc_now(), holds=holds)
