"""The throttle around a run's batches: lock, set, confirm. The decisions are in `execution.throttle`.

What counts is the cluster's lease (`steps.throttle.lease_files`). It is written before any config, so that whoever
comes later knows what is ours, and is given back last.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.errors import LockLostError, ReadError, StoppedError
from kafka_rebalance.execution.check.batch_wait import Wait
from kafka_rebalance.execution.run_position import check_position, position
from kafka_rebalance.execution.throttle.batch_lists import only_for
from kafka_rebalance.execution.throttle.in_force import check_in_force, set_changes
from kafka_rebalance.execution.throttle.recorded_before import take_lease
from kafka_rebalance.execution.throttle.still_copying import copying_of
from kafka_rebalance.execution.throttle.wanted import desired_throttle
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.clock import now_text
from kafka_rebalance.steps.clusters import JANITOR_DAG
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.steps.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.steps.run.asked_batches import asked_for
from kafka_rebalance.steps.run.checks_before_write import (
    check_before_write,
    check_clock_for_window,
    check_plan_within_policy,
)
from kafka_rebalance.steps.run.run_lock import forget_lock, lock_owner, take_lock
from kafka_rebalance.steps.run.same_cluster import check_same_cluster
from kafka_rebalance.steps.run.segment_configs_now import check_copies_safe
from kafka_rebalance.steps.run.stop_requests import read_control
from kafka_rebalance.steps.run_folder import check_newest_attempt
from kafka_rebalance.steps.throttle.cluster_lease import ClusterLease
from kafka_rebalance.steps.throttle.entity_configs import read_configs
from kafka_rebalance.steps.throttle.run_rates import check_run_rate
from kafka_rebalance.steps.throttle.throttle_in_force import check_nothing_of_ours, has_held_before, without_gone
from kafka_rebalance.steps.throttle.write_back import check_can_be_put_back, put_back
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.config_writes import merge_config
from kafka_rebalance.zookeeper.reader import read_cluster_view

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Held:
    """The throttle that is in force."""

    throttle_bytes_per_second: int
    entities: int


def hold_throttle(inputs: StepInputs, decision: Mapping[str, Any]) -> Held | Wait:
    """Takes the cluster's lock and throttles exactly the approved moves, after a last look at the cluster. Before the
    run's `not_before` it takes neither, and gives what to wait for.

    Where it fails half-way it puts back what it set and gives the lock back: Airflow runs no teardown after a setup
    that failed.
    """
    deployment = inputs.deployment
    plan = read_approved(inputs, decision)
    until = plan.window.waits_until(datetime.now(UTC))
    if until is not None:
        by = read_control(plan.folder).stop_after_batch
        if by is not None:
            raise StoppedError(
                f"The run was stopped before its not_before, {until.isoformat()}, as {by} asked. Neither lock nor "
                "throttle was taken, and nothing was moved. Start a new Dag run to plan from the current cluster."
            )
        return Wait(plan.connection_id, str(plan.folder), not_before=until, until=plan.window.finish_by)
    deployment.check_not_frozen(plan.connection_id)
    connection = deployment.read_connection(plan.connection_id)
    with open_client(connection.zookeeper) as client:
        view = read_cluster_view(client, plan.topics)
        asked = asked_for(plan.folder, client)
        if not asked:
            check_newest_attempt(plan.folder)
        where = position(plan.candidate.batches, view, asked)
        check_position(where, view)
        if where.in_flight is not None:
            check_same_cluster(connection, view)
        else:
            plan = check_before_write(deployment, client, connection, plan, view, where)
            check_plan_within_policy(deployment, plan)
            check_copies_safe(client, connection, plan)
            check_run_rate(plan.folder, plan.candidate, plan.throttle_bytes_per_second, None)
        owner = lock_owner(deployment, plan.candidate.digest, inputs.run)
        held_before = has_held_before(plan, cluster_lock.read(client), owner)
        fence = take_lock(deployment, client, plan.connection_id, owner)
        kept = ClusterLease(deployment, client, plan.snapshot["cluster_id"])
        try:
            check_clock_for_window(client, plan)
            batch = where.in_flight or where.next
            first = {move.topic_partition for move in batch.moves} if batch is not None else set()
            lease = _set(kept, plan, owner, fence, view, first, held_before=held_before)
        except LockLostError:
            raise  # whoever took over has it
        except BaseException:
            _undo(kept, plan, owner, fence, held_before=held_before)
            raise
    warn_without_janitor(deployment)
    log.info("throttled %d entities to %d bytes/s", len(lease.entities), lease.bytes_per_second)
    return Held(lease.bytes_per_second, len(lease.entities))


def _set(
    kept: ClusterLease,
    plan: ApprovedPlan,
    owner: cluster_lock.LockOwner,
    fence: cluster_lock.Fence,
    view: ClusterView,
    first: Collection[TopicPartition],
    *,
    held_before: bool,
) -> ThrottleLease:
    """Writes the lease down before the first config is changed, so that whatever follows can be taken back.

    Set are all rates, and the lists for the batch that runs or comes (`first`) and for what copies still.
    """
    client, moves, rate = kept.client, plan.candidate.moves, plan.throttle_bytes_per_second
    known = kept.read()
    existing = known if known is not None and known.released_at is None else None
    if known is None and held_before:
        check_nothing_of_ours(client, plan, "Nothing was written.")
    current = read_configs(client, {*desired_throttle(moves, rate), *(existing.entities if existing else ())})
    taken = take_lease(owner.run, plan.candidate.digest, moves, rate, current, owner=owner.owner, existing=existing)
    check_can_be_put_back(taken)
    lease = replace(
        taken,
        connection_id=plan.connection_id,
        cluster_id=kept.cluster_id,
        run_folder=str(plan.folder),
        taken_at=now_text(),
        taken_under=fence.generation,
        generation=fence.generation,
        handed_over_at=None,
    )
    kept.write(lease, fence)
    _check_latest(kept, lease)
    copying = copying_of(lease, view)
    still = only_for(without_gone(plan, lease), {*first, *copying})
    for entity, changes in set_changes(still, current).items():
        merge_config(client, entity, changes, decided_on=current.get(entity, {}), fence=fence)
    _check_latest(kept, lease)
    check_in_force(still, read_configs(client, still.entities))
    return lease


def _check_latest(kept: ClusterLease, lease: ThrottleLease) -> None:
    """Raises LockLostError where somebody has given this lease back, changed it or taken another one meanwhile.

    Nothing is undone: who did so has read what was set under this lease, and what is there now is theirs.
    """
    if not kept.is_latest(lease):
        raise LockLostError(
            f"The throttle of run {lease.run} was given back, changed or taken by another worker while this one set "
            "it. What this one had set is in the hands of the other. Clear this task if the run is to go on. If it "
            f"says so again, ZooKeeper was set back to a backup: remove what is later than {lease.generation} in the "
            "folder of this cluster's leases below runs_url."
        )


def _undo(
    kept: ClusterLease,
    plan: ApprovedPlan,
    owner: cluster_lock.LockOwner,
    fence: cluster_lock.Fence,
    *,
    held_before: bool,
) -> None:
    """Best effort after a setup that failed; what cannot be undone is said, and the first error stays the error.

    A setup that is repeated while copies are in flight keeps their throttle and the lock, as a release
    would; what another attempt at it has taken meanwhile is that one's.
    """
    client = kept.client
    try:
        lease = kept.read_own(owner)
        if lease is not None:
            is_ours = lease.taken_under == fence.generation
            if not (is_ours and put_back(kept, lease).complete):
                return
            fence = cluster_lock.read_fence(client)
            if kept.read_own(owner) is not None:
                return
        elif held_before and kept.read() is None:
            check_nothing_of_ours(client, plan, "The lock is kept.")
        cluster_lock.release(client, owner, fence=fence)
        forget_lock(kept.deployment, plan.connection_id, owner)
    except Exception:
        log.exception("the throttle could not be put back; the lease says what was set: %s", plan.folder)


def warn_without_janitor(deployment: Deployment) -> None:
    """Says in the log that nobody will take care of a throttle that is left, where the janitor is paused or missing."""
    try:
        paused = deployment.other_runs.is_paused(JANITOR_DAG)
    except ReadError as unread:
        log.info("Whether %s is paused is not known: %s", JANITOR_DAG, unread)
        return
    if paused is not False:
        log.warning(
            "The Dag %s is %s: if this run goes away while copies are in flight, nobody takes their throttle off. "
            "Unpause it.",
            JANITOR_DAG,
            "missing" if paused is None else "paused",
        )
