"""`write` of `kafka_topics` writes exactly the approved change of one topic, and `verify` checks it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.admin import log_dirs
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.kafka.who_may_receive import Shut
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approved_plan import ApprovedRequest, check_may_begin, read_approved_request
from kafka_rebalance.run.check_result import Check, check_passed, settled, write_checks
from kafka_rebalance.run.checks_before_write import check_approved_cluster, shut_now
from kafka_rebalance.run.inputs import StartedRun, StepInputs
from kafka_rebalance.run.passed_over_tasks import check_all_will_run
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.run_lock import forget_lock, lock_owner, take_lock
from kafka_rebalance.topics.plan import failing_as_kafka_topics
from kafka_rebalance.topics.rules import (
    TOPIC_FILE,
    RequestedChange,
    check_configs,
    check_deleted,
    check_new_partitions,
    check_still,
)

log = logging.getLogger(__name__)


def _read_approved_change(
    inputs: StepInputs, decision: Mapping[str, Any]
) -> ApprovedRequest[RequestedChange, TopicChange]:
    """The approved change. Raises ApprovalError if topic.json holds another one, ArtifactError."""
    return read_approved_request(
        inputs,
        decision,
        TOPIC_FILE,
        lambda written: written.change,
        lambda change: f"The change of topic {change.topic}",
    )


@failing_as_kafka_topics()
def write_change(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Checks policy and topic again, then writes. A retry writes nothing twice."""
    approved = _read_approved_change(inputs, decision)
    change = approved.plan
    check_all_will_run(inputs, ("verify",))
    inputs.deployment.check_not_frozen(approved.connection_id)
    inputs.deployment.check_policy_unchanged(approved.connection_id, approved.decision.policy_digest)
    connection = inputs.deployment.read_connection(approved.connection_id)
    with open_cluster(connection) as cluster:
        view = cluster.read_view([change.topic])
        check_approved_cluster(view, change.cluster_id)
        cluster.check_same_cluster(view)
        registered = tuple(view.brokers)
        if change.action == "create":
            _check_may_begin(inputs, cluster, approved)
            return _create(cluster, change, registered, partial(_shut, connection, view, change))
        if change.action == "alter" and not change.new_partitions:
            _check_may_begin(inputs, cluster, approved)
            check_still(change, configs_now=_configs(cluster, change.topic), registered=registered)
            return _set_configs(cluster, change)
        # A rebalance that holds the cluster may be about to move this topic, by replica lists that people approved.
        owner = lock_owner(inputs.deployment, change.digest, inputs.run)
        fence = take_lock(inputs.deployment, cluster, approved.connection_id, owner)
        try:
            _check_may_begin(inputs, cluster, approved)
            if change.action == "delete":
                done = {"written": str(cluster.topics.delete(change, fence))}
            else:
                done = _expand(cluster, change, registered, fence, partial(_shut, connection, view, change))
        except BaseException:
            _give_back_anyway(inputs, cluster, approved, owner)
            raise
        cluster.lock.release(owner)
        forget_lock(inputs.deployment, approved.connection_id, owner)
        return done


def _give_back_anyway(
    inputs: StepInputs, cluster: OpenCluster, approved: ApprovedRequest[RequestedChange, TopicChange], owner: LockOwner
) -> None:
    """Best effort after an error, which stays the error of the task. Otherwise the janitor gives the lock back."""
    try:
        cluster.lock.release(owner)
        forget_lock(inputs.deployment, approved.connection_id, owner)
    except Exception:
        log.exception("The lock of %s was not given back. kafka_throttle_janitor does that", approved.connection_id)


def _check_may_begin(
    inputs: StepInputs, cluster: OpenCluster, approved: ApprovedRequest[RequestedChange, TopicChange]
) -> None:
    """Does not refuse an old approval if its change is already written, so that a retry succeeds."""
    if _is_written(cluster, approved.plan):
        return
    policy = check_may_begin(inputs.deployment, approved)
    limits = bound_policy(inputs.deployment, policy, approved.connection_id, approved.plan.cluster_id)
    if approved.written.limits_digest not in (None, limits.digest):  # earlier versions wrote none
        raise StaleProposalError(
            f"Another connection leads to the cluster of {approved.connection_id}, and its policy has changed since "
            "the request. Start a new Dag run to plan under the current policies."
        )


def _is_written(cluster: OpenCluster, change: TopicChange) -> bool:
    """Whether the approved change is in the cluster. An expansion may still lack its configs."""
    if change.identity is None:
        return False
    if change.action == "delete":
        deletion = cluster.topics.read_deletion(change)
        return deletion.marked or not deletion.topic_left
    if change.new_partitions:
        return _has_partitions(cluster, change)
    now = _configs(cluster, change.topic)
    return all(now.get(key) == value for key, value in change.config_changes.items())


def _shut(connection: ClusterConnection, view: ClusterView, change: TopicChange) -> dict[int, Shut]:
    """Brokers of the new lists that were cordoned, or have lost their log dirs, since the request was shown."""
    known = log_dirs.read_dir_states(connection.kafka, change.brokers_used)
    return shut_now(connection, view, change.brokers_used, known)


def _create(
    cluster: OpenCluster, change: TopicChange, registered: tuple[int, ...], shut: Callable[[], Mapping[int, Shut]]
) -> dict[str, Any]:
    if not _has_partitions(cluster, change):
        check_still(change, configs_now={}, registered=registered, shut=shut())
    created = cluster.topics.create(change, registered)
    if created.orphaned_config is not None:
        log.warning(
            "%s: a creation that was interrupted had left a config without a topic: %s. It was replaced.",
            change.topic,
            dict(created.orphaned_config),
        )
    if created.outcome is Outcome.CREATED:
        log.info('Created topic "%s".', change.topic)
    return {"written": str(created.outcome), "partitions": len(change.new_partitions)}


def _expand(
    cluster: OpenCluster,
    change: TopicChange,
    registered: tuple[int, ...],
    fence: Fence,
    shut: Callable[[], Mapping[int, Shut]],
) -> dict[str, Any]:
    if not _has_partitions(cluster, change, led=True):
        now = _configs(cluster, change.topic)
        # Lists that Kafka has taken already are not asked for again.
        closed = {} if _has_partitions(cluster, change) else shut()
        check_still(change, configs_now=now, registered=registered, shut=closed)
    cluster.topics.expand(change, registered, fence)
    if change.config_changes:
        _set_configs(cluster, change)
    return {"written": "created", "partitions": len(change.new_partitions), "configs": len(change.config_changes)}


def _set_configs(cluster: OpenCluster, change: TopicChange) -> dict[str, Any]:
    cluster.topics.set_configs(change)
    return {"written": "created", "configs": len(change.config_changes)}


def _has_partitions(cluster: OpenCluster, change: TopicChange, *, led: bool = False) -> bool:
    """Whether the topic has the approved new partitions with these lists, and leaders if they have to be `led`."""
    partitions = {tp.partition: partition for tp, partition in cluster.read_view([change.topic]).partitions.items()}
    return all(
        partition in partitions
        and partitions[partition].replicas == replicas
        and not (led and partitions[partition].leader < 0)
        for partition, replicas in change.new_partitions.items()
    )


def _configs(cluster: OpenCluster, topic: str) -> dict[str, str]:
    return cluster.read_topic_configs([topic]).get(topic, {})


# `verify` of `kafka_topics`: checks that the change is complete, and adds a row to the ledger.


SETTLE_SECONDS = 300.0  # until partitions have leaders, or the topic is gone; a healthy cluster takes one or two


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Raises VerificationError if the change is not complete."""
    approved = _read_approved_change(inputs, decision)
    with open_cluster(inputs.deployment.read_connection(approved.connection_id)) as cluster:
        checks = settled(lambda: _checks(cluster, approved.plan), SETTLE_SECONDS)
    summary = write_checks(approved.folder, checks, approved.plan.digest)
    row, now = _row(approved, inputs.run, summary.passed), clock.utc_now()
    ledger.append(inputs.deployment, "topics", approved.connection_id, inputs.run.run_id, now, [row])
    check_passed(summary)
    return {"checks": len(checks), "warnings": len(summary.warnings)}


def _checks(cluster: OpenCluster, change: TopicChange) -> tuple[Check, ...]:
    view = cluster.read_view([change.topic])
    if change.action == "delete":
        deletion = cluster.topics.read_deletion(change)
        return check_deleted(change.topic, view, **dataclasses.asdict(deletion))
    partitions: tuple[Check, ...] = ()
    if change.new_partitions:
        partitions = check_new_partitions(change.topic, change.new_partitions, change.partitions_after, view)
    configs = _configs(cluster, change.topic)
    return (*partitions, *check_configs(change.topic, change.config_changes, configs))


def _row(
    approved: ApprovedRequest[RequestedChange, TopicChange], started: StartedRun, verified: bool
) -> dict[str, Any]:
    change = approved.plan
    return {
        "run_id": started.run_id,
        "topic": change.topic,
        "action": change.action,
        "digest": change.digest,
        "requested_by": approved.written.requested_by,
        "approved_by": approved.decision.by_id,
        "partitions_before": change.partitions_before,
        "partitions_after": change.partitions_after,
        "configs_changed": len(change.config_changes),
        "verified": verified,
    }
