"""One look at a cluster's lease and lock. It puts back the throttle of a lost run. Rules: `execution.janitor`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from kafka_rebalance import clock
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.janitor_report import Sighting
from kafka_rebalance.documents.progress import BATCHES_FILE, PROGRESS_FILE
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import (
    ArtifactError,
    ClusterNotReadyError,
    ConfigChangedError,
    CorruptZnodeError,
    FormatVersionError,
    LockLostError,
    ReadError,
    RebalanceError,
    StorageError,
    WriteError,
)
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import AirflowState, LockOwner, is_same_airflow
from kafka_rebalance.run.clusters import how_to_stop
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.run.run_lock import read_standing, this_airflow
from kafka_rebalance.throttle.entity_configs import read_away, read_configs, read_lease_configs
from kafka_rebalance.throttle.in_force import set_now as throttle_now
from kafka_rebalance.throttle.janitor.rules import UNWATCHED_SECONDS, custody, sighted
from kafka_rebalance.throttle.janitor.sweep import Asked
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.put_back import (
    absent_receivers,
    copying_of,
    lifted,
    lifted_text,
    slowed_catch_up,
    wanted_for,
)
from kafka_rebalance.throttle.release_throttle import put_back, put_back_late, put_back_left_behind, read_copies_within
from kafka_rebalance.throttle.suspend_throttle import paused_until, suspend, waits_long

log = logging.getLogger(__name__)


@dataclass
class Look:
    """What one look found and did."""

    cluster_id: str
    copying: int = 0
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    alerts: dict[str, str] = field(default_factory=dict)  # {key that stays the same from look to look: text}
    holder: str | None = None
    followed: Sighting | None = None  # the signs of the follower of the lease's run
    not_broken: str | None = None  # why a lock that a person wanted broken still exists


def look_after_lease(
    deployment: Deployment,
    cluster: OpenCluster,
    asked: Asked = Asked(),  # noqa: B008  an immutable value
    followed: Sighting | None = None,
) -> Look:
    """Takes care of the cluster's lease, and of the lock of a run that is over. `followed` is from the last look."""
    look = _look_after(deployment, cluster, asked, followed)
    if asked.break_lock is not None and look.holder is not None:
        why = [*look.lines, *look.alerts.values()][-1]
        if not asked.breaks(*look.holder.split(" of ", 1)):
            why = f"break_lock names {asked.break_lock!r}. If the run is over, give the owner exactly as named here."
        look.not_broken = f"The cluster is held by {look.holder}. The lock was not broken: {why}"
        look.warnings.append(look.not_broken)
    return look


def _look_after(deployment: Deployment, cluster: OpenCluster, asked: Asked, followed: Sighting | None) -> Look:
    view = cluster.read_view(())
    kept = ClusterLease(deployment, cluster, view.cluster_id)
    look = Look(view.cluster_id, followed=followed)
    try:
        holder = cluster.lock.read()
    except CorruptZnodeError as damaged:
        if not _begin_lock_anew(cluster, asked, look, damaged):
            if asked.break_lock is not None:
                look.not_broken = f"The lock was not broken. {look.alerts['lock']}"
            return look
        holder = cluster.lock.read()
    look.holder = holder.name if holder else None
    try:
        lease = kept.read_open()
    except (StorageError, FormatVersionError) as unreadable:
        look.alerts["lease"] = f"{unreadable} The janitor leaves this cluster's throttle and lock alone."
        return look
    except ArtifactError as unreadable:
        if not _set_damaged_aside(kept, asked, look, holder, unreadable):
            return look
        lease = kept.read_open()  # an earlier lease that can be read
    try:
        returned = put_back_left_behind(kept)
        look.lines += returned.kept.values()
        for entity in returned.back:
            look.lines.append(f"{entity} is back, and what was left of a throttle there is put back")
        for entity in put_back_late(kept):
            look.warnings.append(f"{entity}: a worker that stood still had set a throttle late; it is put back")
    except (ConfigChangedError, LockLostError) as changed:
        look.lines.append(f"what was left of a throttle is put back at the next look: {changed}")
    if lease is not None and _is_elsewhere(kept, lease, asked):
        look.lines.append(
            f"run {lease.run} of another Airflow ({lease.owner}) holds the throttle, so the janitor leaves it alone"
        )
    elif lease is None or _tend_lease(kept, lease, asked, look):
        look.holder = _tend_lock(kept, asked, look)
    if look.holder is None:
        _take_back_late_copies(cluster, look)
    return look


def _take_back_late_copies(cluster: OpenCluster, look: Look) -> None:
    try:
        late = cluster.take_back_late_copies()
    except (ReadError, WriteError, CorruptZnodeError) as unread:
        look.lines.append(f"whether copies between log dirs came late is seen at the next look: {unread}")
        return
    if late:
        named = some([f"{tp} on broker {broker}" for broker, tp in sorted(late)])
        look.warnings.append(
            f"Copies between log dirs came after their run had ended, and were taken back: {named}. They had no rate."
        )


def _begin_lock_anew(cluster: OpenCluster, asked: Asked, look: Look, why: CorruptZnodeError) -> bool:
    """Makes a lock free that cannot be read, so that it does not block the cluster for ever.

    A person says so by the place of the lock, because no holder can be named. Nothing may be in motion.
    """
    place = cluster.lock.place
    if asked.break_lock != place:
        look.alerts["lock"] = (
            f"{why} The janitor leaves this cluster alone. break_lock '{place}' makes its lock free, once no run goes "
            "on and nothing is in motion."
        )
        return False
    whole = cluster.read_view()
    if whole.reassignments is not None or whole.moving:
        look.alerts["lock"] = f"{why} The janitor does not begin it anew while a reassignment is in motion."
        return False
    cluster.lock.begin_anew()
    look.warnings.append(f"The lock could not be read, and was begun anew ({place}), as {asked.by} asked: {why}")
    return True


def _set_damaged_aside(
    kept: ClusterLease, asked: Asked, look: Look, holder: LockOwner | None, why: ArtifactError
) -> bool:
    """Sets aside a lease of which no copy can be read, so that it does not block the cluster for ever.

    It needs a cluster without a lock, or a person who breaks the lock by name and so says that the run is over.
    Nothing may be in motion.
    """
    whole = kept.cluster.read_view()
    if whole.reassignments is not None or whole.moving:
        look.alerts["lease"] = f"{why} The janitor keeps it while a reassignment is in motion."
        return False
    if holder is not None and not asked.breaks(holder.run, holder.owner):
        look.alerts["lease"] = (
            f"{why} The janitor leaves this cluster's throttle and lock alone. If run {holder.name} is over, "
            f"start kafka_throttle_janitor with break_lock '{holder.name}'. It sets the damaged lease aside, gives "
            "the lock back, and lists the rest of the throttle as findings that you can clean."
        )
        return False
    taken = kept.set_damaged_aside()
    look.warnings.append(
        f"An unreadable lease was set aside ({', '.join(taken)}): {why} Clean the rest of its throttle by the findings "
        "of the next sweep."
    )
    return True


def _is_elsewhere(kept: ClusterLease, lease: ThrottleLease, asked: Asked) -> bool:
    """Whether the lease is of another Airflow, which has the run's folder and its own janitor.

    Not if a person breaks its lock, and so says that the run is over.
    """
    theirs = not is_same_airflow(lease.owner, this_airflow(kept.deployment)) and not kept.has_file(lease)
    return theirs and not asked.breaks(lease.run, lease.owner)


def _tend_lease(kept: ClusterLease, lease: ThrottleLease, asked: Asked, look: Look) -> bool:
    """Whether nothing of the lease is left."""
    cluster = kept.cluster
    view = cluster.read_view(lease.topics)
    within = read_copies_within(cluster, lease.wanted, view)
    copying = copying_of(lease, view).union(*within.values())
    # A person who breaks its lock by name says that the run is over.
    said = asked.breaks(lease.run, lease.owner)
    standing = AirflowState.GONE if said else read_standing(kept.deployment, lease.run, lease.owner)
    decided = custody(lease, standing, copying, _silent_seconds(kept.deployment, lease, look))
    look.copying = len(copying)
    look.lines.append(decided.state)
    absent = absent_receivers(lease, view)
    look.warnings += (*_slowed_catch_up(cluster, lease, view), *absent)
    if decided.alert is not None:
        look.alerts[f"{lease.run} {standing} {lease.handed_over_at}"] = " ".join((decided.alert, *absent))
    if not decided.put_back:
        waits, opens_at = waits_long(kept.deployment, lease), paused_until(kept.deployment, lease)
        if waits is not None and not copying:
            look.alerts[f"{lease.run} waits"] = waits
        if opens_at is not None and not copying:
            look.lines.append(
                f"run {lease.run} keeps the cluster and is paused until {opens_at.isoformat()}, when its window opens. "
                f"To give the cluster to other runs, {how_to_stop(lease.run)}"
            )
        if not copying and (waits is not None or opens_at is not None):
            try:
                if suspend(kept, lease):
                    look.lines.append(f"run {lease.run}: its throttle is put back until its next batch")
            except ClusterNotReadyError as migrated:
                look.alerts[f"{lease.run} migrated"] = str(migrated)
        if lease.suspended_at is not None:
            return False  # no throttle needs to be in force
        wanted = wanted_for(lease, copying & view.moving)  # a finished move that still catches up need not be listed
        here = wanted.keys() - read_away(cluster, wanted)
        wanted = {entity: wanted[entity] for entity in here}
        if found := lifted(wanted, lease.own_rates, read_configs(cluster, here)):
            look.alerts[f"{lease.run} throttle lifted"] = f"Run {lease.run}: {lifted_text(found)}"
        return False
    try:
        result = put_back(kept, lease)
    except ClusterNotReadyError as migrated:
        look.alerts[f"{lease.run} migrated"] = str(migrated)
        return False
    look.warnings += result.foreign
    if not result.complete:
        return False
    look.lines.append(f"run {lease.run}: its throttle was put back")
    return decided.release_lock


def _slowed_catch_up(cluster: OpenCluster, lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """Uses the lists that are set now: they are those of the current batch."""
    if not slowed_catch_up(lease, view):
        return ()
    set_now: dict[str, dict[str, str]] = {}
    here, configs = read_lease_configs(cluster, lease)
    for entity, key, value in throttle_now(here.wanted, configs):
        set_now.setdefault(entity, {})[key] = value
    return slowed_catch_up(replace(lease, wanted=set_now), view)


def _tend_lock(kept: ClusterLease, asked: Asked, look: Look) -> str | None:
    """Gives the lock back if its run is known to be over and nothing moves. Returns who holds the cluster then."""
    cluster = kept.cluster
    holder = cluster.lock.read()
    if holder is None:
        if asked.break_lock is not None:
            look.warnings.append("Nobody holds the cluster, so there is no lock to break.")
        return None
    by_name = asked.breaks(holder.run, holder.owner)
    standing = read_standing(kept.deployment, holder.run, holder.owner)
    if not (by_name or standing.is_ended):
        look.lines.append(f"the cluster is held by {holder.name} ({standing})")
        return holder.name
    # Then Airflow is asked again: a cleared run goes on under a later fence.
    fence = cluster.stop_requests().fence
    standing = read_standing(kept.deployment, holder.run, holder.owner)
    if not (by_name or standing.is_ended):
        look.lines.append(f"the lock of {holder.name} is kept: the run goes on ({standing})")
        return holder.name
    view = cluster.read_view()
    if view.reassignments is not None or view.moving:
        look.lines.append(f"the lock of {holder.name} is kept: a reassignment is in motion")
        return holder.name
    try:
        cluster.lock.release(holder, fence=fence)
    except LockLostError:
        look.lines.append(f"the lock of {holder.name} is kept: the run goes on")
        return holder.name
    look.lines.append(f"the lock of {holder.name} was given back ({f'by {asked.by}' if by_name else standing})")
    return None


def _silent_seconds(deployment: Deployment, lease: ThrottleLease, look: Look) -> float:
    """The time since the run took its throttle, requested a batch, or looked at one."""
    signs = (lease.taken_at, *_signs(deployment, lease))
    look.followed = sighted(look.followed, signs, clock.utc_now(), UNWATCHED_SECONDS)
    return look.followed.silent_seconds


def _signs(deployment: Deployment, lease: ThrottleLease) -> list[str]:
    """The times in the run's folder; none if it is gone or cannot be read."""
    signs: list[str] = []
    try:
        folder = open_run_folder(deployment, lease.run_folder)
        notes, progress = BATCHES_FILE.read_if_there(folder), PROGRESS_FILE.read_if_there(folder)
        if notes is not None:
            signs += [batch.created_at.isoformat() for batch in notes.batches if batch.created_at is not None]
        if progress is not None:
            signs.append(progress.updated_at.isoformat())
    except (RebalanceError, OSError) as unreadable:
        log.warning("run %s: its folder does not show when it was last followed (%s)", lease.run, unreadable)
    return signs
