"""A throttle that is put back while the run's next batch waits for long, and set again before that batch.

The lease stays open and its run keeps the lock. `suspended_at` is written before the first config is put back, and
taken out after the last one is set again: whoever is killed in between leaves a lease of which the next one does the
rest.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from kazoo.client import KazooClient

from kafka_rebalance.errors import ConfigChangedError, LockLostError, ThrottleError
from kafka_rebalance.execution.janitor import copying_of
from kafka_rebalance.execution.lease import ThrottleLease
from kafka_rebalance.execution.throttle import confirm, recorded_anew, set_changes
from kafka_rebalance.execution.throttle import release as decide_release
from kafka_rebalance.model.airflow_mark import is_same_run
from kafka_rebalance.workflow.run.approved import ApprovedPlan
from kafka_rebalance.workflow.throttle import cluster_lease, leases
from kafka_rebalance.workflow.throttle.entity_configs import read_configs
from kafka_rebalance.workflow.throttle.in_force import without_gone
from kafka_rebalance.workflow.throttle.throttling import ATTEMPTS, check_can_be_put_back, write_back
from kafka_rebalance.zookeeper import lock
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.writer import merge_config

log = logging.getLogger(__name__)


def suspend(client: KazooClient, decided: ThrottleLease) -> bool:
    """Puts the throttle of a run back that copies nothing, until its next batch. Returns whether nothing of it is left.

    Nothing is touched where the run copies, has given its throttle back or has taken it again since `decided`. Errors
    as in `put_back`.
    """
    if decided.suspended_at is not None and _is_put_back(client, decided):
        return True
    # Before lease and cluster are read: a run that goes on requests nothing under an earlier one.
    fence = lock.raise_fence(client)
    lease = cluster_lease.read_open(client, decided.cluster_id)
    if lease is None or not is_same_run(lease.run, lease.owner, decided.run, decided.owner):
        return False
    if lease.taken_under != decided.taken_under or lease.handed_over_at is not None:
        return False
    if copying_of(lease, read_cluster_view(client, lease.topics)):
        return False
    try:
        if lease.suspended_at is None:
            lease = replace(lease, suspended_at=leases.now(), generation=fence.generation)
            cluster_lease.write(client, lease, fence)
        return write_back(client, lease, fence).complete
    except (ConfigChangedError, LockLostError) as changed:
        log.info("run %s goes on, or somebody changes its configs, at this moment: %s", lease.run, changed)
        return False


def resume(client: KazooClient, plan: ApprovedPlan, owner: lock.LockOwner) -> lock.Fence:
    """Raises the run's fence, and sets the throttle again where it is suspended. What is there now is what comes back.

    Returns the fence under which the next batch may be requested. Raises LockHeldError where the run does not hold the
    cluster, ThrottleError where others change the throttle again and again.
    """
    for _ in range(ATTEMPTS):
        fence = lock.raise_held(client, owner)
        lease = cluster_lease.read_open(client, plan.snapshot["cluster_id"])
        if (
            lease is None
            or lease.suspended_at is None
            or not is_same_run(lease.run, lease.owner, owner.run, owner.owner)
        ):
            return fence
        try:
            current = read_configs(client, lease.entities)
            lease = replace(recorded_anew(lease, current), generation=fence.generation)
            check_can_be_put_back(lease)
            cluster_lease.write(client, lease, fence)
            still = without_gone(plan, lease)
            for entity, changes in set_changes(still, current).items():
                merge_config(client, entity, changes, decided_on=current.get(entity, {}), fence=fence)
            # Who began to put it back in between has done so before this, and is seen; or is stopped by it.
            fence = lock.raise_held(client, owner)
            if cluster_lease.is_latest(client, lease) and not confirm(still, read_configs(client, still.entities)):
                cluster_lease.write(client, replace(lease, suspended_at=None, generation=fence.generation), fence)
                log.info("The throttle was put back while the batch waited; it is set again")
                return fence
        except (ConfigChangedError, LockLostError):
            continue  # somebody changes or puts it back at this moment: all is read anew
    raise ThrottleError(
        f"The throttle of run {owner.run}, put back while its next batch waited, is changed again and again while it "
        "is set. No further move was requested. Stop changing it, then clear this task."
    )


def _is_put_back(client: KazooClient, lease: ThrottleLease) -> bool:
    return not decide_release(lease, read_configs(client, lease.entities)).changes
