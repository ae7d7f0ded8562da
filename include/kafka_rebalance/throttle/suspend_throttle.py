"""A run's throttle from batch to batch: set for the next batch, and put back while that batch waits for long.

While the throttle is put back, its lease stays open and its run keeps the lock. `suspended_at` is written before the
first config is put back, and removed after the last one is set again. After a kill in between, the next worker can
finish the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from kafka_rebalance.clock import now_text
from kafka_rebalance.errors import ConfigChangedError, LockLostError, ThrottleError
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.throttle.batch_lists import batch_changes, listed_over, only_for
from kafka_rebalance.throttle.cluster_lease import ClusterLease
from kafka_rebalance.throttle.copies_within import read_copies_within, read_left_alone
from kafka_rebalance.throttle.entity_configs import read_configs, read_lease_configs
from kafka_rebalance.throttle.in_force import check_in_force, confirm
from kafka_rebalance.throttle.put_back import release as decide_release
from kafka_rebalance.throttle.recorded_before import recorded_anew
from kafka_rebalance.throttle.still_copying import copying_of
from kafka_rebalance.throttle.throttle_lease import ThrottleLease
from kafka_rebalance.throttle.write_back import ATTEMPTS, check_can_be_put_back, write_back

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
