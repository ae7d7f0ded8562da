"""The throttle around a run's batches: lock, set, confirm, put back. The decisions are in `execution.throttle`.

What counts is the cluster's lease (`workflow.throttle.leases`). It is written before any config, so that whoever
comes later knows what is ours, and is given back last.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.errors import (
    ClusterNotReadyError,
    ConfigChangedError,
    LockLostError,
    ThrottleError,
)
from kafka_rebalance.execution.run_position import check_position, position
from kafka_rebalance.execution.throttle.batch_lists import only_for
from kafka_rebalance.execution.throttle.in_force import check_in_force, set_changes
from kafka_rebalance.execution.throttle.put_back import Release
from kafka_rebalance.execution.throttle.put_back import release as decide_release
from kafka_rebalance.execution.throttle.recorded_before import take_lease
from kafka_rebalance.execution.throttle.still_copying import absent_receivers, copying_of
from kafka_rebalance.execution.throttle.wanted import desired_throttle
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.same_airflow import is_same_run
from kafka_rebalance.steps.deployment import read_connection
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.workflow.run.approved import ApprovedPlan, read_approved, read_plan_view
from kafka_rebalance.workflow.run.asked_batches import asked_for
from kafka_rebalance.workflow.run.folder import check_newest_attempt
from kafka_rebalance.workflow.run.freeze import check_not_frozen
from kafka_rebalance.workflow.run.lock import forget_lock, lock_owner, take_lock
from kafka_rebalance.workflow.run.preflight import check_before_write, check_clock_for_window, check_plan_within_policy
from kafka_rebalance.workflow.run.same_cluster import check_same_cluster
from kafka_rebalance.workflow.run.segments import check_copies_safe
from kafka_rebalance.workflow.throttle import cluster_lease, leases
from kafka_rebalance.workflow.throttle.entity_configs import read_configs
from kafka_rebalance.workflow.throttle.in_force import (
    check_nothing_of_ours,
    has_held_before,
    without_gone,
)
from kafka_rebalance.workflow.throttle.rates import check_run_rate
from kafka_rebalance.workflow.throttle.standing import warn_without_janitor
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.config_writes import merge_config
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.znodes import throttle_problem

log = logging.getLogger(__name__)

ATTEMPTS = 5


def hold(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Takes the cluster's lock and throttles exactly the approved moves, after a last look at the cluster.

    Where it fails half-way it puts back what it set and gives the lock back: Airflow runs no teardown after a setup
    that failed.
    """
    plan = read_approved(decision, inputs.run)
    check_not_frozen(plan.connection_id)
    connection = read_connection(plan.connection_id)
    with open_client(connection.zookeeper) as client:
        view = read_plan_view(client, plan)
        asked = asked_for(plan.folder, client)
        if not asked:
            check_newest_attempt(plan.folder)
        where = position(plan.candidate.batches, view, asked)
        check_position(where, view)
        if where.in_flight is not None:
            check_same_cluster(connection, view)
        else:
            plan = check_before_write(client, connection, plan, view, where)
            check_plan_within_policy(plan)
            check_copies_safe(client, connection, plan)
            check_run_rate(plan.folder, plan.candidate, plan.throttle_bytes_per_second, None)
        owner = lock_owner(plan.candidate.digest, inputs.run)
        held_before = has_held_before(plan, cluster_lock.read(client), owner)
        fence = take_lock(client, plan.connection_id, owner)
        try:
            check_clock_for_window(client, plan)
            batch = where.in_flight or where.next
            first = {move.topic_partition for move in batch.moves} if batch is not None else set()
            lease = _set(client, plan, owner, fence, view, first, held_before=held_before)
        except LockLostError:
            raise  # whoever took over has it
        except BaseException:
            _undo(client, plan, owner, fence, held_before=held_before)
            raise
    warn_without_janitor()
    log.info("throttled %d entities to %d bytes/s", len(lease.entities), lease.bytes_per_second)
    return {"throttle_bytes_per_second": lease.bytes_per_second, "entities": len(lease.entities)}


def _set(
    client: KazooClient,
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
    moves, rate = plan.candidate.moves, plan.throttle_bytes_per_second
    known = cluster_lease.read(client, plan.snapshot["cluster_id"])
    existing = known if known is not None and known.released_at is None else None
    if known is None and held_before:
        check_nothing_of_ours(client, plan, "Nothing was written.")
    current = read_configs(client, {*desired_throttle(moves, rate), *(existing.entities if existing else ())})
    taken = take_lease(owner.run, plan.candidate.digest, moves, rate, current, owner=owner.owner, existing=existing)
    check_can_be_put_back(taken)
    lease = replace(
        taken,
        connection_id=plan.connection_id,
        cluster_id=plan.snapshot["cluster_id"],
        run_folder=str(plan.folder),
        taken_at=leases.now(),
        taken_under=fence.generation,
        generation=fence.generation,
        handed_over_at=None,
    )
    cluster_lease.write(client, lease, fence)
    _check_latest(client, lease)
    copying = copying_of(lease, view)
    still = only_for(without_gone(plan, lease), {*first, *copying})
    for entity, changes in set_changes(still, current).items():
        merge_config(client, entity, changes, decided_on=current.get(entity, {}), fence=fence)
    _check_latest(client, lease)
    check_in_force(still, read_configs(client, still.entities))
    return lease


def check_can_be_put_back(lease: ThrottleLease) -> None:
    """Raises ThrottleError where somebody has set what Kafka does not take, and the writer would refuse to restore."""
    for entity, values in lease.prior.items():
        problem = throttle_problem(entity, values)
        if problem is not None:
            raise ThrottleError(
                f"config of {entity}: {problem}. It could not be put back after the moves, so no throttle was set. "
                "Correct or remove it, then clear this task."
            )


def _check_latest(client: KazooClient, lease: ThrottleLease) -> None:
    """Raises LockLostError where somebody has given this lease back, changed it or taken another one meanwhile.

    Nothing is undone: who did so has read what was set under this lease, and what is there now is theirs.
    """
    if not cluster_lease.is_latest(client, lease):
        raise LockLostError(
            f"The throttle of run {lease.run} was given back, changed or taken by another worker while this one set "
            "it. What this one had set is in the hands of the other. Clear this task if the run is to go on. If it "
            f"says so again, ZooKeeper was set back to a backup: remove what is later than {lease.generation} in the "
            "folder of this cluster's leases below runs_url."
        )


def _undo(
    client: KazooClient,
    plan: ApprovedPlan,
    owner: cluster_lock.LockOwner,
    fence: cluster_lock.Fence,
    *,
    held_before: bool,
) -> None:
    """Best effort after a setup that failed; what cannot be undone is said, and the first error stays the error.

    A setup that is repeated while copies are in flight keeps their throttle and the lock, as `release` would; what
    another attempt at it has taken meanwhile is that one's.
    """
    try:
        lease = _open_lease(client, plan, owner)
        if lease is not None:
            is_ours = lease.taken_under == fence.generation
            if not (is_ours and put_back(client, lease).complete):
                return
            fence = cluster_lock.read_fence(client)
            if _open_lease(client, plan, owner) is not None:
                return
        elif held_before and cluster_lease.read(client, plan.snapshot["cluster_id"]) is None:
            check_nothing_of_ours(client, plan, "The lock is kept.")
        cluster_lock.release(client, owner, fence=fence)
        forget_lock(plan.connection_id, owner)
    except Exception:
        log.exception("the throttle could not be put back; the lease says what was set: %s", plan.folder)


def release(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Puts back what was there for everything no longer in motion, then gives the lock back.

    Raises ThrottleError while copies are in flight: their throttle and the lock stay, since an unthrottled copy can
    take a broker's clients down. The janitor has the lease from then on, and this task may be repeated.
    """
    plan = read_approved(decision, inputs.run)
    owner = lock_owner(plan.candidate.digest, inputs.run)
    with open_client(read_connection(plan.connection_id).zookeeper) as client:
        lease = _open_lease(client, plan, owner)
        result = Release({}, (), ())
        if lease is not None:
            result = put_back(client, lease)
        if lease is not None and not result.complete:
            _hand_over(client, plan, owner, lease.taken_under)
            shown = "; ".join(result.kept[:10])
            raise ThrottleError(
                f"Copies are still in flight, so {len(result.kept)} throttle settings stay: {shown}. Everything else "
                "was put back, and the lock is kept. Nobody follows these copies: kafka_throttle_janitor takes their "
                "throttle off when the last one is in sync, and so does this task when it is repeated."
            )
        fence = cluster_lock.read_fence(
            client
        )  # before the lease: a run that takes both again does so under a later one
        if _open_lease(client, plan, owner) is not None:
            raise _taken_again(owner.run, "was put back")
        if cluster_lease.read(client, plan.snapshot["cluster_id"]) is None:
            check_nothing_of_ours(client, plan, "The lock is kept.")
        cluster_lock.release(client, owner, fence=fence)
    forget_lock(plan.connection_id, owner)
    return {"put_back": sum(map(len, result.changes.values())), "left_alone": list(result.foreign)}


def _hand_over(client: KazooClient, plan: ApprovedPlan, owner: cluster_lock.LockOwner, taken_under: str) -> None:
    """Notes in the lease that the janitor has it, once; not in one that the run has taken again since."""

    def unnoted() -> ThrottleLease | None:
        lease = _open_lease(client, plan, owner)
        is_ours = lease is not None and lease.taken_under == taken_under and lease.handed_over_at is None
        return lease if is_ours else None

    for _ in range(ATTEMPTS):
        if unnoted() is None:
            return
        fence = cluster_lock.raise_fence(client)
        lease = unnoted()
        if lease is not None:
            with suppress(LockLostError):  # somebody changes it at this moment: it is read anew
                cluster_lease.write(
                    client, replace(lease, handed_over_at=leases.now(), generation=fence.generation), fence
                )


def put_back(client: KazooClient, decided: ThrottleLease) -> Release:
    """Puts back what was there for everything of which no copy is in motion, and closes the lease where that is all.

    `decided`: the lease as it was when this was decided, which may be long ago; where it has been given back since,
    nothing is touched, whoever throttles now. A lease whose rate somebody changes at the same moment is looked at
    again. Raises ThrottleError where the run has taken its throttle again, or where a value
    does not stay as it was put back, ClusterNotReadyError while the cluster is being migrated to KRaft.
    """
    for _ in range(ATTEMPTS):
        # Raised before lease and cluster are read: who sets this throttle, or requests moves under it, no longer can,
        # or has and is seen; and who takes the cluster after this stops the writes below.
        fence = cluster_lock.raise_fence(client)
        lease = cluster_lease.read_open(client, decided.cluster_id)
        if lease is None or not is_same_run(lease.run, lease.owner, decided.run, decided.owner):
            return Release({}, (), ())
        if lease.taken_under != decided.taken_under:
            raise _taken_again(lease.run, "was to be put back")
        try:
            result = write_back(client, lease, fence)
        except (ConfigChangedError, LockLostError):
            continue  # somebody sets it, takes it again or requests moves at this moment: all is read anew
        if not result.complete:
            return result
        closed = replace(lease, released_at=leases.now(), generation=fence.generation)
        cluster_lease.write(client, closed, fence)
        if cluster_lease.is_latest(client, closed):
            leases.remove_before(closed)
            return result
    raise ThrottleError(
        f"The throttle of run {decided.run} is taken or changed again and again while it is put back. The lease stays "
        "open. Stop changing it, then clear this task."
    )


def _taken_again(run: str, moment: str) -> ThrottleError:
    return ThrottleError(
        f"Run {run} took its throttle again at the moment in which it {moment}. The lease stays open, and no batch is "
        "requested unless all of the throttle is in force. Clear hold_throttle of that run with what follows it."
    )


def write_back(client: KazooClient, lease: ThrottleLease, fence: cluster_lock.Fence) -> Release:
    """Puts back what is not in motion, under this fence; the lease stays as it is. Errors as in `put_back`, and
    ConfigChangedError and LockLostError where somebody else writes at this moment.
    """
    view = read_cluster_view(client, lease.topics)
    in_flight = copying_of(lease, view)
    configs = read_configs(client, lease.entities)
    result = decide_release(lease, configs, in_flight)
    if view.controller is not None and view.controller.kraft_epoch >= 0 and result.changes:
        raise _migrated(lease, result)
    for entity, changes in result.changes.items():
        merge_config(client, entity, changes, decided_on=configs.get(entity, {}), fence=fence)
    for text in (*result.foreign, *absent_receivers(lease, view)):
        log.warning("%s", text)
    # Read back: a config that did not change is a throttle left behind.
    left = decide_release(lease, read_configs(client, lease.entities), in_flight)
    if left.changes:
        raise ThrottleError(
            f"The throttle of {', '.join(sorted(left.changes))} is still there after it was put back: somebody sets it "
            "again. Find who, then clear this task."
        )
    return result


def _migrated(lease: ThrottleLease, result: Release) -> ClusterNotReadyError:
    """Once somebody has done it there, the KRaft controller writes it to ZooKeeper too, and nothing is left to do."""
    keys = [
        f"{entity}: {key} {'removed' if value is None else f'set to {value}'}"
        for entity, changes in result.changes.items()
        for key, value in changes.items()
    ]
    return ClusterNotReadyError(
        f"A KRaft controller owns the cluster: it is being migrated from ZooKeeper, and a config that is written there "
        f"reaches no broker. What is left of the throttle of run {lease.run} is still in force: "
        f"{some(keys)}. Write them with kafka-configs "
        "through --bootstrap-server, by throttle.json of the run, which has what was there before as prior; the lease "
        "is closed at the next look after that."
    )


def _open_lease(client: KazooClient, plan: ApprovedPlan, owner: cluster_lock.LockOwner) -> ThrottleLease | None:
    """The lease that this run holds; None where it has none, or has given it back."""
    lease = cluster_lease.read_open(client, plan.snapshot["cluster_id"])
    is_ours = lease is not None and is_same_run(lease.run, lease.owner, owner.run, owner.owner)
    return lease if is_ours else None
