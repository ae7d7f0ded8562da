"""The web app: its routes and their guards. GET only, behind login and Dag permission, under strict headers.

Airflow mounts a plugin's app without any login (`airflow.api_fastapi.app.init_plugins`), so every route here asks for
the user itself. `airflow.api_fastapi` is not a public interface: only this module imports from it. A test compares
these imports with the installed version.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kafka_rebalance.pages.fleet import REQUESTS
from kafka_rebalance.pages.page import warm_up
from kafka_rebalance.pages.shell import STATIC, read_static
from kafka_rebalance.run.clusters import CANCEL_DAG, LOG_DIRS_DAG, REBALANCE_DAG, TOPICS_DAG
from kafka_rebalance.run.read_in_time import Reads
from kafka_rebalance.workflow.urls import MOUNT, PICTURE
from kafka_rebalance.workflow.web import run_page
from kafka_rebalance.workflow.web.clusters_page import overview_page, requests_tag

__all__ = ["HEADERS", "MOUNT", "create_app"]

HEADERS = {
    # No inline script and no inline style: text from the cluster can do nothing, even if it were not escaped. Scripts,
    # their requests and the one form (a search by GET) are our own. 'self' as ancestor: Airflow shows the page in an
    # iframe.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _readable_requests(request: Request, user: GetUserDep) -> list[str]:
    """Our Dags whose approval requests the user may read, by the rule by which Airflow itself shows them."""

    allowed = []
    for dag_id in (REBALANCE_DAG, CANCEL_DAG, TOPICS_DAG, LOG_DIRS_DAG):
        with contextlib.suppress(HTTPException):
            requires_access_dag("GET", DagAccessEntity.HITL_DETAIL, dag_id)(request, user)
            allowed.append(dag_id)
    return allowed


# Below /run/<Dag id>/<run id>. The run's own page comes last, because a run id may hold slashes.
PAGES_OF_A_RUN: dict[str, run_page.Page] = {
    "/reassignments/{name}": run_page.reassignment_file,
    "/drift": run_page.drift_page,
    f"/{PICTURE}": run_page.run_picture,
    "/tables/{name}": run_page.table_file,
    "/plot": run_page.plot_file,
    "/moves": run_page.moves_page,
    "/brokers": run_page.brokers_table,
    "/candidate": run_page.candidate_page,
    "": run_page.run_page,
}


def create_app() -> FastAPI:
    """The app that the plugin mounts under `MOUNT`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(get_user)])
    may_read_run = Depends(requires_access_dag("GET", access_entity=DagAccessEntity.XCOM))  # the path's dag_id
    may_read_rebalances = Depends(
        requires_access_dag("GET", access_entity=DagAccessEntity.XCOM, param_dag_id=REBALANCE_DAG)
    )

    def add_page(path: str, page: run_page.Page) -> None:
        @app.get(f"/run/{{dag_id}}/{{run_id:path}}{path}", dependencies=[may_read_run])
        def answer(dag_id: str, run_id: str, request: Request, session: SessionDep) -> Response:
            return page(dag_id, run_id, request, session)

    for path, page in PAGES_OF_A_RUN.items():
        add_page(path, page)

    @app.get("/clusters", dependencies=[may_read_rebalances])
    def clusters(session: SessionDep, asking: Annotated[list[str], Depends(_readable_requests)]) -> HTMLResponse:
        return overview_page(session, asking)

    @app.get(f"/clusters/{REQUESTS}", dependencies=[may_read_rebalances])
    def requests(session: SessionDep, asking: Annotated[list[str], Depends(_readable_requests)]) -> PlainTextResponse:
        return PlainTextResponse(requests_tag(session, asking))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "There is no such file.")
        return Response(read_static(name), media_type=STATIC[name])

    app.add_middleware(_Headers)
    Reads[None]().ask("warm-up", _warm_up)
    return app


def _warm_up() -> None:
    """Loads what the first reader of a page would wait for: this takes seconds on a busy machine."""
    importlib.import_module("kafka_rebalance.pages.tables")
    warm_up()


class _Headers:
    """Puts `HEADERS` on every answer, also on errors."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)
