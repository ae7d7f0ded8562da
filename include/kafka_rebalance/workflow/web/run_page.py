"""The "Rebalance" tab of a Dag run, and the files that it links to. The app has checked login and permission."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Concatenate, ParamSpec, TypeVar

from fastapi.responses import HTMLResponse, Response
from sqlalchemy.orm import Session

from kafka_rebalance.documents.json_files import PROPOSALS, SNAPSHOT, read_json
from kafka_rebalance.documents.storage import is_there
from kafka_rebalance.errors import InputError, RebalanceError, RunFolderError
from kafka_rebalance.report.page import PageContext, picture, render_drift, render_message, render_page
from kafka_rebalance.report.run_state import ACTIVE_STATES
from kafka_rebalance.steps.read_fleet import read_run_state
from kafka_rebalance.steps.rebalance.plan_drift import PATIENCE_SECONDS, drift_now
from kafka_rebalance.steps.rebalance.plan_tables import begin_to_read
from kafka_rebalance.steps.rebalance.read_report import read_reassignment, read_report
from kafka_rebalance.steps.run_folder import RunFolder, check_shared, file_name, open_run_folder
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.urls import drift_url, run_page_url, static_url
from kafka_rebalance.workflow.web.run_context import holds, superseded_by
from kafka_rebalance.workflow.web.run_records import (
    FOLDER_KEY,
    NONCE_KEY,
    SNAPSHOT_TASK,
    DagRun,
    has_open_request,
    is_rebalance,
    read_pushed,
    read_run,
)

log = logging.getLogger(__name__)

MANY_MOVES = 10_000  # take longer to read than one likes to wait for a search


class NotServed(Exception):
    """Why there is nothing to show, as a status and a page in words."""

    def __init__(self, status: int, heading: str, text: str) -> None:
        super().__init__(text)
        self.status, self.heading, self.text = status, heading, text


P = ParamSpec("P")
Page = TypeVar("Page", bound=Response)


def answered(
    make: Callable[Concatenate[str, str, P], Page],
) -> Callable[Concatenate[str, str, P], Page | HTMLResponse]:
    """What is made for a run of a Dag, or a page that says in words why there is nothing."""

    @functools.wraps(make)
    def answer(dag_id: str, run_id: str, /, *args: P.args, **kwargs: P.kwargs) -> Page | HTMLResponse:
        try:
            return make(dag_id, run_id, *args, **kwargs)
        except NotServed as why:
            return _message(why.status, why.heading, why.text)
        except InputError as wrong:
            return _message(400, "This address asks for nothing that there is", str(wrong))
        except (RebalanceError, OSError) as unusable:
            log.warning("%s %s: the page cannot be shown: %s", dag_id, run_id, unusable)
            # Where the server keeps its runs is nobody's business here; the log has it.
            text = str(unusable).replace(f"{airflow_deployment().runs_root}/", "")
            return _message(503, "The report cannot be shown", text)

    return answer


@answered
def run_page(dag_id: str, run_id: str, session: Session, known: str | None = None) -> Response:
    """The run's report, or a page that says in words why there is none. The caller has checked the permission.

    `known`: the tag of the page that the reader has, if any; where that is still the page, it is not sent again.
    """
    folder, dag_run = open_folder(dag_id, run_id, session)
    is_active, is_asked = _asked_of_airflow(dag_run, session)
    report = read_report(folder, for_page=True).in_airflow(is_active=is_active, has_open_request=is_asked)
    state = report.state
    around = PageContext(
        at=datetime.now(UTC),
        holds=holds(session, dag_id, report.connection_id) if is_active else (),
        superseded=superseded_by(session, dag_run, folder) if is_active and state.is_before_writes else "",
    )
    if report.focus is not None and report.focus.partitions >= MANY_MOVES:
        begin_to_read(folder, read_json(folder, PROPOSALS), report.focus.name)
    html = render_page(
        report,
        static_url=static_url(),
        run_url=run_page_url(dag_id, run_id),
        is_live=is_active and (state.changes_by_itself or state.waits_for_people),
        drift_url=drift_url(dag_id, run_id) if is_active and state.may_be_written else None,
        around=around,
    )
    tag = f'"{sha256(html.encode()).hexdigest()}"'
    same = known is not None and known.removeprefix("W/") == tag  # weak: a proxy has compressed it
    return Response(status_code=304) if same else HTMLResponse(html, headers={"ETag": tag})


@answered
def drift_page(dag_id: str, run_id: str, session: Session) -> HTMLResponse:
    """What has changed in the cluster since the run's snapshot. The caller has checked the permission."""
    folder, dag_run = _open_planned(dag_id, run_id, session)
    if not is_there(folder / PROPOSALS):
        raise NotServed(404, "There is nothing to compare", "The run has no plan yet.")
    # A page asks as soon as it is shown, and meanwhile the run may have gone on or ended: to the reader no error.
    past = _past_comparing(folder, dag_run, session)
    found = None if past else drift_now(airflow_deployment(), folder)
    return HTMLResponse(
        render_drift(
            _within(folder, found) if isinstance(found, str) else found,
            static_url=static_url(),
            drift_url=drift_url(dag_id, run_id),
            run_url=run_page_url(dag_id, run_id),
            patience_seconds=PATIENCE_SECONDS,
            past=past,
        )
    )


def _asked_of_airflow(dag_run: DagRun, session: Session) -> tuple[bool, bool]:
    """Whether the run is not over, and whether it waits for an answer."""
    is_active = str(dag_run.state) in ACTIVE_STATES
    return is_active, is_active and has_open_request(session, dag_run)


def _past_comparing(folder: RunFolder, dag_run: DagRun, session: Session) -> str:
    """Why the plan is not compared with the cluster any more; empty while it may come to be written."""
    is_active, is_asked = _asked_of_airflow(dag_run, session)
    state = read_run_state(folder, is_active=is_active, has_open_request=is_asked)
    if state.is_unverified or state.is_judged:
        return "The run has gone on: the plan is compared with the cluster only until its first batch is requested."
    if not is_active:
        return "The run is over: the plan is compared with the cluster only while it may still be written."
    return ""


def _within(folder: RunFolder, text: str) -> str:
    """An error's text with files named as the run's folder has them: where the server keeps that is not for a page."""
    short = text.replace(f"{folder}/", "").replace(f"the run's folder {folder}", "the run's folder")
    return short.replace(str(folder), "the run's folder")


@answered
def run_picture(dag_id: str, run_id: str, session: Session) -> Response:
    """The picture of the approval request. The caller has checked the permission."""
    drawn = picture(read_report(open_planned(dag_id, run_id, session), for_page=True))
    if drawn is None:
        raise NotServed(404, "There is no picture", "The loads of the brokers are not known.")
    return Response(drawn, media_type="image/svg+xml")


@answered
def reassignment_file(dag_id: str, run_id: str, name: str, session: Session) -> Response:
    """A candidate or its way back in Kafka's JSON, as a download. The caller has checked the permission."""
    folder = open_planned(dag_id, run_id, session)
    content = read_reassignment(folder, name)
    if content is None:
        raise NotServed(404, "There is no such file", "It is not of a candidate of this run that moves something.")
    headers = download(f"{read_json(folder, SNAPSHOT)['connection_id']}-{name}")
    return Response(content, media_type="application/json", headers=headers)


def download(name: str) -> dict[str, str]:
    """The headers of a file that is saved, not shown."""
    return {"Content-Disposition": f'attachment; filename="{file_name(name)}"'}


def open_planned(dag_id: str, run_id: str, session: Session) -> RunFolder:
    """The run's folder, for what is made of a plan: where there is no snapshot yet, that is not found."""
    return _open_planned(dag_id, run_id, session)[0]


def _open_planned(dag_id: str, run_id: str, session: Session) -> tuple[RunFolder, DagRun]:
    try:
        return open_folder(dag_id, run_id, session)
    except NotServed as why:
        raise NotServed(404 if why.status == 200 else why.status, why.heading, why.text) from why


def open_folder(dag_id: str, run_id: str, session: Session) -> tuple[RunFolder, DagRun]:
    """The run's folder and the run. Raises NotServed, and ArtifactError where its snapshot.json cannot be used."""
    dag_run = read_run(session, dag_id, run_id)
    if dag_run is None:
        raise NotServed(404, "Unknown Dag run", f"There is no run {run_id} of the Dag {dag_id}.")
    url, nonce = (read_pushed(session, dag_run, key) for key in (FOLDER_KEY, NONCE_KEY))
    if url is None or nonce is None:
        if is_rebalance(session, dag_run):
            raise NotServed(
                200,
                "No snapshot yet",
                f"The task {SNAPSHOT_TASK} has not written this run's folder. The run is {dag_run.state}. "
                "Reload the page when the task is done; if it failed, its log says why.",
            )
        raise NotServed(
            404,
            "This run is not a rebalance",
            f"The Dag {dag_id} does not plan a rebalance of a Kafka cluster, so there is nothing to show here.",
        )
    try:
        folder = open_run_folder(airflow_deployment(), url)
    except RunFolderError as outside:
        raise NotServed(403, "This folder is not served", str(outside)) from outside
    try:
        check_shared(airflow_deployment(), folder, nonce)
    except (RunFolderError, OSError) as unshared:
        raise NotServed(503, "The run's folder cannot be used by the API server", str(unshared)) from unshared
    written = read_json(folder, SNAPSHOT)
    if (written.get("dag_id"), written.get("run_id")) != (dag_run.dag_id, dag_run.run_id):
        # An XCom can be edited by whoever may edit that Dag; the permission was checked for this Dag only.
        raise NotServed(403, "This folder is not served", "The folder that this run names belongs to another run.")
    return folder, dag_run


def _message(status: int, heading: str, text: str) -> HTMLResponse:
    return HTMLResponse(render_message(heading, text, static_url=static_url()), status_code=status)
