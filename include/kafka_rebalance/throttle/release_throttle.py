"""The end of a run's throttle: the task puts back what was there before, and gives the cluster's lock back.

While copies are in flight, throttle and lock stay, and the janitor takes care of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kafka_rebalance.clock import now_text
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import LockLostError, ThrottleError
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.run.approved_plan import read_approved
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.late_tasks import check_rest_will_run
from kafka_rebalance.run.run_lock import forget_lock, lock_owner
from kafka_rebalance.throttle.cluster_lease import ClusterLease
from kafka_rebalance.throttle.put_back import Release
from kafka_rebalance.throttle.throttle_in_force import check_nothing_of_ours
from kafka_rebalance.throttle.write_back import ATTEMPTS, put_back, taken_again


def release_throttle(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Puts back the throttle of everything that is no longer in motion, then gives the lock back.

    Raises ThrottleError while copies are in flight. Their throttle and the lock stay, because an unthrottled copy can
    take a broker's clients down. From then on the janitor has the lease. This task may be repeated.
    """
    deployment = inputs.deployment
    plan = read_approved(inputs, decision)
    owner = lock_owner(deployment, plan.candidate.digest, inputs.run)
    with open_cluster(deployment.read_connection(plan.connection_id)) as cluster:
        kept = ClusterLease(deployment, cluster, plan.snapshot["cluster_id"])
        released = give_back(
            kept, owner, plan.connection_id, lambda: check_nothing_of_ours(cluster, plan, "The lock is kept.")
        )
    given_back = "The throttle is put back, and the lock is given back."
    check_rest_will_run(inputs, given_back, ("verify", "check_verified", "record"))
    return released


def give_back(
    kept: ClusterLease, owner: LockOwner, connection_id: str, check_nothing_set: Callable[[], None]
) -> dict[str, Any]:
    """Puts back the throttle of this run, then gives its lock back. Errors as in `release_throttle`.

    `check_nothing_set` raises ThrottleError for a run without a lease if something that it sets is in force.
    """
    cluster = kept.cluster
    lease = kept.read_own(owner)
    if lease is None:
        _stop_own(cluster, owner)
    result = Release({}, (), ()) if lease is None else put_back(kept, lease)
    if lease is not None and not result.complete:
        if lease.handed_over_at is None:
            _hand_over(kept, owner, lease.taken_under)
        shown = "; ".join(result.kept[:10])
        raise ThrottleError(
            f"Copies are still in flight, so {len(result.kept)} throttle settings stay: {shown}. Everything else "
            "was put back, and the lock is kept. Nobody follows these copies. kafka_throttle_janitor removes their "
            "throttle when the last one is in sync, and so does this task if you clear it."
        )
    # The fence before the lease: a run that takes both again raises the fence.
    fence = cluster.lock.read_fence()
    if kept.read_own(owner) is not None:
        raise taken_again(owner.run, "was put back")
    if kept.read() is None:
        check_nothing_set()
    cluster.lock.release(owner, fence=fence)
    forget_lock(kept.deployment, connection_id, owner)
    return {"put_back": sum(map(len, result.changes.values())), "left_alone": list(result.foreign)}


def _stop_own(cluster: OpenCluster, owner: LockOwner) -> None:
    """A run without a lease may still hold the cluster, and a worker of it may be about to ask for moves."""
    holder = cluster.lock.read()
    if holder is not None and holder.is_same_run(owner):
        cluster.stop_requests()


def _hand_over(kept: ClusterLease, owner: LockOwner, taken_under: str) -> None:
    """Notes once in the lease that the janitor has it, unless the run has taken its throttle again."""
    for _ in range(ATTEMPTS):
        fence = kept.cluster.lock.raise_fence()
        lease = kept.read_own(owner)
        if lease is None or lease.taken_under != taken_under or lease.handed_over_at is not None:
            return
        with suppress(LockLostError):  # somebody changes it at this moment: read it again
            return kept.write(replace(lease, handed_over_at=now_text(), generation=fence.generation), fence)
