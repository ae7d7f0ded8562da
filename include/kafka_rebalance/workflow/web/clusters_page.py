"""The page "Kafka balance": every cluster of the fleet, from folders, ledger and Airflow's database.

It never asks Kafka or ZooKeeper. A web server that did so on each click would load the cluster, and hang with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TypeVar

from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from kafka_rebalance import clock
from kafka_rebalance.documents.json_files import time_in
from kafka_rebalance.documents.storage import file_name
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.pages.fleet import (
    CheckRun,
    Lease,
    Link,
    OpenRequest,
    Overview,
    Places,
    Run,
    render_overview,
    rows_of,
)
from kafka_rebalance.pages.read_fleet import ClusterToRead, RunToRead, read_clusters, read_leases
from kafka_rebalance.pages.run_state import ACTIVE_STATES, RunState
from kafka_rebalance.run import freeze
from kafka_rebalance.run.clusters import CHECK_DAG, CLUSTERS, JANITOR_DAG, REBALANCE_DAG, fleet
from kafka_rebalance.throttle.lease_files import StoredLease
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.urls import (
    answer_url,
    base_path,
    dag_url,
    overview_url,
    run_page_url,
    run_url,
    static_url,
)
from kafka_rebalance.workflow.web import run_records

CHECK_TASK = "cluster.check"
RUNS_READ, RUNS_SHOWN, CHECKS_READ = 300, 3, 14
PATIENCE_SECONDS = 4.0  # for all folders together

T = TypeVar("T")


def overview_page(session: Session, asking: Collection[str]) -> HTMLResponse:
    """The page, with the open requests of the Dags `asking`. The app has checked login and permission."""
    tag = requests_tag(session, asking)
    return HTMLResponse(
        render_overview(
            read_overview(session, asking),
            static_url=static_url(),
            overview_url=overview_url(),
            requests_tag=tag,
        )
    )


def requests_tag(session: Session, asking: Collection[str]) -> str:
    """A text that changes when a request is made or answered. Pages ask often, so it reads only Airflow's database."""
    requests = sorted(
        f"{request.created_at} {request.dag_id} {request.run_id}"
        for request in run_records.open_requests(session, asking)
    )
    return sha256("\n".join(requests).encode()).hexdigest()


def read_overview(session: Session, asking: Collection[str], patience_seconds: float = PATIENCE_SECONDS) -> Overview:
    """The whole fleet, with the open requests of the Dags `asking`. Each part says what of it cannot be read."""
    now = clock.utc_now()
    problems: list[str] = []
    nobody: bool | frozenset[str] = False
    names: list[str] = _or_problem(lambda: fleet(run_records.read_variable(CLUSTERS)), problems, list[str]())
    deployment = airflow_deployment()
    frozen = _or_problem(lambda: freeze.frozen_clusters(run_records.read_variable(freeze.VARIABLE)), problems, nobody)
    _or_problem(lambda: freeze.check_frozen_exist(frozen, names, deployment.exists), problems, None)
    runs: dict[str, list[run_records.RebalanceRecord]] = {}
    for run in run_records.rebalances(session, REBALANCE_DAG, RUNS_READ):
        asked = run.conf.get("kafka_conn_id")
        of_asked = file_name(asked) if isinstance(asked, str) else ""
        runs.setdefault(_connection_of(run.folder) or of_asked, []).append(run)
    requests: dict[str, list[run_records.RequestRecord]] = {}
    open_now = run_records.open_requests(session, {REBALANCE_DAG, *asking})
    waiting = frozenset((one.dag_id, one.run_id) for one in open_now)
    for request in (one for one in open_now if one.dag_id in asking):
        requests.setdefault(_connection_of(request.folder), []).append(request)
    checks = run_records.recent_checks(session, CHECK_DAG, CHECK_TASK, CHECKS_READ)
    stored = read_leases(deployment, patience_seconds / 2, problems)
    to_read = [
        ClusterToRead(
            name,
            tuple(check.run_id for check in checks),
            tuple(
                RunToRead(_run(one), one, one.folder, (one.dag_id, one.run_id) in waiting)
                for one in _shown(runs.get(file_name(name), ()))
            ),
        )
        for name in names
    ]
    clusters = [
        replace(
            one,
            check_run=_check_run(name := one.connection_id, checks),
            approvals=tuple(map(_approval, requests.get(file_name(name), ()))),
            lease=_lease(name, stored, {run.run_id for run in runs.get(file_name(name), ())}),
            is_frozen=frozen is True or (frozen is not False and name in frozen),
        )
        for one in read_clusters(deployment, to_read, now, patience_seconds)
    ]
    places = _places()
    return Overview(now, rows_of(clusters, places), places, tuple(problems), all_frozen=frozen is True)


def _places() -> Places:
    base, rebalance = base_path(), dag_url(REBALANCE_DAG)
    return Places(
        check=Link("Run the check", dag_url(CHECK_DAG)),
        janitor=Link("Open the janitor", dag_url(JANITOR_DAG)),
        rebalance=Link("Start a rebalance", rebalance),
        plan_only=Link("Make a plan", rebalance),
        freeze=Link("Lift the freeze", f"{base}/variables"),
        connections=Link("Admin, Connections", f"{base}/connections"),
        variables=Link("Admin, Variables", f"{base}/variables"),
    )


def _shown(runs: Sequence[run_records.RebalanceRecord]) -> Sequence[run_records.RebalanceRecord]:
    """The newest runs, and the newest one that is over."""
    newest = [*runs[:RUNS_SHOWN]]
    if all(run.state in ACTIVE_STATES for run in newest):
        newest += [run for run in runs[RUNS_SHOWN:] if run.state not in ACTIVE_STATES][:1]
    return newest


def _or_problem(read: Callable[[], T], problems: list[str], otherwise: T) -> T:
    try:
        return read()
    except Exception as failed:  # a secrets backend may raise anything
        problems.append(str(failed) if isinstance(failed, RebalanceError) else f"{type(failed).__name__}: {failed}")
        return otherwise


def _connection_of(folder: str | None) -> str:
    """The name of the connection's folder that holds this run's folder; empty if there is none.

    It reads only the text. Storage may hang, so only a cluster's own thread touches and checks the folder.
    """
    parts = (folder or "").rstrip("/").split("/")
    return parts[-3] if len(parts) > 3 else ""


def _run(record: run_records.RebalanceRecord) -> Run:
    """As Airflow has it."""
    link = Link("Open the run", run_page_url(record.dag_id, record.run_id), inside=True)
    return Run(record.run_after, RunState.PLANNING, record.state, link, ended_at=record.ended_at)


def _check_run(connection_id: str, checks: Sequence[run_records.CheckRecord]) -> CheckRun | None:
    for check in checks:
        if connection_id in check.tasks:
            index, state = check.tasks[connection_id]
            url = f"{run_url(CHECK_DAG, check.run_id)}/tasks/{CHECK_TASK}/mapped/{index}"
            return CheckRun(state, check.run_after, Link("Read the log", url))
    return None


def _approval(request: run_records.RequestRecord) -> OpenRequest:
    url = answer_url(request.dag_id, request.run_id, request.task_id)
    return OpenRequest(request.subject, request.created_at, request.people, Link("Answer", url))


def _lease(connection_id: str, stored: Sequence[StoredLease] | None, run_ids: Collection[str]) -> Lease | None:
    if stored is None:
        return Lease("", None, None, None, None, problem="not known: the leases cannot be read")
    for one in stored:
        lease = one.lease
        if lease is None or lease.connection_id != connection_id or lease.released_at is not None:
            continue
        dag_id, _, run_id = lease.run.partition("/")
        return Lease(
            lease.run,
            lease.bytes_per_second,
            time_in(lease.taken_at),
            time_in(lease.handed_over_at),
            Link("Its run", run_page_url(dag_id, run_id), inside=True) if run_id in run_ids else None,
        )
    return None
