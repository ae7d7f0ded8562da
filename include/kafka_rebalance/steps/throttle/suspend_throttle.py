"""A run's throttle from batch to batch: set for the one that comes, and put back while that one waits for long.

The lease of a throttle that is put back for now stays open, and its run keeps the lock. `suspended_at` is written
before the first config is put back, and taken out after the last one is set again: whoever is killed in between leaves
a lease of which the next one does the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from kazoo.client import KazooClient

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ConfigChangedError, LockLostError, ThrottleError
from kafka_rebalance.execution.throttle.batch_lists import batch_changes, listed_over, only_for
from kafka_rebalance.execution.throttle.in_force import check_in_force, confirm
from kafka_rebalance.execution.throttle.put_back import release as decide_release
from kafka_rebalance.execution.throttle.recorded_before import recorded_anew
from kafka_rebalance.execution.throttle.still_copying import copying_of
from kafka_rebalance.execution.throttle.wanted import Configs
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.clock import now_text
from kafka_rebalance.steps.run.approved_plan import ApprovedPlan
from kafka_rebalance.steps.throttle.cluster_lease import ClusterLease
from kafka_rebalance.steps.throttle.entity_configs import read_configs
from kafka_rebalance.steps.throttle.throttle_in_force import without_gone
from kafka_rebalance.steps.throttle.write_back import ATTEMPTS, check_can_be_put_back, write_back
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.config_writes import merge_config
from kafka_rebalance.zookeeper.reader import read_batch_view, read_cluster_view

log = logging.getLogger(__name__)


def suspend(kept: ClusterLease, decided: ThrottleLease) -> bool:
    """Puts the throttle of a run back that copies nothing, until its next batch. Returns whether nothing of it is left.

    Nothing is touched where the run copies, has given its throttle back or has taken it again since `decided`. Errors
    as in `put_back`.
    """
    if decided.suspended_at is not None and _is_put_back(kept.client, decided):
        return True
    # Before lease and cluster are read: a run that goes on requests nothing under an earlier one.
    fence = cluster_lock.raise_fence(kept.client)
    lease = kept.read_own(decided)
    if lease is None or lease.taken_under != decided.taken_under or lease.handed_over_at is not None:
        return False
    if copying_of(lease, read_cluster_view(kept.client, lease.topics)):
        return False
    try:
        if lease.suspended_at is None:
            lease = replace(lease, suspended_at=now_text(), generation=fence.generation)
            kept.write(lease, fence)
        return write_back(kept.client, lease, fence).complete
    except (ConfigChangedError, LockLostError) as changed:
        log.info("run %s goes on, or somebody changes its configs, at this moment: %s", lease.run, changed)
        return False


def set_for_batch(
    kept: ClusterLease, plan: ApprovedPlan, owner: cluster_lock.LockOwner, partitions: Collection[TopicPartition]
) -> cluster_lock.Fence:
    """Raises the run's fence, and sets the lists of throttled replicas for these partitions alone, and for what copies
    still. Where the throttle is suspended its rates are set again too: what is there now is what comes back.

    Returns the fence under which the batch may be requested. Raises LockHeldError where the run does not hold the
    cluster, ThrottleError where somebody has lifted a rate, before anything is written, and where others change the
    throttle again and again.
    """
    client = kept.client
    for _ in range(ATTEMPTS):
        fence = cluster_lock.raise_held(client, owner)
        lease = kept.read_open_in(plan.folder)
        if lease is None or lease.handed_over_at is not None:
            return fence  # for `check_throttle_in_force` to refuse
        try:
            current = read_configs(client, lease.entities)
            if lease.suspended_at is None:
                check_in_force(only_for(without_gone(plan, lease), ()), current)
                _write(client, plan, lease, current, partitions, fence, rates=False)
                return fence
            lease = replace(recorded_anew(lease, current), generation=fence.generation)
            check_can_be_put_back(lease)
            kept.write(lease, fence)
            _write(client, plan, lease, current, partitions, fence, rates=True)
            # Who began to put it back in between has done so before this, and is seen; or is stopped by it.
            fence = cluster_lock.raise_held(client, owner)
            still = only_for(without_gone(plan, lease), partitions)
            if kept.is_latest(lease) and not confirm(still, read_configs(client, still.entities)):
                kept.write(replace(lease, suspended_at=None, generation=fence.generation), fence)
                log.info("The throttle was put back while the batch waited; it is set again")
                return fence
        except (ConfigChangedError, LockLostError):
            continue  # somebody changes or puts it back at this moment: all is read anew
    raise ThrottleError(
        f"The throttle of run {owner.run} is changed again and again while it is set for the next batch. No further "
        "move was requested. Stop changing it, then clear this task."
    )


def _write(
    client: KazooClient,
    plan: ApprovedPlan,
    lease: ThrottleLease,
    current: Configs,
    partitions: Collection[TopicPartition],
    fence: cluster_lock.Fence,
    *,
    rates: bool,
) -> None:
    still = without_gone(plan, lease)
    over = listed_over(still, current, partitions)
    copying = copying_of(lease, read_batch_view(client, over)) if over else frozenset()
    changes = batch_changes(still, current, {*partitions, *copying})
    for entity, values in changes.items():
        if rates or entity.startswith("topics/"):
            merge_config(client, entity, values, decided_on=current.get(entity, {}), fence=fence)


def _is_put_back(client: KazooClient, lease: ThrottleLease) -> bool:
    return not decide_release(lease, read_configs(client, lease.entities)).changes
