"""The throttle around a run's batches: lock, set, confirm, put back. The decisions are in `execution.throttle`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.execution.progress import in_motion
from kafka_rebalance.execution.recovery import check_position, position
from kafka_rebalance.execution.throttle import (
    Release,
    ThrottleLease,
    check_in_force,
    desired_throttle,
    set_changes,
    take_lease,
)
from kafka_rebalance.execution.throttle import (
    release as decide_release,
)
from kafka_rebalance.model import artifacts
from kafka_rebalance.model.proposal import brokers_touched
from kafka_rebalance.verification.checks import Check
from kafka_rebalance.verification.stored_configs import entity_of
from kafka_rebalance.verification.throttles import check_left, check_throttles
from kafka_rebalance.workflow.approved import ApprovedPlan, check_before_write, read_approved, read_plan_view
from kafka_rebalance.workflow.freeze import check_not_frozen
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.outcome import fails_without_retry
from kafka_rebalance.workflow.run_lock import lock_owner
from kafka_rebalance.workflow.segments import check_copies_safe
from kafka_rebalance.zookeeper import lock
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_broker_configs, read_topic_configs
from kafka_rebalance.zookeeper.writer import merge_config

log = logging.getLogger(__name__)


@fails_without_retry
def hold(decision: Mapping[str, Any], dag_run: Any) -> dict[str, Any]:
    """Takes the cluster's lock and throttles exactly the approved moves, after a last look at the cluster.

    Where it fails half-way it puts back what it set and gives the lock back: Airflow runs no teardown after a setup
    that failed.
    """
    plan = read_approved(decision)
    check_not_frozen(plan.connection_id)
    connection = read_connection(plan.connection_id)
    with open_client(connection.zookeeper) as client:
        view = read_plan_view(client, plan)
        where = position(plan.candidate.batches, view)
        check_position(where)
        if where.in_flight is None:
            check_before_write(plan, view, where)
            check_copies_safe(client, connection, plan)
        owner = lock_owner(plan.candidate.digest, dag_run)
        lock.acquire(client, owner)
        try:
            lease = _set(client, plan, owner.run)
        except BaseException:
            _undo(client, plan, owner)
            raise
    log.info("throttled %d entities to %d bytes/s", len(lease.entities), lease.bytes_per_second)
    return {"throttle_bytes_per_second": lease.bytes_per_second, "entities": len(lease.entities)}


def _set(client: KazooClient, plan: ApprovedPlan, run: str) -> ThrottleLease:
    """Writes the lease down before the first config is changed, so that whatever follows can be taken back."""
    moves, rate = plan.candidate.moves, plan.throttle_bytes_per_second
    current = _read_configs(client, desired_throttle(moves, rate))
    lease = take_lease(run, plan.candidate.digest, moves, rate, current, existing=_open_lease(plan))
    artifacts.write_json(plan.folder, artifacts.THROTTLE, lease.to_mapping(), source_digest=plan.candidate.digest)
    for entity, changes in set_changes(lease, current).items():
        merge_config(client, entity, changes)
    check_in_force(lease, _read_configs(client, lease.entities))
    return lease


def _undo(client: KazooClient, plan: ApprovedPlan, owner: lock.LockOwner) -> None:
    """Best effort after a setup that failed; what cannot be undone is said, and the first error stays the error.

    A setup that is repeated while copies are in flight keeps their throttle and the lock, as `release` would.
    """
    try:
        lease = _open_lease(plan)
        if lease is None or _put_back(client, plan, lease).complete:
            lock.release(client, owner)
    except Exception:
        log.exception("the throttle could not be put back; %s says what was set", plan.folder / artifacts.THROTTLE)


@fails_without_retry
def release(decision: Mapping[str, Any], dag_run: Any) -> dict[str, Any]:
    """Puts back what was there for everything no longer in motion, then gives the lock back.

    Raises ThrottleError while copies are in flight: their throttle and the lock stay, as the lease in throttle.json
    says, since an unthrottled copy can take a broker's clients down.
    """
    plan = read_approved(decision)
    lease = _open_lease(plan)
    owner = lock_owner(plan.candidate.digest, dag_run)
    with open_client(read_connection(plan.connection_id).zookeeper) as client:
        result = Release({}, (), ()) if lease is None else _put_back(client, plan, lease)
        if not result.complete:
            shown = "; ".join(result.kept[:10])
            raise ThrottleError(
                f"Copies are still in flight, so {len(result.kept)} throttle settings stay: {shown}. Everything else "
                "was put back, and the lock is kept. Clear this task when the copies are in sync; the lease is in "
                "throttle.json."
            )
        lock.release(client, owner)
    return {"put_back": sum(map(len, result.changes.values())), "left_alone": list(result.foreign)}


def _put_back(client: KazooClient, plan: ApprovedPlan, lease: ThrottleLease) -> Release:
    moving = in_motion(plan.candidate.moves, read_plan_view(client, plan))
    result = decide_release(lease, _read_configs(client, lease.entities), moving)
    for entity, changes in result.changes.items():
        merge_config(client, entity, changes)
    for text in result.foreign:
        log.warning("%s", text)
    # Read back: a config that did not change is a throttle left behind.
    left = decide_release(lease, _read_configs(client, lease.entities), moving)
    if left.changes:
        raise ThrottleError(
            f"The throttle of {', '.join(sorted(left.changes))} is still there after it was put back: somebody sets it "
            "again. Find who, then clear this task."
        )
    if result.complete:
        document = {**lease.to_mapping(), "released_at": datetime.now(UTC).isoformat(timespec="seconds")}
        artifacts.write_json(plan.folder, artifacts.THROTTLE, document, source_digest=plan.candidate.digest)
    return result


def check_throttle_in_force(client: KazooClient, plan: ApprovedPlan) -> None:
    """Raises ThrottleError unless lists and rates are what the lease says; before each batch."""
    lease = _open_lease(plan)
    if lease is None:
        raise ThrottleError(
            "No throttle is held for this run, so no batch is requested. Clear hold_throttle with what follows it."
        )
    check_in_force(lease, _read_configs(client, lease.entities))


def check_put_back(client: KazooClient, plan: ApprovedPlan) -> tuple[Check, ...]:
    """The verification's results about throttles: as before where the run set some, none left on what it touched."""
    topics = (f"topics/{topic}" for topic in plan.topics)
    entities = {*topics, *map(entity_of, brokers_touched(plan.candidate.moves))}
    if not (plan.folder / artifacts.THROTTLE).exists():
        return check_left(_read_configs(client, entities), ())
    lease = ThrottleLease.from_mapping(artifacts.read_json(plan.folder, artifacts.THROTTLE))
    now = _read_configs(client, entities.union(lease.entities))
    checks = check_throttles(lease.prior, lease.wanted, now)
    return (*checks, *check_left(now, checks))


def _open_lease(plan: ApprovedPlan) -> ThrottleLease | None:
    """The lease that this run holds; None where it has none, or has given it back."""
    if not (plan.folder / artifacts.THROTTLE).exists():
        return None
    document = artifacts.read_json(plan.folder, artifacts.THROTTLE)
    return None if "released_at" in document else ThrottleLease.from_mapping(document)


def _read_configs(client: KazooClient, entities: Collection[str]) -> dict[str, dict[str, str]]:
    """{entity: {key: value}} of brokers and topics, and of all brokers' default, pipelined."""
    names = [entity.partition("/") for entity in entities]
    topics = read_topic_configs(client, [name for kind, _, name in names if kind == "topics"])
    brokers = read_broker_configs(client, [int(name) for kind, _, name in names if kind == "brokers"])
    return {
        **{f"topics/{topic}": values for topic, values in topics.items()},
        **{entity_of(broker): values for broker, values in brokers.items()},
    }
