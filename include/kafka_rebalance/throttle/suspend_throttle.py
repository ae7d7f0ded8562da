"""A run's throttle from batch to batch: set for the next batch, and put back while that batch waits for long.

While the throttle is put back, its lease stays open and its run keeps the lock. `suspended_at` is written before the
first config is put back, and removed after the last one is set again. After a kill in between, the next worker can
finish the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_rebalance.clock import now_text
from kafka_rebalance.documents.json_files import time_in
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ConfigChangedError, LockLostError, PolicyError, RebalanceError, ThrottleError
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import LONG_PAUSE_SECONDS
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.run_folder import RunFolder, open_run_folder
from kafka_rebalance.throttle.entity_configs import read_configs, read_lease_configs
from kafka_rebalance.throttle.in_force import check_in_force, confirm
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.put_back import batch_changes, copying_of, listed_over, only_for, recorded_anew
from kafka_rebalance.throttle.put_back import release as decide_release
from kafka_rebalance.throttle.release_throttle import (
    ATTEMPTS,
    check_can_be_put_back,
    read_copies_within,
    read_left_alone,
    write_back,
)

log = logging.getLogger(__name__)


def suspend(kept: ClusterLease, decided: ThrottleLease) -> bool:
    """Puts back the throttle of a run that copies nothing, until its next batch. Returns whether nothing of it is left.

    Changes nothing if the run copies, or has given back or taken its throttle again since `decided`. Errors as in
    `put_back`.
    """
    if decided.suspended_at is not None:
        away = read_left_alone(kept.cluster, decided.wanted, kept.cluster.read_view(()))
        if not decide_release(*read_lease_configs(kept.cluster, decided.without(away))).changes:
            return True
    # Before the read of lease and cluster: a run that goes on requests nothing under an earlier fence.
    fence = kept.cluster.stop_requests().fence
    lease = kept.read_own(decided)
    if lease is None or lease.taken_under != decided.taken_under or lease.handed_over_at is not None:
        return False
    view = kept.cluster.read_view(lease.topics)
    if copying_of(lease, view) or any(read_copies_within(kept.cluster, lease.wanted, view).values()):
        return False
    try:
        if lease.suspended_at is None:
            lease = replace(lease, suspended_at=now_text(), generation=fence.generation)
            kept.write(lease, fence)
        return write_back(kept.cluster, lease, fence).complete
    except (ConfigChangedError, LockLostError) as changed:
        log.info("run %s goes on, or somebody changes its configs, at this moment: %s", lease.run, changed)
        return False


def set_for_batch(
    kept: ClusterLease,
    folder: RunFolder,
    owner: LockOwner,
    partitions: Collection[TopicPartition] = (),
    gone: Collection[str] = (),
) -> Fence:
    """Raises the run's fence, and sets the lists of throttled replicas for these partitions and those that still copy.

    `gone` are entities of the lease that no longer exist. If the throttle is suspended, its rates are set again too,
    and what is there now is put back later. Returns the fence under which the batch may be requested.

    Raises LockHeldError if the run does not hold the cluster. Raises ThrottleError if somebody has lifted a rate,
    before it writes anything, or if others keep changing the throttle.
    """
    cluster = kept.cluster
    for _ in range(ATTEMPTS):
        fence = cluster.lock.raise_held(owner)
        lease = kept.read_open_in(folder)
        if lease is None or lease.handed_over_at is not None:
            return fence  # for `check_throttle_in_force` to refuse
        is_suspended = lease.suspended_at is not None
        try:
            here, current = read_lease_configs(cluster, lease)
            if is_suspended:
                anew = recorded_anew(here, current)
                lease = replace(lease, prior={**lease.prior, **anew.prior}, generation=fence.generation)
                check_can_be_put_back(lease)
                kept.write(lease, fence)
                here = lease.without(lease.wanted.keys() - here.wanted.keys())
            ours = here.without(gone)
            if not is_suspended:
                check_in_force(only_for(ours, ()), current)
            over = listed_over(ours, current, partitions)
            copying = copying_of(lease, cluster.read_batch_view(over)) if over else frozenset()
            changes = batch_changes(ours, current, {*partitions, *copying})
            if not is_suspended:
                changes = {entity: values for entity, values in changes.items() if entity.startswith("topics/")}
            cluster.merge_configs(changes, decided_on=current, fence=fence)
            if not is_suspended:
                return fence
            # Somebody who began to put it back meanwhile has finished, and is seen, or is stopped by this fence.
            fence = cluster.lock.raise_held(owner)
            still = only_for(ours, partitions)
            if kept.is_latest(lease) and not confirm(still, read_configs(cluster, still.wanted)):
                kept.write(replace(lease, suspended_at=None, generation=fence.generation), fence)
                log.info("The throttle was put back while the batch waited; it is set again")
                return fence
        except (ConfigChangedError, LockLostError):
            continue  # somebody changes or puts it back at this moment: read everything again
    raise ThrottleError(
        f"Others keep changing the throttle of run {owner.run} while this task sets it for the next batch. No further "
        "move was requested. Stop changing it, then clear this task."
    )


# Whether a run's next batch has waited for so long that the cluster's policy asks for an alert, or as planned.


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What the waiting process has noted. All times are of its clock."""

    at: datetime
    since: datetime
    until: datetime | None
    reasons: str


def waits_long(deployment: Deployment, lease: ThrottleLease) -> str | None:
    """How long, and for what, a run's next batch has waited; None up to the policy's `long_pause_seconds`.

    The time until a window opens does not count. All times are of the waiting process, so a clock that is wrong neither
    makes nor hides an alert.
    """
    noted = _read_waiting(deployment, lease)
    if noted is None:
        return None
    seconds = (noted.at - max(noted.since, noted.until or noted.since)).total_seconds()
    policy = None
    with suppress(PolicyError):  # every run's tasks report a wrong policy
        policy = deployment.read_policy(lease.connection_id)
    if seconds < (LONG_PAUSE_SECONDS if policy is None else policy.long_pause_seconds):
        return None
    return (
        f"Run {lease.run} holds the cluster, copies nothing, and its next batch has waited for {seconds / 3600:.1f} h: "
        f"{noted.reasons} Its throttle is put back meanwhile, and set again before that batch. Repair what it waits "
        "for, or stop the run with kafka_rebalance_cancel, which gives the cluster to other runs."
    )


def paused_until(deployment: Deployment, lease: ThrottleLease) -> datetime | None:
    """When the window opens for which the run waits; None if it waits for nothing, or for something else."""
    noted = _read_waiting(deployment, lease)
    return noted.until if noted is not None and noted.until is not None and noted.at < noted.until else None


def _read_waiting(deployment: Deployment, lease: ThrottleLease) -> _Waiting | None:
    """None also for an earlier version's note, and for one that cannot be read."""
    try:
        noted = PROGRESS_FILE.read(open_run_folder(deployment, lease.run_folder))
    except (RebalanceError, OSError):
        return None
    taken_at = time_in(lease.taken_at)
    if noted.state != "waiting" or noted.waiting_since is None or noted.waiting_for is None or taken_at is None:
        return None
    reasons = " ".join(noted.waiting_for)
    return _Waiting(noted.updated_at, max(noted.waiting_since, taken_at), noted.waiting_until, reasons)
