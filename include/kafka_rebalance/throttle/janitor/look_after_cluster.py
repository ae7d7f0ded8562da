"""Takes care of throttles and locks whose run is gone, one cluster at a time.

Each look takes care of the cluster's lease and lock. Every ten minutes, and when a person asks for something, the
janitor also sweeps the whole cluster for throttles, configs and replicas that no run holds. The result is in
`runs_url / janitor / <connection>.json`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.clock import now_text
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.documents.storage import make_folder
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
from kafka_rebalance.run.run_folder import file_name, open_run_folder
from kafka_rebalance.run.run_lock import forget_old_locks, noted_connections
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.janitor import sweep
from kafka_rebalance.throttle.janitor.look_after_lease import Look, look_after_lease
from kafka_rebalance.throttle.janitor.rules import Sighting, UnheldFinding
from kafka_rebalance.throttle.janitor.sweep import Asked, read_asked
from kafka_rebalance.throttle.lease import ThrottleLease
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
    before = read_janitor_report(deployment, connection_id)
    connection = deployment.read_connection(connection_id)
    with open_cluster(connection) as cluster:
        look = _watch(deployment, cluster, asked, Sighting.from_mapping(before.get("followed")))
        findings, swept_at = _swept_before(before)
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
                findings = [asdict(finding) for finding in found.findings if finding.id not in cleaned]
            swept_at = now_text()
    lease = _open_lease(deployment, look.cluster_id)
    raised_before = before.get("raised", {})
    raised = {key: now_text() for key in look.alerts if _is_due(raised_before.get(key), REMIND_SECONDS)}
    report = {
        "connection_id": connection_id,
        "cluster_id": look.cluster_id,
        "looked_at": now_text(),
        "lines": look.lines,
        "lock": look.holder,
        "locked_since": _locked_since(before, look.holder),
        "throttle": None if lease is None else {key: getattr(lease, key) for key in ("taken_at", "bytes_per_second")},
        "progress": _run_progress(deployment, lease, before.get("progress"), clock.utc_now()),
        "followed": look.followed.to_mapping() if look.followed else None,
        "alerts": sorted(look.alerts.values()),
        "warnings": look.warnings,
        "findings": findings,
        "cleaned": cleaned,
        "swept_at": swept_at,
        "raised": {key: at for key, at in {**raised_before, **raised}.items() if key in look.alerts},
    }
    _write_report(deployment, connection_id, report)
    _log(connection_id, report)
    if look.holder is None:
        forget_old_locks(deployment, connection_id)
    if look.not_broken is not None:
        raise LockHeldError(look.not_broken)
    if raised:
        raise UnwatchedError(" ".join(look.alerts[key] for key in sorted(raised)))
    return report


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


def _locked_since(before: Mapping[str, Any], holder: str | None) -> str | None:
    """When the janitor first saw this holder of the lock."""
    if holder is None:
        return None
    return before.get("locked_since") or now_text() if before.get("lock") == holder else now_text()


def _is_due(at: object, seconds: float) -> bool:
    """Whether so many seconds have passed since `at`. True too if `at` is not a time, or lies in the future."""
    try:
        passed = (clock.utc_now() - datetime.fromisoformat(str(at))).total_seconds()
    except (ValueError, TypeError):
        return True
    return not 0 <= passed < seconds


def read_janitor_report(deployment: Deployment, connection_id: str) -> dict[str, Any]:
    """The janitor's last report; empty if there is none, or if it cannot be read."""
    folder = deployment.runs_root / json_files.JANITOR
    try:
        return json_files.read_json(folder, f"{file_name(connection_id)}.json")
    except ArtifactError:
        return {}


def _swept_before(report: Mapping[str, Any]) -> tuple[list[dict[str, Any]], object]:
    """The findings of the last sweep and its time. If they cannot be read, there is no time, so a sweep is due."""
    try:
        findings = [dict(found) for found in report.get("findings", ())]
        for finding in findings:
            UnheldFinding.from_mapping(finding)
    except (KeyError, TypeError, ValueError) as unreadable:
        log.warning(
            "The findings of the last sweep cannot be read (%r). The janitor sweeps the cluster again.", unreadable
        )
        return [], None
    return findings, report.get("swept_at")


def _write_report(deployment: Deployment, connection_id: str, report: Mapping[str, Any]) -> None:
    folder = deployment.runs_root / json_files.JANITOR
    make_folder(folder)
    json_files.write_json(folder, f"{file_name(connection_id)}.json", report)


def _log(connection_id: str, report: Mapping[str, Any]) -> None:
    for level, name in ((logging.ERROR, "alerts"), (logging.WARNING, "warnings"), (logging.INFO, "lines")):
        for text in report[name]:
            log.log(level, "%s: %s", connection_id, text)
    for found in report["findings"]:
        one = UnheldFinding.from_mapping(found)
        log.warning("%s: %s | %s. %s", connection_id, one.id if one.can_be_cleaned else "-", one.text, one.remedy)
    for one_id in report["cleaned"]:
        log.info("%s: cleaned %s", connection_id, one_id)


# How far the run is that holds the cluster's throttle, and since when it has not come further.


def _run_progress(
    deployment: Deployment, lease: ThrottleLease | None, before: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any] | None:
    """`progress` of the janitor's report; None if no run holds a throttle, or if it has noted nothing that can be read.

    `before`: the same of the last report. `since` is the janitor's time at which the copied bytes, or the partitions in
    place, were first seen as they are now.
    """
    if lease is None:
        return None
    try:
        written = json_files.read_json_if_there(open_run_folder(deployment, lease.run_folder), json_files.PROGRESS)
        seen = None if written is None else PROGRESS_FILE.decode(written)
    except (RunFolderError, ArtifactError):
        return None
    if seen is None:
        return None
    found = {
        "run": lease.run,
        "partitions_left": max(0, seen.partitions_total - seen.partitions_done),
        "bytes_left": max(0, seen.bytes_total - seen.bytes_copied),
    }
    is_same = before is not None and all(before.get(key) == value for key, value in found.items())
    return {**found, "since": before["since"] if is_same and before is not None else now.isoformat()}
