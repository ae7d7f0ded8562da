"""Puts the throttle back to what was there before, and closes its lease. `execution.throttle.put_back` decides."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from kafka_rebalance.clock import now_text
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import ClusterNotReadyError, ConfigChangedError, LockLostError, ThrottleError
from kafka_rebalance.kafka.throttles import CORDON, LOG_DIR_RATE, throttle_problem
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.cluster_lease import ClusterLease
from kafka_rebalance.throttle.copies_within import read_copies_within, read_left_alone
from kafka_rebalance.throttle.entity_configs import read_lease_configs
from kafka_rebalance.throttle.put_back import Release
from kafka_rebalance.throttle.put_back import release as decide_release
from kafka_rebalance.throttle.still_copying import absent_receivers, copying_of
from kafka_rebalance.throttle.throttle_lease import ThrottleLease

log = logging.getLogger(__name__)

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
            raise taken_again(lease.run, "was to be put back")
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


def taken_again(run: str, moment: str) -> ThrottleError:
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
