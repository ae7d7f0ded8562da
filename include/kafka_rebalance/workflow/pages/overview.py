"""The page "Kafka balance": every cluster of the fleet, from folders, ledger and Airflow's database.

Never from Kafka or ZooKeeper: a web server that asks a cluster on each click would be load, and would hang with it. A
folder that is slow or cannot be read is said so at its cluster, and hides no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, RebalanceError, StorageError
from kafka_rebalance.report.fleet import cluster_health as report
from kafka_rebalance.report.fleet.cluster_health import Approval, CheckRun, Cluster, Janitor, Lease, Link, Overview, Run
from kafka_rebalance.report.fleet.trend import trends
from kafka_rebalance.report.page import render_overview
from kafka_rebalance.report.run_state import ACTIVE_STATES, RunFacts, RunState, run_facts, run_state
from kafka_rebalance.workflow.fleet import CHECK_DAG, CLUSTERS, JANITOR_DAG, REBALANCE_DAG, VERDICT, fleet
from kafka_rebalance.workflow.ledger import ledger
from kafka_rebalance.workflow.pages.run_records import (
    CheckRecord,
    RebalanceRecord,
    RequestRecord,
    open_requests,
    read_variable,
    recent_checks,
    recent_rebalances,
)
from kafka_rebalance.workflow.pages.urls import base_path, overview_url, run_page_url, run_url, static_url
from kafka_rebalance.workflow.run import freeze
from kafka_rebalance.workflow.run.folder import RunFolder, file_name, newest_attempt, open_run_folder, runs_root
from kafka_rebalance.workflow.throttle import leases
from kafka_rebalance.workflow.throttle.leases import StoredLease

log = logging.getLogger(__name__)

CHECK_TASK = "cluster.check"
RUNS_READ, RUNS_SHOWN, CHECKS_READ = 300, 3, 14
SKEW = "skew_"  # columns of the ledger's table `balance`
PATIENCE_SECONDS = 4.0  # for all folders together

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Records:
    """What Airflow's database has of one cluster."""

    connection_id: str
    rebalances: tuple[RebalanceRecord, ...]
    requests: tuple[RequestRecord, ...]  # that the reader may see
    waiting: frozenset[tuple[str, str]]  # Dag and run of every request, which a run's state is told by
    checks: tuple[CheckRecord, ...]
    is_frozen: bool


def overview_page(session: Session, asking: Collection[str]) -> HTMLResponse:
    """The page, with the open requests of the Dags `asking`. The app has checked login and permission."""
    tag = requests_tag(session, asking)
    html = render_overview(
        read_overview(session, asking),
        static_url=static_url(),
        janitor_url=f"{base_path()}/dags/{JANITOR_DAG}",
        overview_url=overview_url(),
        requests_tag=tag,
    )
    return HTMLResponse(html)


def requests_tag(session: Session, asking: Collection[str]) -> str:
    """Another text once an approval was asked for or answered. Of Airflow's database alone: pages ask for it often."""
    asked = sorted(f"{one.created_at} {one.dag_id} {one.run_id}" for one in open_requests(session, asking))
    return sha256("\n".join(asked).encode()).hexdigest()


def read_overview(session: Session, asking: Collection[str], patience_seconds: float = PATIENCE_SECONDS) -> Overview:
    """The whole fleet, with the open requests of the Dags `asking`; what cannot be read is said where it belongs."""
    now = datetime.now(UTC)
    problems: list[str] = []
    nobody: bool | frozenset[str] = False
    names: list[str] = _or_problem(lambda: fleet(read_variable(CLUSTERS)), problems, list[str]())
    frozen = _or_problem(lambda: freeze.frozen_clusters(read_variable(freeze.VARIABLE)), problems, nobody)
    rebalances: dict[str, list[RebalanceRecord]] = {}
    for run in recent_rebalances(session, REBALANCE_DAG, RUNS_READ):
        asked = run.conf.get("kafka_conn_id")
        of_asked = file_name(asked) if isinstance(asked, str) else ""
        rebalances.setdefault(_connection_of(run.folder) or of_asked, []).append(run)
    requests: dict[str, list[RequestRecord]] = {}
    open_now = open_requests(session, {REBALANCE_DAG, *asking})
    waiting = frozenset((one.dag_id, one.run_id) for one in open_now)
    for request in (one for one in open_now if one.dag_id in asking):
        requests.setdefault(_connection_of(request.folder), []).append(request)
    checks = recent_checks(session, CHECK_DAG, CHECK_TASK, CHECKS_READ)
    records = [
        Records(
            name,
            tuple(rebalances.get(file_name(name), ())),
            tuple(requests.get(file_name(name), ())),
            waiting,
            checks,
            frozen is True or (frozen is not False and name in frozen),
        )
        for name in names
    ]
    stored = _in_time({"": leases.stored}, patience_seconds / 2).get("")
    if not isinstance(stored, tuple):
        problems.append(f"The throttle leases cannot be read: {stored}")
        stored = None
    problems += [
        f"The throttle lease {one.name} cannot be read: {one.problem}" for one in stored or () if one.lease is None
    ]
    reads = {one.connection_id: lambda one=one: _read_cluster(one, stored, now) for one in records}
    found = _in_time(reads, patience_seconds)
    clusters = [
        answer if isinstance(answer := found[one.connection_id], Cluster) else _unread(one, stored, now, str(answer))
        for one in records
    ]
    if not names and not problems:
        problems.append(
            f"The Variable {CLUSTERS} names no cluster. Set it under Admin, Variables, to a JSON list of connection "
            'ids, as in ["kafka_eu", "kafka_us"].'
        )
    return Overview(
        now,
        report.worst_first(clusters),
        tuple(problems),
        freeze_link=Link(f"Variable {freeze.VARIABLE}", f"{base_path()}/variables"),
        all_frozen=frozen is True,
    )


def _or_problem(read: Callable[[], T], problems: list[str], otherwise: T) -> T:
    try:
        return read()
    except Exception as failed:  # a secrets backend may raise anything
        problems.append(str(failed) if isinstance(failed, RebalanceError) else f"{type(failed).__name__}: {failed}")
        return otherwise


def _connection_of(folder: str | None) -> str:
    """The name of the connection's folder, in which this folder of a run lies; empty where there is none.

    From the text alone: storage that hangs is met only in a cluster's own thread, where the folder is also checked.
    """
    parts = (folder or "").rstrip("/").split("/")
    return parts[-3] if len(parts) > 3 else ""


# --- folders, each cluster in a thread of its own


class _Reading:
    """One read in its own thread. A daemon: storage that hangs must not keep the web server from ending."""

    def __init__(self, name: str, read: Callable[[], Any]) -> None:
        self.done = threading.Event()
        self.answer: Any = None
        self._read = read
        threading.Thread(target=self._run, name=f"kafka balance {name}", daemon=True).start()

    def _run(self) -> None:
        try:
            self.answer = self._read()
        except Exception as failed:
            log.warning("The overview could not read a cluster", exc_info=True)
            self.answer = f"{type(failed).__name__}: {failed}"
        finally:
            self.done.set()


_stuck: dict[str, _Reading] = {}  # by cluster: reads of earlier pages that have not ended; no second one is begun
_guard = threading.Lock()


def _in_time(reads: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """What each read gives, or text that says why it gave nothing, after no more than these seconds in all."""
    until = time.monotonic() + seconds
    with _guard:
        for name in [name for name, reading in _stuck.items() if reading.done.is_set()]:
            del _stuck[name]
        begun = {name: None if name in _stuck else _Reading(name, read) for name, read in reads.items()}
    found: dict[str, Any] = {}
    for name, reading in begun.items():
        if reading is not None and reading.done.wait(max(0.0, until - time.monotonic())):
            found[name] = reading.answer
            continue
        if reading is not None:
            with _guard:
                _stuck[name] = reading
        found[name] = (
            f"Its folder below {runs_root()} did not answer in time. Nothing of it is known here; look at the storage "
            "that [kafka_rebalance] runs_url names, and reload the page."
        )
    return found


def _unread(records: Records, stored: Sequence[StoredLease] | None, now: datetime, why: str) -> Cluster:
    """What is known without the cluster's folder."""
    return Cluster(
        records.connection_id,
        now,
        check_run=_check_run(records),
        approvals=_approvals(records),
        lease=_lease(records, stored),
        is_frozen=records.is_frozen,
        problems=(why,),
    )


def _read_cluster(records: Records, stored: Sequence[StoredLease] | None, now: datetime) -> Cluster:
    problems: list[str] = []
    newest = _newest_verdict(records, problems)
    return replace(
        _unread(records, stored, now, ""),
        check=None if newest is None else report.read_check(newest),
        trends=trends(_observed(records.connection_id, now, problems)),
        runs=tuple(_run(record, records) for record in records.rebalances[:RUNS_SHOWN]),
        janitor=_janitor(records.connection_id, problems),
        problems=tuple(problems),
    )


def _newest_verdict(records: Records, problems: list[str]) -> dict[str, Any] | None:
    """Of the newest check that has come to one."""
    for check in records.checks:
        run = runs_root() / file_name(records.connection_id) / file_name(check.run_id)
        try:
            folder = newest_attempt(run)
            verdict = None if folder is None else json_files.read_json_if_there(folder, VERDICT)
            if verdict is not None:
                return verdict
        except (ArtifactError, OSError) as unreadable:
            problems.append(f"The check of {check.run_id} cannot be read: {unreadable}")
    return None


def _observed(connection_id: str, now: datetime, problems: list[str]) -> list[tuple[datetime, str, float, float]]:
    """(time, resource, skew, limit) of the ledger's table `balance`; a resource that was not known has no row."""
    try:
        found = ledger.read("balance", connection_id, report.NIGHTS, now=now)
    except StorageError as unreadable:
        problems.append(str(unreadable))
        return []
    if found.unreadable:
        files = ", ".join(found.unreadable[:3])
        problems.append(f"{len(found.unreadable)} files of the ledger cannot be read, so checks are missing: {files}")
    return [
        (row["observed_at"], column.removeprefix(SKEW), row[column], row["limit"])
        for row in found.rows
        for column in row
        if column.startswith(SKEW) and row[column] is not None and row["limit"] is not None
    ]


def _run(record: RebalanceRecord, records: Records) -> Run:
    """Our own state of the run, out of its folder."""
    link = Link("Report", run_page_url(record.dag_id, record.run_id), inside=True)
    made = Run(record.run_after, RunState.PLANNING, record.state, link)
    try:
        folder = open_run_folder(record.folder) if record.folder is not None else None
        is_asked = (record.dag_id, record.run_id) in records.waiting
        return replace(made, state=run_state(_facts(folder, record.state in ACTIVE_STATES, is_asked)))
    except (RebalanceError, OSError) as unreadable:
        return replace(made, problem=f"its folder cannot be read: {unreadable}")


def _facts(folder: RunFolder | None, is_active: bool, is_asked: bool) -> RunFacts:
    """What the run's page tells the state by; of the plan's files, which may be long, only what counts."""

    def found(name: str, counts: bool = True) -> dict[str, Any] | None:
        return None if folder is None or not counts else json_files.read_json_if_there(folder, name)

    decision, verification = found(json_files.DECISION), found(json_files.VERIFICATION)
    by_plan = decision is None and verification is None and not is_asked
    return run_facts(
        snapshot=found(json_files.SNAPSHOT, by_plan),
        proposals=found(json_files.PROPOSALS, by_plan),
        segments=found(json_files.SEGMENTS, by_plan),
        decision=decision,
        batches=found(json_files.BATCHES),
        verification=verification,
        is_active=is_active,
        has_open_request=is_asked,
    )


def _janitor(connection_id: str, problems: list[str]) -> Janitor | None:
    folder, name = runs_root() / json_files.JANITOR, f"{file_name(connection_id)}.json"
    try:
        found = json_files.read_json_if_there(folder, name)
        return None if found is None else report.read_janitor(found)
    except (ArtifactError, OSError) as unreadable:
        problems.append(f"The janitor's report cannot be read: {unreadable}")
        return None


# --- what Airflow's database and the leases tell


def _check_run(records: Records) -> CheckRun | None:
    for check in records.checks:
        if records.connection_id in check.tasks:
            index, state = check.tasks[records.connection_id]
            url = f"{run_url(CHECK_DAG, check.run_id)}/tasks/{CHECK_TASK}/mapped/{index}"
            return CheckRun(state, check.run_after, Link("Log of the check", url))
    return None


def _approvals(records: Records) -> tuple[Approval, ...]:
    return tuple(
        Approval(
            request.subject,
            request.created_at,
            request.people,
            Link(
                "Answer it",
                f"{run_url(request.dag_id, request.run_id)}/tasks/{quote(request.task_id, safe='')}/required_actions",
            ),
        )
        for request in records.requests
    )


def _lease(records: Records, stored: Sequence[StoredLease] | None) -> Lease | None:
    if stored is None:
        return Lease("", None, None, None, None, problem="not known: the leases cannot be read")
    for one in stored:
        lease = one.lease
        if lease is None or lease.connection_id != records.connection_id or lease.released_at is not None:
            continue
        dag_id, _, run_id = lease.run.partition("/")
        here = any(run.run_id == run_id for run in records.rebalances)
        return Lease(
            lease.run,
            lease.bytes_per_second,
            _time(lease.taken_at),
            _time(lease.handed_over_at),
            Link("Its run", run_page_url(dag_id, run_id), inside=True) if here else None,
        )
    return None


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
