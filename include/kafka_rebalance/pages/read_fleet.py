"""What folders, ledger and leases tell of every cluster of the fleet, each cluster in a thread of its own.

A folder that is slow or cannot be read is a problem of its own cluster, and hides no other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kafka_rebalance.documents.janitor_report import JanitorReport, read_janitor_report
from kafka_rebalance.documents.json_files import JsonFile, T
from kafka_rebalance.documents.progress import BATCHES_FILE
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.segments import SEGMENTS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.errors import ArtifactError, RebalanceError, StorageError
from kafka_rebalance.pages.fleet import (
    CHECK_FILE,
    NIGHTS,
    WORST,
    Cluster,
    Moving,
    NightlyCheck,
    Run,
    Unread,
    trends,
)
from kafka_rebalance.pages.progress import live_words
from kafka_rebalance.pages.run_report import RunFiles, build_report
from kafka_rebalance.pages.run_state import RunState, run_facts, run_state
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approval_rules import DECISION_FILE
from kafka_rebalance.run.check_result import VERIFICATION_FILE
from kafka_rebalance.run.clusters import CHECK_DAG
from kafka_rebalance.run.inputs import Deployment, RunName
from kafka_rebalance.run.read_in_time import Reading, Reads
from kafka_rebalance.run.run_folder import (
    RunFolder,
    find_run_folder,
    folder_of_run,
    newest_attempt,
    open_run_folder,
)
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.lease_files import StoredLease

log = logging.getLogger(__name__)

SKEW = "skew_"  # columns of the ledger's table `balance`
_MOVES = (RunState.EXECUTING, RunState.CATCHING_UP)
_HOW_FAR = ("proposals", "decision", "throttle", "batches", "progress", "verification", "estimate", "rates")


@dataclass(frozen=True, slots=True)
class RunToRead:
    """A run by Airflow, and its name, from which the folder follows that tells its state. `pushed` is its XCom."""

    run: Run
    name: RunName
    pushed: str | None
    has_open_request: bool


@dataclass(frozen=True, slots=True)
class ClusterToRead:
    """`checks` are the newest nightly runs, the newest first."""

    connection_id: str
    checks: tuple[str, ...]
    runs: tuple[RunToRead, ...]


_clusters: Reads[Cluster] = Reads()
_leases: Reads[tuple[StoredLease, ...]] = Reads()


def read_leases(deployment: Deployment, seconds: float, problems: list[str]) -> tuple[StoredLease, ...] | None:
    """All throttle leases; None if they cannot be read in these seconds. Adds to `problems` what was not read."""
    reading = _leases.ask("leases", lambda: lease_files.stored(deployment))
    if why := _why_unread(deployment, reading, seconds):
        problems.append(f"The throttle leases cannot be read: {why}")
        return None
    stored = reading.result()
    problems += [
        f"The throttle lease {lease.name} cannot be read: {lease.problem}" for lease in stored if lease.lease is None
    ]
    return stored


def read_clusters(
    deployment: Deployment, clusters: Iterable[ClusterToRead], now: datetime, seconds: float
) -> tuple[Cluster, ...]:
    """What the folders of each cluster tell, after at most these seconds in all; else its problem.

    A read that an earlier page began and that has not ended yet is neither begun again nor waited for.
    """
    begun = [
        (one, _clusters.ask(one.connection_id, lambda one=one: _read_cluster(deployment, one, now)))  # type: ignore[misc]
        for one in clusters
    ]
    return tuple(
        Cluster(one.connection_id, now, problems=(Unread("Its folder cannot be read", why),))
        if (why := _why_unread(deployment, reading, seconds))
        else reading.result()
        for one, reading in begun
    )


def _why_unread(deployment: Deployment, reading: Reading[Any], seconds: float) -> str:
    """Empty if it was read."""
    if not reading.ended_within(seconds):
        return (
            f"Its folder below {deployment.runs_root} did not answer in time, so nothing of it is known. Check the "
            "storage that [kafka_rebalance] runs_url names, and reload the page."
        )
    failed = reading.exception()
    if failed is None:
        return ""
    log.warning("The overview could not read a cluster", exc_info=failed)
    return f"{type(failed).__name__}: {failed}"


def _read_cluster(deployment: Deployment, cluster: ClusterToRead, now: datetime) -> Cluster:
    name, problems, gaps = cluster.connection_id, list[Unread](), list[str]()
    resources = trends(_observed(deployment, name, now, gaps), now)
    return Cluster(
        name,
        now,
        check=_newest_check(deployment, cluster, problems),
        skew=next((trend for trend in resources if trend.resource == WORST), None),
        trends=tuple(trend for trend in resources if trend.resource != WORST),
        runs=tuple(_run(deployment, name, run, now) for run in cluster.runs),
        janitor=_janitor(deployment, name, problems),
        problems=tuple(problems),
        gaps=tuple(gaps),
    )


def _newest_check(deployment: Deployment, cluster: ClusterToRead, problems: list[Unread]) -> NightlyCheck | None:
    for check in cluster.checks:
        try:
            folder = newest_attempt(folder_of_run(deployment, cluster.connection_id, check), CHECK_DAG)
            if folder is not None and (nightly_check := CHECK_FILE.read_if_there(folder)) is not None:
                return nightly_check
        except (ArtifactError, OSError) as unreadable:
            error = f"The check of {check} cannot be read: {unreadable}"
            problems.append(Unread("Its newest check cannot be read", error))
    return None


def _observed(
    deployment: Deployment, connection_id: str, now: datetime, gaps: list[str]
) -> list[tuple[datetime, str, float, float]]:
    """(time, resource or WORST, skew, limit) of the ledger's table `balance`, for known values."""
    try:
        table = ledger.read(deployment, "balance", connection_id, NIGHTS, now=now)
    except StorageError as unreadable:
        gaps.append(str(unreadable))
        return []
    if table.unreadable:
        files = ", ".join(table.unreadable[:3])
        gaps.append(f"{len(table.unreadable)} files of the ledger cannot be read, so checks are missing: {files}")
    return [
        (row["observed_at"], column.removeprefix(SKEW), row[column], row["limit"])
        for row in table.rows
        for column in row
        if (column == WORST or column.startswith(SKEW)) and row[column] is not None and row["limit"] is not None
    ]


def _run(deployment: Deployment, connection_id: str, of: RunToRead, now: datetime) -> Run:
    run = of.run
    try:
        folder = find_run_folder(deployment, of.name, connection_id)
        if folder is None and of.pushed is not None:  # opening it says why it is not there
            folder = open_run_folder(deployment, of.pushed)
        state = read_run_state(folder, is_active=run.is_active, has_open_request=of.has_open_request)
        run = replace(run, state=state)
        if folder is not None and run.is_active and state in _MOVES:
            run = replace(run, moving=_moving(folder, now))
    except (RebalanceError, OSError) as unreadable:
        return replace(run, problem=f"its folder cannot be read: {unreadable}")
    return run


def _moving(folder: RunFolder, now: datetime) -> Moving | None:
    """As on the run's page; None before the follower has noted anything."""
    report = build_report(RunFiles.read(folder, _HOW_FAR))
    progress, words = report.execution.progress, live_words(report, now)
    if progress is None:
        return None
    return Moving(
        progress.updated_at,
        report.execution.partitions_done,
        progress.partitions_total,
        report.execution.bytes_copied,
        progress.bytes_total,
        rest=words.rest,
        is_followed=not words.silence,
        findings=progress.anomalies,
        waits_for=progress.waiting_for or (),
    )


def read_run_state(folder: RunFolder | None, *, is_active: bool, has_open_request: bool) -> RunState:
    """As on the run's page; the plan's files, which may be long, are read only if they count."""

    def read(file: JsonFile[T], counts: bool = True) -> T | None:
        return None if folder is None or not counts else file.read_if_there(folder)

    decision, verification = read(DECISION_FILE), read(VERIFICATION_FILE)
    by_plan = decision is None and verification is None and not has_open_request
    facts = run_facts(
        snapshot=read(SNAPSHOT_FILE, by_plan),
        proposals=read(PROPOSALS_FILE, by_plan),
        segments=read(SEGMENTS_FILE, by_plan),
        decision=decision,
        batches=read(BATCHES_FILE),
        verification=verification,
        is_active=is_active,
        has_open_request=has_open_request,
    )
    return run_state(facts)


def _janitor(deployment: Deployment, connection_id: str, problems: list[Unread]) -> JanitorReport | None:
    try:
        return read_janitor_report(deployment.runs_root, connection_id)
    except (ArtifactError, OSError) as unreadable:
        what = "The janitor's report cannot be read"
        problems.append(Unread(what, f"{what}: {unreadable}"))
        return None
