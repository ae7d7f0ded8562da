"""The end of a run's throttle: the task puts back what was there before, and gives the cluster's lock back.

While copies are in flight, throttle and lock stay, and the janitor takes care of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from kafka_rebalance.clock import now_text
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ClusterNotReadyError, ConfigChangedError, LockLostError, ReadError, ThrottleError
from kafka_rebalance.kafka.throttles import CORDON, LOG_DIR_RATE, throttle_problem
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence, LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.approved_plan import read_approved
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.passed_over_tasks import check_rest_will_run
from kafka_rebalance.run.run_lock import forget_lock, lock_owner
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.entity_configs import read_away, read_configs, read_lease_configs
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.put_back import Release, absent_receivers, copying_of, left_changes
from kafka_rebalance.throttle.put_back import release as decide_release
from kafka_rebalance.throttle.throttle_in_force import check_nothing_of_ours

log = logging.getLogger(__name__)


def release_throttle(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Puts back the throttle of everything that is no longer in motion, then gives the lock back.

    Raises ThrottleError while copies are in flight. Their throttle and the lock stay, because an unthrottled copy can
    take a broker's clients down. From then on the janitor has the lease. This task may be repeated.
    """
    deployment = inputs.deployment
    plan = read_approved(inputs, decision)
    owner = lock_owner(deployment, plan.candidate.digest, inputs.run)
    with open_cluster(deployment.read_connection(plan.connection_id)) as cluster:
        kept = ClusterLease(deployment, cluster, plan.snapshot.cluster_id)
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
        raise _taken_again(owner.run, "was put back")
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


# Puts the throttle back to what was there before, and closes its lease. `throttle.put_back` decides.


ATTEMPTS = 5  # at configs that others change at the same moment


def put_back(kept: ClusterLease, decided: ThrottleLease) -> Release:
    """Puts back the throttle of everything that is not in motion, and closes the lease if nothing else is left.

    `decided` is the lease at the time of the decision, which may be long ago. If it has been given back since, nothing
    changes. Raises ThrottleError if the run has taken its throttle again or a value does not stay as put back,
    ClusterNotReadyError while the cluster is being migrated to KRaft.
    """
    for _ in range(ATTEMPTS):
        # Before the read of lease and cluster: nobody can set this throttle or request moves under it from now on, and
        # what they did or announced before is seen. Whoever takes the cluster after this stops the writes below.
        fence = kept.cluster.stop_requests().fence
        lease = kept.read_own(decided)
        if lease is None:
            return Release({}, (), ())
        if lease.taken_under != decided.taken_under:
            raise _taken_again(lease.run, "was to be put back")
        try:
            result = write_back(kept.cluster, lease, fence)
        except (ConfigChangedError, LockLostError):
            continue  # somebody sets it, takes it again or requests moves at this moment: read everything again
        if not result.complete:
            return result
        closed = replace(
            lease,
            released_at=now_text(),
            generation=fence.generation,
            left_behind=_left_behind(lease, result.left),
            late_until=_late_until(kept.cluster),
        )
        kept.write(closed, fence)
        if kept.is_latest(closed):
            lease_files.remove_before(kept.deployment, closed)
            return result
    raise ThrottleError(
        f"Others keep taking or changing the throttle of run {decided.run} while this task puts it back. The lease "
        "stays open. Stop changing it, then clear this task."
    )


def _left_behind(lease: ThrottleLease, away: Collection[str]) -> dict[str, dict[str, str | None]]:
    for entity in sorted(away):
        if CORDON in lease.prior[entity]:
            log.warning(
                "%s is away, so the cordon (%s) of run %s stays there. The janitor takes it back when it is back.",
                entity,
                CORDON,
                lease.run,
            )
        log.warning(
            "%s is away, so the rate of run %s stays there. %s",
            entity,
            lease.run,
            "Its copies between log dirs go on under it when the broker is back. The janitor puts the rate back when "
            "they have ended."
            if LOG_DIR_RATE in lease.prior[entity]
            else "No list names the broker any more, so the rate slows nothing. The janitor puts it back when the "
            "broker is back.",
        )
    return {entity: dict(lease.prior[entity]) for entity in sorted(away)}


def _late_until(cluster: OpenCluster) -> str | None:
    """By the clock of the cluster: one of a worker may be wrong, and others compare it."""
    if not cluster.late_seconds:
        return None
    now = cluster.lock.read_time_of_fence()  # this task has just raised it
    return (now + timedelta(seconds=cluster.late_seconds)).isoformat(timespec="seconds")


def put_back_late(kept: ClusterLease) -> tuple[str, ...]:
    """Puts back what a worker that stood still has set after the lease was closed. Returns these entities.

    Until `late_until` it may come at any time. Raises ThrottleError as `put_back`, and ConfigChangedError or
    LockLostError if somebody else writes at this moment.
    """
    lease = kept.read()
    if lease is None or lease.released_at is None or lease.late_until is None:
        return ()
    is_over = kept.cluster.lock.read_time() > datetime.fromisoformat(lease.late_until)
    in_flight = copying_of(lease, kept.cluster.read_view(lease.topics))
    put_back_once = lease.without(lease.left_behind)
    late = decide_release(*read_lease_configs(kept.cluster, put_back_once), in_flight).changes
    if late:
        log.warning("Throttle of run %s was set after it had been put back: %s", lease.run, some(sorted(late)))
        write_back(kept.cluster, put_back_once, kept.cluster.lock.raise_fence())
    if is_over:
        kept.write(replace(lease, late_until=None), NO_FENCE)
    return tuple(sorted(late))


def _taken_again(run: str, moment: str) -> ThrottleError:
    return ThrottleError(
        f"Run {run} took its throttle again at the moment in which it {moment}. The lease stays open, and no batch is "
        "requested unless all of the throttle is in force. Clear hold_throttle of that run with what follows it."
    )


def write_back(cluster: OpenCluster, lease: ThrottleLease, fence: Fence) -> Release:
    """Puts back what is not in motion, under this fence, and leaves the lease as it is. Errors as in `put_back`, and
    ConfigChangedError or LockLostError if somebody else writes at this moment.
    """
    view = cluster.read_view(lease.topics)
    in_flight = copying_of(lease, view)
    away = read_left_alone(cluster, lease.wanted, view)
    here, configs = read_lease_configs(cluster, lease.without(away))
    away |= lease.wanted.keys() - here.wanted.keys()
    within = read_copies_within(cluster, here.wanted, view)
    result = replace(decide_release(here, configs, in_flight, within), left=away)
    if view.controller is not None and view.controller.kraft_epoch >= 0 and result.changes:
        raise _migrated(lease, result)
    cluster.merge_configs(result.changes, decided_on=configs, fence=fence)
    for text in (*result.foreign, *absent_receivers(lease, view)):
        log.warning("%s", text)
    # Read again: a config that did not change is a throttle left behind.
    left = decide_release(*read_lease_configs(cluster, here), in_flight, within)
    if left.changes:
        raise ThrottleError(
            f"The throttle of {', '.join(sorted(left.changes))} is still there after it was put back: somebody sets it "
            "again. Find out who, then clear this task."
        )
    return result


def _migrated(lease: ThrottleLease, result: Release) -> ClusterNotReadyError:
    """Once somebody writes them through Kafka, its controller writes them to ZooKeeper too, and nothing is left."""
    keys = [
        f"{entity}: {key} {'removed' if value is None else f'set to {value}'}"
        for entity, changes in result.changes.items()
        for key, value in changes.items()
    ]
    return ClusterNotReadyError(
        "A KRaft controller owns the cluster: it is being migrated from ZooKeeper, and no broker reads configs written "
        f"to ZooKeeper. What is left of the throttle of run {lease.run} is still in force. Write this with "
        f"kafka-configs through --bootstrap-server: {some(keys)}. prior in its throttle.json says what was there "
        "before. The next look after that closes the lease."
    )


def check_can_be_put_back(lease: ThrottleLease) -> None:
    """Raises ThrottleError if somebody has set a value that Kafka does not accept: the writer could not restore it."""
    for entity, values in lease.prior.items():
        problem = throttle_problem(entity, values)
        if problem is not None:
            raise ThrottleError(
                f"config of {entity}: {problem}. It could not be put back after the moves, so no throttle was set. "
                "Correct or remove it, then clear this task."
            )


# What closed leases have left on brokers that were away: put back once they are back and it slows no copy.


@dataclass(frozen=True, slots=True)
class Returned:
    """The brokers on which what was left is put back now, and {a broker with a rate for copies within: why it stays}"""

    back: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)


def put_back_left_behind(kept: ClusterLease) -> Returned:
    """Puts back what leases have left on brokers that were away, where they are back and copy nothing under it.

    While another lease is open, everything stays. Raises ConfigChangedError or LockLostError if somebody else writes at
    this moment.
    """
    lease = kept.read()
    if lease is None or not lease.all_left:
        return Returned()
    configs: dict[str, dict[str, str | None]] = {}
    for left in lease.all_left:
        for entity, values in left.prior.items():
            configs.setdefault(entity, {}).update(values)
    view = kept.cluster.read_view(())
    away = read_left_alone(kept.cluster, configs, view)
    why = {
        entity: "which is away" if entity in away else _why_kept(kept.cluster, entity, values, view)
        for entity, values in configs.items()
    }
    back = tuple(sorted(entity for entity in configs if entity not in away and why[entity] is None))
    if lease.released_at is None:
        why.update(dict.fromkeys(back, "and another run holds the cluster"))
        back = ()
    stays = {
        entity: _kept_text(lease, entity, reason)
        for entity, reason in sorted(why.items())
        if reason is not None and LOG_DIR_RATE in configs[entity]
    }
    if back:
        _put_back(kept, lease, back)
    return Returned(back, stays)


def _put_back(kept: ClusterLease, lease: ThrottleLease, back: tuple[str, ...]) -> None:
    fence = kept.cluster.lock.raise_fence()
    if kept.read() != lease:
        raise LockLostError(f"A run has taken or changed the throttle, so what run {lease.run} left there stays.")
    now = read_configs(kept.cluster, back)
    kept.cluster.merge_configs(left_changes(lease.all_left, now), decided_on=now, fence=fence)
    kept.write(replace(lease.without_left(back), generation=fence.generation), fence)


def _why_kept(cluster: OpenCluster, entity: str, values: Mapping[str, object], view: ClusterView) -> str | None:
    """Asks one broker, so that one that does not answer keeps only its own rate. None: nothing keeps it."""
    try:
        copied = read_copies_within(cluster, {entity: values}, view)
    except ReadError as silent:
        return f"which does not tell whether it copies: {silent}"
    number = sum(map(len, copied.values()))
    return f"which still copies between its log dirs (replicas: {number})" if number else None


def _kept_text(lease: ThrottleLease, entity: str, why: str) -> str:
    run = next(left.run for left in reversed(lease.all_left) if LOG_DIR_RATE in left.prior.get(entity, ()))
    return (
        f"run {run} is over and has left its rate for copies between log dirs on {entity}, {why}. The rate is put back "
        "once the broker is back and copies nothing between them, and no other run holds the cluster."
    )


# Copies between log dirs under a lease's rate: nobody lifts it while they run, or while their broker is away.


def read_copies_within(
    cluster: OpenCluster, configs: Mapping[str, Mapping[str, object]], view: ClusterView
) -> dict[int, frozenset[TopicPartition]]:
    """The replicas on their way between log dirs of the brokers that have the rate for that in `configs`, by broker.

    Copies of others count, because the rate slows them too. A broker that is not registered copies nothing, and nobody
    can ask it. Raises ReadError if a registered one does not answer.
    """
    slowed = view.brokers.keys() & _slowed(configs).values()
    return cluster.read_copies_within(sorted(slowed)) if slowed else {}


def read_left_alone(
    cluster: OpenCluster, configs: Mapping[str, Mapping[str, object]], view: ClusterView
) -> frozenset[str]:
    """The brokers of a lease's `configs` that are away, and whose part of it stays until they are back.

    Without ZooKeeper nobody can change it. With ZooKeeper that is the rate for copies between log dirs: they go on
    when the broker is back. Other copies to a broker that is away are judged by `copying_of`. Both calls take the same
    view, so a broker that returns meanwhile is not away for the one and asked by neither.
    """
    slowed = {entity for entity, broker in _slowed(configs).items() if broker not in view.brokers}
    return read_away(cluster, configs.keys()) | slowed


def _slowed(configs: Mapping[str, Mapping[str, object]]) -> dict[str, int]:
    return {entity: int(entity.removeprefix("brokers/")) for entity, keys in configs.items() if LOG_DIR_RATE in keys}
