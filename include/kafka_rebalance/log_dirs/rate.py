"""The rate of copies between log dirs, and the cluster's lock: taken before them, given back after."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.log_dir_plan import LogDirPlan, PlannedLogDirs
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ClusterNotReadyError, LockLostError, StaleProposalError, StoppedError
from kafka_rebalance.log_dirs.copies import cancel_copies, read_approved_moves
from kafka_rebalance.log_dirs.next_copies import CopyState, check_as_approved, states_of, without_room
from kafka_rebalance.log_dirs.plan import read_if_ready
from kafka_rebalance.log_dirs.read_dirs import dirs_now
from kafka_rebalance.log_dirs.rules import check_within_policy, seconds_at_most, window_of
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.run.approved_plan import ApprovedRequest, check_may_begin
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.checks.cluster_ready import refuse
from kafka_rebalance.run.checks.drift import check_grown
from kafka_rebalance.run.checks_before_write import check_clock_for_window, read_view_of
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.passed_over_tasks import check_all_will_run, check_rest_will_run
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.run_lock import forget_lock, lock_owner, take_lock
from kafka_rebalance.throttle.entity_configs import read_configs
from kafka_rebalance.throttle.hold_throttle import warn_without_janitor
from kafka_rebalance.throttle.in_force import check_in_force, desired_log_dir_rate, set_changes
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.put_back import take_lease_for
from kafka_rebalance.throttle.release_throttle import (
    Returned,
    check_can_be_put_back,
    give_back,
    put_back,
    put_back_late,
    put_back_left_behind,
)
from kafka_rebalance.throttle.throttle_in_force import check_nothing_set
from kafka_rebalance.throttle.wait_for_window import wait_for_opening

log = logging.getLogger(__name__)


# `hold_rate` of `kafka_log_dirs`: takes the cluster's lock, and sets the rate of copies between log dirs.
#
# The lease says what was there before, and is written before any config is changed. It is the same lease as that of a
# rebalance, so the janitor takes care of it if the run is lost.


def hold_rate(inputs: StepInputs, decision: Mapping[str, Any]) -> ThrottleLease | Wait:
    """Checks the cluster again, takes its lock and sets the rate on each broker of the plan; returns the lease.

    While no window is open for the smallest copy it takes neither, and returns what to wait for.

    If it fails half-way, it puts back what it has set and gives the lock back: Airflow runs no teardown after a failed
    setup.
    """
    deployment = inputs.deployment
    approved = read_approved_moves(inputs, decision)
    plan = approved.plan
    deployment.check_not_frozen(approved.connection_id)
    connection = deployment.read_connection(approved.connection_id)
    owner = lock_owner(deployment, plan.digest, inputs.run)
    with open_cluster(connection) as cluster:
        kept = ClusterLease(deployment, cluster, plan.cluster_id)
        cluster.check_same_cluster(read_view_of(cluster, (), plan.cluster_id))
        if kept.read_own(owner) is None:  # else a retry: an earlier try has begun in time
            wait = _window_of(inputs, approved)
            if wait is not None:
                return wait
            _check_may_begin(inputs, cluster, connection, approved)
            check_all_will_run(inputs, ("move", "release_rate", "verify"))
        fence = take_lock(deployment, cluster, approved.connection_id, owner)
        try:
            returned = put_back_left_behind(kept)
            if [*returned.back, *put_back_late(kept)]:
                fence = cluster.lock.raise_held(owner)
            _check_nothing_left(plan, returned)
            check_clock_for_window(cluster, window_of(plan))
            lease = _set(kept, approved, owner, fence)
        except LockLostError:
            raise  # another worker has taken over, and looks after what this one has set
        except BaseException:
            _undo(kept, approved.connection_id, owner, fence)
            raise
    warn_without_janitor(deployment)
    return lease


def _window_of(inputs: StepInputs, approved: ApprovedRequest[PlannedLogDirs, LogDirPlan]) -> Wait | None:
    plan = approved.plan
    smallest = min(move.size_bytes for move in plan.moves)
    try:
        return wait_for_opening(
            inputs.deployment, approved, window_of(plan), seconds_at_most(smallest, plan.throttle_bytes_per_second)
        )
    except StoppedError as never:
        raise StoppedError(f"No copy was requested: {never}. Neither lock nor rate was taken.") from never


def _check_may_begin(
    inputs: StepInputs,
    cluster: OpenCluster,
    connection: ClusterConnection,
    approved: ApprovedRequest[PlannedLogDirs, LogDirPlan],
) -> None:
    """Raises if the approval has expired, or if cluster, policy or replicas are no longer as approved."""
    plan = approved.plan
    check_may_begin(inputs.deployment, approved, window=window_of(plan))
    policy = inputs.deployment.check_policy_unchanged(approved.connection_id, approved.decision.policy_digest)
    needed = {move.replica.topic_partition for move in plan.moves}
    ready = read_if_ready(cluster, connection, plan.cluster_id, plan.brokers, needed)
    limits = bound_policy(inputs.deployment, policy, approved.connection_id, plan.cluster_id)
    check_within_policy(plan, limits, ready.cluster_bytes, cluster.read_kafkas_own(ready.view))
    now = dirs_now(ready.disks)
    states = states_of(plan.moves, now)
    check_as_approved(states)
    if gone := states[CopyState.GONE]:
        raise StaleProposalError(
            f"{some([move.replica for move in gone])}: the broker no longer has it. Start a new Dag run."
        )
    grown = {str(move.replica): now.sizes[move.replica] - move.size_bytes for move in plan.moves}
    check_grown(plan.size_bytes, grown, policy.growth_limit)
    refuse(without_room(plan, now))


def _check_nothing_left(plan: LogDirPlan, returned: Returned) -> None:
    """Raises ClusterNotReadyError for a rate that is left: this run would record it as what was there before."""
    remains = [text for broker in sorted(plan.brokers) if (text := returned.kept.get(f"brokers/{broker}")) is not None]
    if remains:
        raise ClusterNotReadyError(f"No copy was requested: {' '.join(remains)} Clear this task then.")


def _set(
    kept: ClusterLease, approved: ApprovedRequest[PlannedLogDirs, LogDirPlan], owner: LockOwner, fence: Fence
) -> ThrottleLease:
    cluster, plan = kept.cluster, approved.plan
    existing = kept.read_open()
    wanted = desired_log_dir_rate(plan.brokers, plan.throttle_bytes_per_second)
    current = read_configs(cluster, {*wanted, *(existing.wanted if existing else ())})
    taken = take_lease_for(
        lambda rate: desired_log_dir_rate(plan.brokers, rate),
        owner.run,
        plan.digest,
        plan.throttle_bytes_per_second,
        current,
        owner=owner.owner,
        existing=existing,
    )
    check_can_be_put_back(taken)
    lease = kept.begin(taken, approved.connection_id, approved.folder, fence)
    cluster.merge_configs(set_changes(lease, current), decided_on=current, fence=fence)
    kept.check_latest(lease)
    check_in_force(lease, read_configs(cluster, lease.wanted))
    return lease


def _undo(kept: ClusterLease, connection_id: str, owner: LockOwner, fence: Fence) -> None:
    """Best effort: what cannot be undone is logged, and the first error stays the error.

    While copies are under way, rate and lock stay. What another attempt has taken meanwhile stays too.
    """
    try:
        lease = kept.read_own(owner)
        if lease is not None and (lease.taken_under != fence.generation or not put_back(kept, lease).complete):
            return
        fence = kept.cluster.lock.read_fence()
        if kept.read_own(owner) is None:
            kept.cluster.lock.release(owner, fence=fence)
            forget_lock(kept.deployment, connection_id, owner)
    except Exception:
        log.exception("The rate could not be put back. throttle.json in the run's folder says what was set")


# The end of a run's copies: cancels those under way, puts the rate back, and gives the cluster's lock back.
#
# A run that has ended as approved has no copies under way. A run that failed, or that somebody has stopped, leaves no
# future replica behind.


def release_rate(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ThrottleError while copies that cannot be cancelled go on: rate and lock stay then, and the janitor has
    them from then on. This task may be repeated.
    """
    approved = read_approved_moves(inputs, decision)
    plan = approved.plan
    connection = inputs.deployment.read_connection(approved.connection_id)
    owner = lock_owner(inputs.deployment, plan.digest, inputs.run)
    with open_cluster(connection) as cluster:
        kept = ClusterLease(inputs.deployment, cluster, plan.cluster_id)
        cancelled = 0
        if kept.read_own(owner) is not None:
            with open_wire(connection.kafka) as wire:
                cancelled = cancel_copies(kept, wire, connection.kafka, plan, owner)
        wanted = desired_log_dir_rate(plan.brokers, plan.throttle_bytes_per_second)
        released = give_back(
            kept, owner, approved.connection_id, lambda: check_nothing_set(cluster, wanted, "The lock is kept.")
        )
    check_rest_will_run(inputs, "The rate is put back, and the lock is given back.", ("verify",))
    return {"cancelled": cancelled, **released}
