"""Takes care of throttles and locks whose run is gone, one cluster at a time.

Each look takes care of the cluster's lease and lock. Every ten minutes, and when a person asks for something, the
janitor also sweeps the whole cluster for throttles, configs and replicas that no run holds. The result is its report.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.janitor_report import (
    JanitorReport,
    OpenThrottle,
    RunProgress,
    Sighting,
    read_janitor_report,
    write_janitor_report,
)
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import (
    ArtifactError,
    LockHeldError,
    ReadError,
    RunFolderError,
    SettingsError,
    UnwatchedError,
)
from kafka_rebalance.run.clusters import fleet
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.run.run_lock import forget_old_locks, noted_connections
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.janitor import sweep
from kafka_rebalance.throttle.janitor.look_after_lease import Look, look_after_lease
from kafka_rebalance.throttle.janitor.sweep import Asked, read_asked
from kafka_rebalance.throttle.lease_copies import ClusterLease

log = logging.getLogger(__name__)


# While copies are in flight, the janitor looks every 10 s until the next minute's task starts. So it notices a silent
# follower within a minute.
WATCH_SECONDS, LOOK_SECONDS = 45.0, 10.0
SWEEP_SECONDS = 600.0
REMIND_SECONDS = 1800.0  # after this time the same alert fails the task again


def clusters(deployment: Deployment, variable: Any, kafka_conn_id: str | None) -> list[str]:
    """The connections to look at: the requested one, or those of the Variable, of all leases with something yet to
    put back, and of all locks.

    A run notes its lock below `runs_url` before it takes it. A mistyped Variable is logged: whoever has an open lease
    or a lock is looked after all the same.
    """
    if kafka_conn_id:
        return [kafka_conn_id]
    try:
        found = fleet(variable)
    except SettingsError as mistyped:
        log.error("%s", mistyped)
        found = []
    for stored in lease_files.stored(deployment):
        if stored.lease is None:
            log.error("The lease %s cannot be read, so the janitor leaves it alone: %s", stored.name, stored.problem)
        elif stored.lease.connection_id and (stored.lease.released_at is None or stored.lease.all_left):
            found.append(stored.lease.connection_id)
    return list(dict.fromkeys([*found, *noted_connections(deployment)]))


def look_after_cluster(inputs: StepInputs, connection_id: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Looks after one cluster and returns its report, which it writes before it raises.

    Raises UnwatchedError if a person has to act: once for each alert, and again every half hour. Raises LockHeldError
    if a person wanted a lock broken and it was not.
    """
    asked = read_asked(inputs, connection_id, params)
    deployment = inputs.deployment
    before = last_report(deployment, connection_id) or JanitorReport()
    connection = deployment.read_connection(connection_id)
    with open_cluster(connection) as cluster:
        look = _watch(deployment, cluster, asked, before.followed)
        findings, swept_at = before.findings, before.swept_at
        cleaned: list[str] = []
        if asked or _is_due(swept_at, SWEEP_SECONDS):
            try:
                kept = ClusterLease(deployment, cluster, look.cluster_id)
                found = sweep.sweep(kept, connection, to_clean=bool(asked.clean))
            except (ReadError, ArtifactError) as unreadable:
                if asked.clean:
                    raise
                look.warnings.append(f"The cluster could not be swept: {unreadable}")
            else:
                cleaned = sweep.clean(kept, connection_id, asked, found)
                look.warnings += found.unread
                findings = tuple(finding for finding in found.findings if finding.id not in cleaned)
            swept_at = clock.utc_second()
    lease, now = _open_lease(deployment, look.cluster_id), clock.utc_second()
    raised = {key: now for key in look.alerts if _is_due(before.raised.get(key), REMIND_SECONDS)}
    report = JanitorReport(
        connection_id=connection_id,
        cluster_id=look.cluster_id,
        looked_at=now,
        lines=tuple(look.lines),
        lock=look.holder,
        locked_since=_locked_since(before, look.holder, now),
        throttle=None if lease is None else OpenThrottle(json_files.time_in(lease.taken_at), lease.bytes_per_second),
        progress=_run_progress(deployment, lease, before.progress, clock.utc_now()),
        followed=look.followed,
        alerts=tuple(sorted(look.alerts.values())),
        warnings=tuple(look.warnings),
        findings=findings,
        cleaned=tuple(cleaned),
        swept_at=swept_at,
        raised={key: at for key, at in {**before.raised, **raised}.items() if key in look.alerts},
    )
    write_janitor_report(deployment.runs_root, connection_id, report)
    _log(connection_id, report)
    if look.holder is None:
        forget_old_locks(deployment, connection_id)
    if look.not_broken is not None:
        raise LockHeldError(look.not_broken)
    if raised:
        raise UnwatchedError(" ".join(look.alerts[key] for key in sorted(raised)))
    written: dict[str, Any] = json_files.as_read(report)
    return written


def _watch(deployment: Deployment, cluster: OpenCluster, asked: Asked, followed: Sighting | None) -> Look:
    """Looks once; while copies are in flight, until the next task takes over. Returns the last look."""
    until = time.monotonic() + WATCH_SECONDS
    while True:
        look = look_after_lease(deployment, cluster, asked, followed)
        followed = look.followed
        if not look.copying or look.alerts or asked or time.monotonic() >= until:
            return look
        time.sleep(LOOK_SECONDS)


def _open_lease(deployment: Deployment, cluster_id: str) -> ThrottleLease | None:
    try:
        lease = lease_files.read(deployment, cluster_id)
    except ArtifactError:
        return None  # the look has told why
    return lease if lease is not None and lease.released_at is None else None


def _locked_since(before: JanitorReport, holder: str | None, now: datetime) -> datetime | None:
    """When the janitor first saw this holder of the lock."""
    if holder is None:
        return None
    return before.locked_since or now if before.lock == holder else now


def _is_due(at: datetime | None, seconds: float) -> bool:
    """Whether so many seconds have passed since `at`. True too if that is not known, or lies in the future."""
    return at is None or not 0 <= (clock.utc_now() - at).total_seconds() < seconds


def last_report(deployment: Deployment, connection_id: str) -> JanitorReport | None:
    """The janitor's last report; None if there is none, or if it cannot be read."""
    try:
        return read_janitor_report(deployment.runs_root, connection_id)
    except ArtifactError as unreadable:
        log.warning("The janitor's last report counts for nothing: %s", unreadable)
        return None


def _log(connection_id: str, report: JanitorReport) -> None:
    told = ((logging.ERROR, report.alerts), (logging.WARNING, report.warnings), (logging.INFO, report.lines))
    for level, texts in told:
        for text in texts:
            log.log(level, "%s: %s", connection_id, text)
    for finding in report.findings:
        name = finding.id if finding.can_be_cleaned else "-"
        log.warning("%s: %s | %s. %s", connection_id, name, finding.text, finding.remedy)
    for name in report.cleaned:
        log.info("%s: cleaned %s", connection_id, name)


# How far the run is that holds the cluster's throttle, and since when it has not come further.


def _run_progress(
    deployment: Deployment, lease: ThrottleLease | None, before: RunProgress | None, now: datetime
) -> RunProgress | None:
    """None if no run holds a throttle, or if it has noted nothing that can be read. `before` is of the last report."""
    if lease is None:
        return None
    try:
        noted = PROGRESS_FILE.read_if_there(open_run_folder(deployment, lease.run_folder))
    except (RunFolderError, ArtifactError):
        return None
    if noted is None:
        return None
    partitions_left = max(0, noted.partitions_total - noted.partitions_done)
    progress = RunProgress(lease.run, partitions_left, max(0, noted.bytes_total - noted.bytes_copied), now)
    is_same = before is not None and replace(progress, since=before.since) == before
    return before if is_same else progress
