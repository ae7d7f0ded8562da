"""The throttle around a run's batches: lock, set, confirm. `throttle.in_force` and `throttle.put_back` decide.

The cluster's lease counts (`lease_copies`). It is written before any config, so that it tells what is ours.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import LockLostError, ReadError, StoppedError
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.lock_owner import Fence, LockOwner, is_same_run
from kafka_rebalance.moves.run_position import Position, check_position, position
from kafka_rebalance.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.checks_before_write import check_before_write, check_clock_for_window, check_plan_within_policy
from kafka_rebalance.run.clusters import JANITOR_DAG
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.passed_over_tasks import check_all_will_run
from kafka_rebalance.run.run_folder import check_newest_attempt
from kafka_rebalance.run.run_lock import forget_lock, lock_owner, take_lock
from kafka_rebalance.run.running_rebalance import asked_for
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from kafka_rebalance.segments.audit_io import check_copies_safe
from kafka_rebalance.throttle.adaptive_rate import ladder_of
from kafka_rebalance.throttle.entity_configs import read_away, read_configs
from kafka_rebalance.throttle.in_force import check_in_force, desired_throttle, set_changes
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.put_back import copying_of, only_for, take_lease
from kafka_rebalance.throttle.release_throttle import (
    check_can_be_put_back,
    put_back,
    put_back_late,
    put_back_left_behind,
)
from kafka_rebalance.throttle.run_rates import check_run_rate
from kafka_rebalance.throttle.throttle_in_force import check_nothing_of_ours, gone_topics, has_held_before
from kafka_rebalance.throttle.wait_for_window import wait_for_window

log = logging.getLogger(__name__)


def hold_throttle(inputs: StepInputs, decision: Mapping[str, Any]) -> ThrottleLease | Wait:
    """Checks the cluster, takes its lock and throttles exactly the approved moves; returns the lease.

    Before the run's window opens it takes neither, and returns what to wait for. It also waits for the next one if the
    first moves would not end in this one.

    If it fails half-way, it puts back what it has set and gives the lock back: Airflow runs no teardown after a failed
    setup.
    """
    deployment = inputs.deployment
    plan = read_approved(inputs, decision)
    not_before, now = plan.window.not_before, clock.utc_now()
    if not_before is not None and now < not_before:
        early = Wait(plan.connection_id, str(plan.folder), not_before=not_before, until=plan.window.finish_by)
        return _unless_stopped(plan, early)
    deployment.check_not_frozen(plan.connection_id)
    connection = deployment.read_connection(plan.connection_id)
    with open_cluster(connection) as cluster:
        view = cluster.read_view(plan.topics)
        asked = asked_for(plan.folder, plan.candidate.moves, cluster)
        if not asked:
            check_newest_attempt(plan.folder)
            check_all_will_run(inputs, ("reassign", "release_throttle", "verify", "check_verified", "record"))
        where = position(plan.candidate.batches, view, asked, limits=plan.limits)
        owner = lock_owner(deployment, plan.candidate.digest, inputs.run)
        check_position(where, view, partial(cluster.read_movers, besides=owner))
        if where.in_flight is None and where.next is not None:
            wait = _window_of(deployment, plan, where.next)
            if wait is not None:
                return _unless_stopped(plan, wait)
        if where.in_flight is not None:
            cluster.check_same_cluster(view)
        else:
            plan = check_before_write(deployment, cluster, connection, plan, view, where)
            check_plan_within_policy(deployment, cluster, plan, view)
            check_copies_safe(cluster, connection, plan)
            check_run_rate(plan.folder, plan.candidate, plan.decision.lowest_rate, None)
        held_before = has_held_before(plan, cluster.lock.read(), owner)
        cluster.lock.make_ready({*plan.leaving, *plan.settings.brokers_out})
        fence = take_lock(deployment, cluster, plan.connection_id, owner)
        kept = ClusterLease(deployment, cluster, plan.snapshot.cluster_id)
        try:
            if [*put_back_left_behind(kept).back, *put_back_late(kept)]:
                fence = cluster.lock.raise_held(owner)
            check_clock_for_window(cluster, plan.window)
            lease = _set(kept, plan, owner, fence, view, where, held_before=held_before)
        except LockLostError:
            _put_back_what_came_late(kept, owner)
            raise  # the run that took over has the lock
        except BaseException:
            _undo(kept, plan, owner, fence, held_before=held_before)
            raise
    warn_without_janitor(deployment)
    log.info("throttled %d entities to %d bytes/s", len(lease.wanted), lease.lowest_rate)
    return lease


def _window_of(deployment: Deployment, plan: ApprovedPlan, batch: Batch) -> Wait | None:
    try:
        return wait_for_window(deployment, plan, batch.moves)
    except StoppedError as never:
        raise StoppedError(
            f"Batch {batch.number} was not requested: {never}. Neither lock nor throttle was taken."
        ) from never


def _unless_stopped(plan: ApprovedPlan, wait: Wait) -> Wait:
    by = read_control(plan.folder).stop_after_batch
    if by is None:
        return wait
    assert wait.not_before is not None
    raise StoppedError(
        f"The run was stopped before its window opened at {wait.not_before.isoformat()}, as {by} asked. Neither lock "
        "nor throttle was taken, and nothing was moved. Start a new Dag run to plan from the current cluster."
    )


def _set(
    kept: ClusterLease,
    plan: ApprovedPlan,
    owner: LockOwner,
    fence: Fence,
    view: ClusterView,
    where: Position,
    *,
    held_before: bool,
) -> ThrottleLease:
    """Writes the lease before it changes the first config, so that everything can be put back.

    It sets all rates, and the lists for the batch that runs or comes next and for partitions that still copy.
    """
    cluster, moves, rate = kept.cluster, plan.candidate.moves, plan.throttle_bytes_per_second
    known = kept.read()
    existing = known if known is not None and known.released_at is None else None
    if known is None and held_before:
        check_nothing_of_ours(cluster, plan, "No throttle was set.")
    entities = {*desired_throttle(moves, rate, plan.cordoned), *(existing.wanted if existing else ())}
    away = read_away(cluster, entities)
    current = read_configs(cluster, entities - away)
    taken = take_lease(
        owner.run,
        plan.candidate.digest,
        moves,
        rate,
        current,
        owner=owner.owner,
        existing=existing,
        away=away,
        cordoned=plan.cordoned,
        ladder=ladder_of(plan.decision),
    )
    check_can_be_put_back(taken)
    lease = kept.begin(taken, plan.connection_id, plan.folder, fence)
    batch = where.in_flight or where.next
    first = {move.topic_partition for move in batch.moves} if batch is not None else set()
    still = only_for(lease.without({*away, *gone_topics(plan)}), {*first, *copying_of(lease, view)})
    cluster.merge_configs(set_changes(still, current), decided_on=current, fence=fence)
    kept.check_latest(lease)
    check_in_force(still, read_configs(cluster, still.wanted))
    return lease


def _undo(kept: ClusterLease, plan: ApprovedPlan, owner: LockOwner, fence: Fence, *, held_before: bool) -> None:
    """Best effort after a setup that failed: what cannot be undone is logged, and the first error stays the error.

    While copies are in flight, their throttle and the lock stay. What another attempt has taken meanwhile stays too.
    """
    cluster = kept.cluster
    try:
        lease = kept.read_own(owner)
        if lease is not None:
            is_ours = lease.taken_under == fence.generation
            if not (is_ours and put_back(kept, lease).complete):
                return
            fence = cluster.lock.read_fence()
            if kept.read_own(owner) is not None:
                return
        elif held_before and kept.read() is None:
            check_nothing_of_ours(cluster, plan, "The lock is kept.")
        cluster.lock.release(owner, fence=fence)
        forget_lock(kept.deployment, plan.connection_id, owner)
    except Exception:
        log.exception("The throttle could not be put back. throttle.json in %s says what was set", plan.folder)


def _put_back_what_came_late(kept: ClusterLease, owner: LockOwner) -> None:
    """Best effort if another worker of this run has given its throttle back meanwhile. The janitor comes after it."""
    try:
        lease = kept.read()
        if lease is not None and is_same_run(lease.run, lease.owner, owner.run, owner.owner):
            put_back_late(kept)
    except Exception:
        log.exception("What was set after the throttle was put back is put back by %s", JANITOR_DAG)


def warn_without_janitor(deployment: Deployment) -> None:
    """Logs a warning if the janitor is paused or missing: nobody would then take care of a throttle that is left."""
    try:
        paused = deployment.other_runs.is_paused(JANITOR_DAG)
    except ReadError as unread:
        log.info("Whether %s is paused is not known: %s", JANITOR_DAG, unread)
        return
    if paused is not False:
        log.warning(
            "The Dag %s is %s. If this run ends while copies are in flight, nobody removes their throttle. Unpause the "
            "Dag.",
            JANITOR_DAG,
            "missing" if paused is None else "paused",
        )
