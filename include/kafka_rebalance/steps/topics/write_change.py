"""`write` of `kafka_topics`: writes exactly the approved change of one topic."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.cluster.same_cluster import check_same_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.execution.topics.house_rules import TopicChange, check_still
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.steps.run.approved_plan import ApprovedRequest, check_may_begin, read_approved_request
from kafka_rebalance.steps.run.run_lock import forget_lock, lock_owner, take_lock
from kafka_rebalance.steps.run.same_cluster import read_view_of
from kafka_rebalance.steps.topics.request import failing_as_kafka_topics
from kafka_rebalance.zookeeper import cluster_lock, topic_writes
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_assignments, read_topic_configs
from kafka_rebalance.zookeeper.writer import Outcome

log = logging.getLogger(__name__)


def read_approved_change(inputs: StepInputs, decision: Mapping[str, Any]) -> ApprovedRequest[TopicChange]:
    """The approved change. Raises ApprovalError if topic.json holds another one, ArtifactError."""
    return read_approved_request(
        inputs,
        decision,
        json_files.TOPIC,
        lambda written: TopicChange.from_mapping(written["change"]),
        lambda change: f"The change of topic {change.topic}",
    )


@failing_as_kafka_topics()
def write_change(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Checks policy and topic again, then writes. A retry writes nothing twice."""
    approved = read_approved_change(inputs, decision)
    change = approved.plan
    inputs.deployment.check_not_frozen(approved.connection_id)
    inputs.deployment.check_policy_unchanged(approved.connection_id, approved.decision["policy_digest"])
    connection = inputs.deployment.read_connection(approved.connection_id)
    with open_client(connection.zookeeper) as client:
        view = read_view_of(client, [change.topic], change.cluster_id)
        check_same_cluster(connection, view)
        registered = tuple(view.brokers)
        if change.action == "create":
            _check_may_begin(inputs, client, approved)
            return _create(client, change, registered)
        if change.action == "alter" and not change.new_partitions:
            _check_may_begin(inputs, client, approved)
            check_still(change, configs_now=_configs(client, change.topic), registered=registered)
            return _set_configs(client, change)
        # A rebalance that holds the cluster may be about to move this topic, by replica lists that people approved.
        owner = lock_owner(inputs.deployment, change.digest, inputs.run)
        fence = take_lock(inputs.deployment, client, approved.connection_id, owner)
        try:
            _check_may_begin(inputs, client, approved)
            if change.action == "delete":
                assert change.identity is not None
                deleted = topic_writes.delete_topic(client, change.topic, expected=change.identity, fence=fence)
                return {"written": str(deleted)}
            return _expand(client, change, registered, fence)
        finally:
            cluster_lock.release(client, owner)
            forget_lock(inputs.deployment, approved.connection_id, owner)


def _check_may_begin(inputs: StepInputs, client: KazooClient, approved: ApprovedRequest[TopicChange]) -> None:
    """Does not refuse an old approval if its change is already written, so that a retry succeeds."""
    if not _is_written(client, approved.plan):
        check_may_begin(inputs.deployment, approved)


def _is_written(client: KazooClient, change: TopicChange) -> bool:
    """Whether the approved change is in ZooKeeper. An expansion may still lack its configs."""
    if change.identity is None:
        return False
    if change.action == "delete":
        deletion = topic_writes.read_deletion(client, change.topic, expected=change.identity)
        return deletion.marked or not deletion.topic_left
    if change.new_partitions:
        found = read_assignments(client, [change.topic]).get(change.topic)
        stored = found.partitions if found is not None else {}
        return all(stored.get(partition) == held for partition, held in change.new_partitions.items())
    now = _configs(client, change.topic)
    return all(now.get(key) == value for key, value in change.config_changes.items())


def _create(client: KazooClient, change: TopicChange, registered: tuple[int, ...]) -> dict[str, Any]:
    configs = {key: value for key, value in change.config_changes.items() if value is not None}
    created = topic_writes.create_topic(
        client, change.topic, change.new_partitions, configs, version=change.kafka_version, registered=registered
    )
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
    client: KazooClient, change: TopicChange, registered: tuple[int, ...], fence: cluster_lock.Fence
) -> dict[str, Any]:
    assert change.identity is not None
    configs_now = _configs(client, change.topic)
    done = topic_writes.read_unfinished(client, change.topic, change.new_partitions, expected=change.identity) == {}
    if not done:
        check_still(change, configs_now=configs_now, registered=registered)
    topic_writes.write_more_partitions(
        client, change.topic, change.new_partitions, expected=change.identity, registered=registered, fence=fence
    )
    if change.config_changes:
        _set_configs(client, change)
    return {"written": "created", "partitions": len(change.new_partitions), "configs": len(change.config_changes)}


def _set_configs(client: KazooClient, change: TopicChange) -> dict[str, Any]:
    assert change.identity is not None
    topic_writes.set_topic_configs(
        client, change.topic, change.config_changes, version=change.kafka_version, expected=change.identity
    )
    return {"written": "created", "configs": len(change.config_changes)}


def _configs(client: KazooClient, topic: str) -> dict[str, str]:
    return read_topic_configs(client, [topic]).get(topic, {})
