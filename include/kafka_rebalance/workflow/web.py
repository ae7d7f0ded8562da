"""The "Rebalance" tab of a Dag run: one page from the run's folder, GET only, behind login and Dag permission.

Airflow mounts a plugin's app without any login (`airflow.api_fastapi.app.init_plugins`), so every route here asks for
the user itself. The imports from `airflow.api_fastapi` and `airflow.models` are not public interface: they are kept in
this one module, and a test holds them against the installed version.
"""

from __future__ import annotations

import json
import logging
from urllib.parse import quote, urlsplit

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from airflow.configuration import conf
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kafka_rebalance.errors import RebalanceError, RunFolderError
from kafka_rebalance.model.artifacts import REASSIGNMENTS, SNAPSHOT, read_json
from kafka_rebalance.report.page import STATIC, read_static, render_message, render_page
from kafka_rebalance.workflow.report_files import read_reassignment, read_report
from kafka_rebalance.workflow.run_folder import RunFolder, check_shared, file_name, open_run_folder

log = logging.getLogger(__name__)

MOUNT = "/kafka-rebalance"  # the plugin's url_prefix
SNAPSHOT_TASK = "snapshot"  # pushes both keys below; a Dag that has both tasks is one of ours
REPORT_TASK = "render_report"
FOLDER_KEY, NONCE_KEY = "run_folder", "nonce"
ACTIVE_STATES = frozenset({"queued", "running"})

HEADERS = {
    # No inline script and no inline style: what comes from the cluster could do nothing even if it were not escaped.
    # The script and its requests are our own refresh.js. 'self' as ancestor: Airflow shows the page in an iframe.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def create_app() -> FastAPI:
    """The app that the plugin mounts under `MOUNT`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(get_user)])
    may_read_run = Depends(requires_access_dag("GET", access_entity=DagAccessEntity.XCOM))  # the path's dag_id

    # Before the page: a run's id may hold slashes.
    @app.get("/run/{dag_id}/{run_id:path}/reassignments/{name}", dependencies=[may_read_run])
    def reassignment(dag_id: str, run_id: str, name: str, session: SessionDep) -> Response:
        return reassignment_file(dag_id, run_id, name, session)

    @app.get("/run/{dag_id}/{run_id:path}", dependencies=[may_read_run], response_class=HTMLResponse)
    def run(dag_id: str, run_id: str, session: SessionDep) -> HTMLResponse:
        return run_page(dag_id, run_id, session)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "There is no such file.")
        return Response(read_static(name), media_type=STATIC[name])

    app.add_middleware(_Headers)
    return app


def base_path() -> str:
    """The path of Airflow's base URL without a slash at its end: absolute links break behind a prefix without it."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


class _NotServed(Exception):
    """Why there is nothing to show, as a status and a page in words."""

    def __init__(self, status: int, heading: str, text: str) -> None:
        super().__init__(text)
        self.status, self.heading, self.text = status, heading, text


def run_page(dag_id: str, run_id: str, session: Session) -> HTMLResponse:
    """The run's report, or a page that says in words why there is none. The caller has checked the permission."""
    try:
        folder, dag_run = _open_folder(dag_id, run_id, session)
        report = read_report(folder)
        is_live = report.changes_by_itself and str(dag_run.state) in ACTIVE_STATES
        run = f"{quote(dag_id, safe='')}/{quote(run_id, safe='')}"
        files_url = f"{base_path()}{MOUNT}/run/{run}/{REASSIGNMENTS}"
        return HTMLResponse(render_page(report, static_url=_static_url(), files_url=files_url, is_live=is_live))
    except _NotServed as why:
        return _message(why.status, why.heading, why.text)
    except (RebalanceError, OSError) as unusable:
        log.warning("%s %s: the report cannot be shown: %s", dag_id, run_id, unusable)
        return _message(503, "The report cannot be shown", str(unusable))


def reassignment_file(dag_id: str, run_id: str, name: str, session: Session) -> Response:
    """A candidate or its way back in Kafka's JSON, as a download. The caller has checked the permission."""
    try:
        folder, _ = _open_folder(dag_id, run_id, session)
        content = read_reassignment(folder, name)
        if content is None:
            raise _NotServed(404, "There is no such file", "It is not of a candidate of this run that moves something.")
        saved_as = file_name(f"{read_json(folder, SNAPSHOT)['connection_id']}-{name}")
    except _NotServed as why:
        return _message(404 if why.status == 200 else why.status, why.heading, why.text)
    except (RebalanceError, OSError) as unusable:
        log.warning("%s %s: %s cannot be given: %s", dag_id, run_id, name, unusable)
        return _message(503, "The file cannot be given", str(unusable))
    headers = {"Content-Disposition": f'attachment; filename="{saved_as}"'}
    return Response(content, media_type="application/json", headers=headers)


def _open_folder(dag_id: str, run_id: str, session: Session) -> tuple[RunFolder, DagRun]:
    """The run's folder and the run. Raises _NotServed, and ArtifactError where its snapshot.json cannot be used."""
    dag_run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    if dag_run is None:
        raise _NotServed(404, "Unknown Dag run", f"There is no run {run_id} of the Dag {dag_id}.")
    url, nonce = (_xcom(session, dag_run, key) for key in (FOLDER_KEY, NONCE_KEY))
    if url is None or nonce is None:
        if _is_rebalance(session, dag_run):
            raise _NotServed(
                200,
                "No snapshot yet",
                f"The task {SNAPSHOT_TASK} has not written this run's folder. The run is {dag_run.state}. "
                "Reload the page when the task is done; if it failed, its log says why.",
            )
        raise _NotServed(
            404,
            "This run is not a rebalance",
            f"The Dag {dag_id} does not plan a rebalance of a Kafka cluster, so there is nothing to show here.",
        )
    try:
        folder = open_run_folder(url)
    except RunFolderError as outside:
        raise _NotServed(403, "This folder is not served", str(outside)) from outside
    try:
        check_shared(folder, nonce)
    except (RunFolderError, OSError) as unshared:
        raise _NotServed(503, "The run folder is not shared with the API server", str(unshared)) from unshared
    written = read_json(folder, SNAPSHOT)
    if (written.get("dag_id"), written.get("run_id")) != (dag_run.dag_id, dag_run.run_id):
        # An XCom can be edited by whoever may edit that Dag; the permission was checked for this Dag only.
        raise _NotServed(403, "This folder is not served", "The folder that this run names belongs to another run.")
    return folder, dag_run


def _xcom(session: Session, dag_run: DagRun, key: str) -> str | None:
    """What the snapshot pushed, as text; None where it pushed nothing, or something that is not text."""
    value = session.scalar(
        select(XComModel.value).where(
            XComModel.dag_id == dag_run.dag_id,
            XComModel.run_id == dag_run.run_id,
            XComModel.task_id == SNAPSHOT_TASK,
            XComModel.map_index == -1,
            XComModel.key == key,
        )
    )
    # Tasks store the value itself; XComModel.set stores its JSON text. Not XComModel.deserialize_value: it would make a
    # number of a nonce that happens to be all digits, and an object of whatever class the text names.
    if isinstance(value, str) and value.startswith('"'):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, str) else None


def _is_rebalance(session: Session, dag_run: DagRun) -> bool:
    tasks = session.scalars(
        select(TaskInstance.task_id).where(
            TaskInstance.dag_id == dag_run.dag_id,
            TaskInstance.run_id == dag_run.run_id,
            TaskInstance.task_id.in_((SNAPSHOT_TASK, REPORT_TASK)),
        )
    )
    return len(set(tasks)) == 2


def _static_url() -> str:
    return f"{base_path()}{MOUNT}/static"


def _message(status: int, heading: str, text: str) -> HTMLResponse:
    return HTMLResponse(render_message(heading, text, static_url=_static_url()), status_code=status)


class _Headers:
    """Puts `HEADERS` on every answer, errors too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)
