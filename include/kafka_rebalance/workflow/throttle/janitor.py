"""The custodian of throttles and locks whose run is gone, one cluster at a time. Decisions: `execution.janitor`.

Each look takes care of the cluster's lease and lock; now and then, and whenever a person asks for something, the whole
cluster is swept for what nobody holds. What was found is in `runs_url / janitor / <connection>.json`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.documents.storage import make_folder
from kafka_rebalance.errors import (
    ArtifactError,
    ClusterNotReadyError,
    FormatVersionError,
    LockHeldError,
    LockLostError,
    ReadError,
    RebalanceError,
    StorageError,
    UnwatchedError,
)
from kafka_rebalance.execution.janitor.follower_silence import Sighting, sighted
from kafka_rebalance.execution.janitor.lease_custody import (
    UNWATCHED_SECONDS,
    AirflowState,
    custody,
)
from kafka_rebalance.execution.janitor.unheld_findings import UnheldFinding
from kafka_rebalance.execution.throttle.in_force import set_now as throttle_now
from kafka_rebalance.execution.throttle.lifted_by_others import lifted, lifted_text, wanted_for
from kafka_rebalance.execution.throttle.still_copying import (
    absent_receivers,
    copying_of,
    slowed_catch_up,
)
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.same_airflow import is_same_airflow
from kafka_rebalance.steps.deployment import read_connection
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.workflow.fleet import fleet
from kafka_rebalance.workflow.run.folder import file_name, open_run_folder, runs_root
from kafka_rebalance.workflow.run.lock import forget_old_locks, noted_connections, this_airflow
from kafka_rebalance.workflow.throttle import cluster_lease, leases, sweeping
from kafka_rebalance.workflow.throttle.entity_configs import read_configs
from kafka_rebalance.workflow.throttle.long_pause import waits_long
from kafka_rebalance.workflow.throttle.standing import read_standing
from kafka_rebalance.workflow.throttle.suspension import suspend
from kafka_rebalance.workflow.throttle.sweeping import Asked, read_asked
from kafka_rebalance.workflow.throttle.throttling import put_back
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view

log = logging.getLogger(__name__)

# While copies are in flight a look comes every 10 s until the next minute's task starts, so that silence is noticed
# within a minute.
WATCH_SECONDS, LOOK_SECONDS = 45.0, 10.0
SWEEP_SECONDS = 600.0
REMIND_SECONDS = 1800.0  # the same alert fails the task again after this


@dataclass
class Look:
    """What one look at a cluster's lease and lock found and did."""

    cluster_id: str
    copying: int = 0
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    alerts: dict[str, str] = field(default_factory=dict)  # what stays the same about it -> its text
    holder: str | None = None
    followed: Sighting | None = None  # the signs of whoever follows the lease's run
    not_broken: str | None = None  # why the lock that a person wanted broken is still there


def clusters(variable: Any, kafka_conn_id: str | None) -> list[str]:
    """The connections to look at: the one asked for, else those of the Variable, of every open lease, and of every lock
    that a run noted before it took it.
    """
    if kafka_conn_id:
        return [kafka_conn_id]
    found = fleet(variable)
    for stored in leases.stored():
        if stored.lease is None:
            log.error("%s cannot be read, nothing of it is touched: %s", stored.name, stored.problem)
        elif stored.lease.connection_id and stored.lease.released_at is None:
            found.append(stored.lease.connection_id)
    found += noted_connections()
    return list(dict.fromkeys(found))


def tend(inputs: StepInputs, connection_id: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Looks after one cluster and returns its report. Raises UnwatchedError where somebody has to look, once for each
    trouble and again every half hour, and LockHeldError where a lock was to be broken and was not; what was found is
    written down before that.
    """
    asked = read_asked(connection_id, params, inputs.run)
    before = read_report(connection_id)
    connection = read_connection(connection_id)
    with open_client(connection.zookeeper) as client:
        look = _watch(client, asked, Sighting.from_mapping(before.get("followed")))
        findings, swept_at = _swept_before(before)
        cleaned: list[str] = []
        if asked or _is_due(swept_at, SWEEP_SECONDS):
            try:
                found = sweeping.sweep(client, connection, to_clean=bool(asked.clean))
            except (ReadError, ArtifactError) as unreadable:
                if asked.clean:
                    raise
                look.warnings.append(f"The cluster could not be swept: {unreadable}")
            else:
                cleaned = sweeping.clean(client, connection_id, asked, found)
                look.warnings += found.unread
                findings = [asdict(one) for one in found.findings if one.id not in cleaned]
            swept_at = leases.now()
    raised = _raised(look, before.get("raised", {}))
    report = {
        "connection_id": connection_id,
        "cluster_id": look.cluster_id,
        "looked_at": leases.now(),
        "lines": look.lines,
        "lock": look.holder,
        "followed": look.followed.to_mapping() if look.followed else None,
        "alerts": sorted(look.alerts.values()),
        "warnings": look.warnings,
        "findings": findings,
        "cleaned": cleaned,
        "swept_at": swept_at,
        "raised": {**{key: at for key, at in before.get("raised", {}).items() if key in look.alerts}, **raised},
    }
    _write_report(connection_id, report)
    _log(connection_id, report)
    if look.holder is None:
        forget_old_locks(connection_id)
    if look.not_broken is not None:
        raise LockHeldError(look.not_broken)
    if raised:
        raise UnwatchedError(" ".join(look.alerts[key] for key in sorted(raised)))
    return report


def _watch(client: KazooClient, asked: Asked, followed: Sighting | None) -> Look:
    """One look, and while copies are in flight further ones until the next task takes over; the last of them."""
    until = time.monotonic() + WATCH_SECONDS
    while True:
        look = look_after(client, asked, followed)
        followed = look.followed
        if not look.copying or look.alerts or asked or time.monotonic() >= until:
            return look
        time.sleep(LOOK_SECONDS)


def look_after(
    client: KazooClient,
    asked: Asked = Asked(),  # noqa: B008  an immutable value
    followed: Sighting | None = None,
) -> Look:
    """Takes care of the cluster's lease, and of the lock of a run that is over. `followed`: of the last look."""
    look = _look_after(client, asked, followed)
    if asked.break_lock is not None and look.holder is not None:
        why = [*look.lines, *look.alerts.values()][-1]
        if not asked.breaks(*look.holder.split(" of ", 1)):
            why = f"break_lock names {asked.break_lock!r}. Give the owner exactly as named here, if its run is over."
        look.not_broken = f"The cluster is held by {look.holder}. The lock was not broken: {why}"
        look.warnings.append(look.not_broken)
    return look


def _look_after(client: KazooClient, asked: Asked, followed: Sighting | None) -> Look:
    view = read_cluster_view(client, ())
    look = Look(view.cluster_id, followed=followed)
    holder = cluster_lock.read(client)
    try:
        lease = cluster_lease.read_open(client, view.cluster_id)
    except (StorageError, FormatVersionError) as unreadable:
        look.alerts["lease"] = f"{unreadable} The janitor touches nothing of this cluster's throttle and lock."
        look.holder = holder.name if holder else None
        return look
    except ArtifactError as unreadable:
        if not _set_damaged_aside(client, asked, look, holder, unreadable):
            look.holder = holder.name if holder else None
            return look
        lease = cluster_lease.read_open(client, view.cluster_id)  # an earlier one that can be read
    if lease is not None and _is_elsewhere(lease, asked):
        look.lines.append(f"the throttle is held by run {lease.run} of another Airflow ({lease.owner}): left to it")
        look.holder = holder.name if holder else None
        return look
    if lease is not None and not _tend_lease(client, lease, asked, look):
        look.holder = holder.name if holder else None
        return look
    look.holder = _tend_lock(client, asked, look)
    return look


def _set_damaged_aside(
    client: KazooClient, asked: Asked, look: Look, holder: cluster_lock.LockOwner | None, why: ArtifactError
) -> bool:
    """A lease that nothing tells of any more stops nobody for good: whoever breaks the lock by name says that its run
    is over, and where nobody holds the cluster no run goes on. Not while anything is in motion.
    """
    whole = read_cluster_view(client)
    if whole.reassignments is not None or whole.moving:
        look.alerts["lease"] = f"{why} It is kept while a reassignment is in motion."
        return False
    if holder is not None and not asked.breaks(holder.run, holder.owner):
        look.alerts["lease"] = (
            f"{why} The janitor touches nothing of this cluster's throttle and lock. If run {holder.name} is over, "
            f"start kafka_throttle_janitor with break_lock '{holder.name}': it sets the damaged lease aside and gives "
            "the lock back, and lists what is left of the throttle to be ticked."
        )
        return False
    taken = cluster_lease.set_damaged_aside(client, look.cluster_id)
    look.warnings.append(
        f"A lease that could not be read was set aside ({', '.join(taken)}): {why} Tick what is left of its throttle "
        "in the findings of the next sweep."
    )
    return True


def _is_elsewhere(lease: ThrottleLease, asked: Asked) -> bool:
    """Whether another Airflow took it, which has the run's folder and its own janitor; unless a person says that the
    run is over.
    """
    theirs = not is_same_airflow(lease.owner, this_airflow()) and not cluster_lease.has_file(lease)
    return theirs and not asked.breaks(lease.run, lease.owner)


def _tend_lease(client: KazooClient, lease: ThrottleLease, asked: Asked, look: Look) -> bool:
    """Whether nothing of the lease is left."""
    view = read_cluster_view(client, lease.topics)
    copying = copying_of(lease, view)
    # Whoever breaks its lock by name says that the run is over.
    said = asked.breaks(lease.run, lease.owner)
    standing = AirflowState.GONE if said else read_standing(lease.run, lease.owner)
    decided = custody(lease, standing, copying, _silent_seconds(lease, look))
    look.copying = len(copying)
    look.lines.append(decided.state)
    absent = absent_receivers(lease, view)
    look.warnings += (*_slowed_catch_up(client, lease, view), *absent)
    if decided.alert is not None:
        look.alerts[f"{lease.run} {standing} {lease.handed_over_at}"] = " ".join((decided.alert, *absent))
    if not decided.put_back:
        if not copying and (waits := waits_long(lease)) is not None:
            look.alerts[f"{lease.run} waits"] = waits
            _suspend(client, lease, look)
        if lease.suspended_at is not None:
            return False  # nothing of it has to be in force
        wanted = wanted_for(lease, copying & view.moving)  # what is over and catches up need not be listed
        if found := lifted(wanted, lease.own_rates, read_configs(client, wanted)):
            look.alerts[f"{lease.run} throttle lifted"] = f"Run {lease.run}: {lifted_text(found)}"
        return False
    try:
        result = put_back(client, lease)
    except ClusterNotReadyError as migrated:
        look.alerts[f"{lease.run} migrated"] = str(migrated)
        return False
    look.warnings += result.foreign
    if not result.complete:
        return False
    look.lines.append(f"run {lease.run}: its throttle was put back")
    return decided.release_lock


def _slowed_catch_up(client: KazooClient, lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """By what is set now: the lists are those of the batch under way."""
    if not slowed_catch_up(lease, view):
        return ()
    set_now: dict[str, dict[str, str]] = {}
    for entity, key, value in throttle_now(lease.wanted, read_configs(client, lease.entities)):
        set_now.setdefault(entity, {})[key] = value
    return slowed_catch_up(replace(lease, wanted=set_now), view)


def _suspend(client: KazooClient, lease: ThrottleLease, look: Look) -> None:
    try:
        if suspend(client, lease):
            look.lines.append(f"run {lease.run}: its throttle is put back until its next batch")
    except ClusterNotReadyError as migrated:
        look.alerts[f"{lease.run} migrated"] = str(migrated)


def _tend_lock(client: KazooClient, asked: Asked, look: Look) -> str | None:
    """Who holds the cluster afterwards. A lock is given back where its run is known to be over and nothing moves."""
    fence = cluster_lock.read_fence(client)  # before Airflow is asked: a run that is cleared goes on under a later one
    holder = cluster_lock.read(client)
    if holder is None:
        if asked.break_lock is not None:
            look.warnings.append("Nobody holds the cluster, so there is no lock to break.")
        return None
    by_name = asked.breaks(holder.run, holder.owner)
    standing = read_standing(holder.run, holder.owner)
    if not (by_name or standing.is_ended):
        look.lines.append(f"the cluster is held by {holder.name} ({standing})")
        return holder.name
    view = read_cluster_view(client)
    if view.reassignments is not None or view.moving:
        look.lines.append(f"the lock of {holder.name} is kept: a reassignment is in motion")
        return holder.name
    try:
        cluster_lock.release(client, holder, fence=fence)
    except LockLostError:
        look.lines.append(f"the lock of {holder.name} is kept: somebody goes on with that run")
        return holder.name
    look.lines.append(f"the lock of {holder.name} was given back ({f'by {asked.by}' if by_name else standing})")
    return None


def _silent_seconds(lease: ThrottleLease, look: Look) -> float:
    """Since the run took its throttle, requested a batch, or looked at one."""
    signs = (lease.taken_at, *_signs(lease))
    look.followed = sighted(look.followed, signs, datetime.now(UTC), UNWATCHED_SECONDS)
    return look.followed.silent_seconds


def _signs(lease: ThrottleLease) -> list[Any]:
    """What the run's folder tells; nothing where it is gone or cannot be read."""
    signs: list[Any] = []
    try:
        folder = open_run_folder(lease.run_folder)
        noted = json_files.read_json_if_there(folder, json_files.BATCHES)
        signs += [batch["created_at"] for batch in (noted or {}).get("batches", ())]
        progress = json_files.read_json_if_there(folder, json_files.PROGRESS)
        if progress is not None:
            signs.append(progress["updated_at"])
    except (RebalanceError, OSError, KeyError, TypeError) as unreadable:
        log.warning("run %s: its folder does not tell when it was last followed (%s)", lease.run, unreadable)
    return signs


def _is_due(at: object, seconds: float) -> bool:
    """Whether so long has passed since; also where that is no time, or one of a clock that was ahead."""
    try:
        passed = (datetime.now(UTC) - datetime.fromisoformat(str(at))).total_seconds()
    except (ValueError, TypeError):
        return True
    return not 0 <= passed < seconds


def _raised(look: Look, before: Mapping[str, str]) -> dict[str, str]:
    """The alerts that fail the task now, with the time."""
    return {key: leases.now() for key in look.alerts if _is_due(before.get(key), REMIND_SECONDS)}


def read_report(connection_id: str) -> dict[str, Any]:
    """What the janitor wrote last; nothing where it has not, or where that cannot be read."""
    folder = runs_root() / json_files.JANITOR
    try:
        return json_files.read_json(folder, f"{file_name(connection_id)}.json")
    except ArtifactError:
        return {}


def _swept_before(report: Mapping[str, Any]) -> tuple[list[dict[str, Any]], object]:
    """The findings of the last sweep and its time; no time where they cannot be read, so that a sweep is due."""
    try:
        findings = [dict(found) for found in report.get("findings", ())]
        for found in findings:
            UnheldFinding.from_mapping(found)
    except (KeyError, TypeError, ValueError) as unreadable:
        log.warning("The findings of the last sweep cannot be read (%r): the cluster is swept again.", unreadable)
        return [], None
    return findings, report.get("swept_at")


def _write_report(connection_id: str, report: Mapping[str, Any]) -> None:
    folder = runs_root() / json_files.JANITOR
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
