"""What each task of `kafka_topics` does, one function a task."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError, KafkaRuleError, PolicyError, VerificationError
from kafka_rebalance.execution.approval_rules import check_approval_fresh, check_policy_unchanged
from kafka_rebalance.execution.topics.house_rules import TopicChange, check_still
from kafka_rebalance.execution.topics.topic_request import TopicRequest
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.report.requests.topic_change import change_lines, forecast_lines
from kafka_rebalance.report.requests.topic_listing import describe_lines, list_lines
from kafka_rebalance.steps.deployment import read_connection
from kafka_rebalance.steps.inputs import RunName, StartedRun, StepInputs
from kafka_rebalance.verification.check_result import Check, document, summarise
from kafka_rebalance.verification.topic_as_approved import check_configs, check_deleted, check_new_partitions
from kafka_rebalance.workflow.ledger import ledger
from kafka_rebalance.workflow.run.approved import check_digest, read_decision
from kafka_rebalance.workflow.run.folder import (
    RunFolder,
    check_newest_attempt,
    create_run_folder,
    open_own_folder,
)
from kafka_rebalance.workflow.run.freeze import check_not_frozen
from kafka_rebalance.workflow.run.lock import forget_lock, lock_owner, take_lock
from kafka_rebalance.workflow.run.policies import read_policy
from kafka_rebalance.workflow.run.same_cluster import check_same_cluster
from kafka_rebalance.workflow.topics import forecast as topic_forecast
from kafka_rebalance.workflow.topics.planning import PlannedTopic, plan_change
from kafka_rebalance.workflow.topics.reading import TopicCluster, describe, read_topic_cluster
from kafka_rebalance.zookeeper import cluster_lock, topic_writes
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_assignments, read_cluster_view, read_topic_configs
from kafka_rebalance.zookeeper.writer import Outcome

log = logging.getLogger(__name__)

# What `request` says comes next.
END, SAMPLE, FORECAST = "end", "sample_keys", "forecast"
SETTLE_SECONDS = 300.0  # for partitions to be led, or the topic to be gone; a healthy cluster takes one or two
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ApprovedChange:
    """The change that may be written, with the documents it belongs to."""

    folder: RunFolder
    document: Mapping[str, Any]
    decision: Mapping[str, Any]
    change: TopicChange

    @property
    def connection_id(self) -> str:
        return str(self.document["connection_id"])


@contextmanager
def _failing_as_kafka_topics() -> Iterator[None]:
    """Logs a broken rule of Kafka as kafka-topics prints it."""
    try:
        yield
    except KafkaRuleError as broken:
        log.error("Error while executing topic command : %s", broken.kafka_message)
        raise


@_failing_as_kafka_topics()
def request(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    """Reads and checks; list and describe are done with this. Returns what comes next, and the main figures."""
    asked = TopicRequest.from_params(params)
    connection_id = params["kafka_conn_id"]
    policy = read_policy(connection_id)
    if policy is None and not asked.is_read_only:
        raise PolicyError(
            f"There is no policy file for the connection {connection_id!r}, so the cluster is read-only: only list and "
            "describe can be asked for. Nothing was written. Add include/policies/<connection id>.yaml."
        )
    connection = read_connection(connection_id)
    folder, nonce = create_run_folder(connection_id, inputs.run)
    inputs.tell("run_folder", str(folder))
    inputs.tell("nonce", nonce)
    cluster = read_topic_cluster(connection, asked)
    if policy is None or asked.is_read_only:
        return _show(asked, cluster, folder)
    planned = plan_change(asked, cluster, connection, policy, folder)
    if planned is None or planned.change.changes_nothing:
        log.info("%s: there is nothing to %s. Nothing was written.", asked.topic, asked.action)
        return {"next": END, "changed": False}
    written = _document(asked, planned, cluster, inputs.run, params)
    written.update(connection_id=connection_id, policy_digest=policy.digest, nonce=nonce)
    if planned.change.action != "create":
        written.update(topic_forecast.consumers(connection, planned.change.topic, planned.change.partitions_before))
    json_files.write_json(folder, json_files.TOPIC, written)
    for line in change_lines(written):
        log.info("%s", line)
    sampled = planned.change.adds_partitions and topic_forecast.prepare_sample(
        asked, planned.change, connection, folder, int(time.time() * 1000)
    )
    return {
        "next": SAMPLE if sampled else FORECAST,
        "digest": planned.change.digest,
        "partitions": len(planned.change.new_partitions),
        "configs": len(planned.change.config_changes),
    }


def _show(asked: TopicRequest, cluster: TopicCluster, folder: RunFolder) -> dict[str, Any]:
    entries = describe(cluster, asked)
    json_files.write_json(folder, json_files.TOPICS, {"cluster_id": cluster.view.cluster_id, "topics": entries})
    for line in list_lines(entries) if asked.action == "list" else describe_lines(entries):
        log.info("%s", line)
    return {
        "next": END,
        "topics": len(entries),
        "under_replicated": sum(entry["under_replicated"] for entry in entries),
        "unavailable": sum(entry["unavailable"] for entry in entries),
    }


def _document(
    asked: TopicRequest, planned: PlannedTopic, cluster: TopicCluster, started: StartedRun, params: Mapping[str, Any]
) -> dict[str, Any]:
    """topic.json: the change, and what people should know of it."""
    change = planned.change
    sizes = [
        cluster.disks.replicas.get(tp, {}).get(partition.leader)
        for tp, partition in cluster.view.partitions.items()
        if tp.topic == change.topic
    ]
    known = [size for size in sizes if size is not None]
    return {
        "cluster_id": cluster.view.cluster_id,
        "observed_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "dag_id": started.dag_id,
        "run_id": started.run_id,
        "requested_by": started.started_by,
        "reason": params.get("reason") or "",
        "dry_run": asked.dry_run,
        "needs_approval": change.action != "create",
        "change": change.to_mapping(),
        "digest": change.digest,
        "assignment": asked.assignment,
        "replica_bytes": planned.replica_bytes,
        "costs": [cost.to_mapping() for cost in planned.costs],
        "notes": list(planned.notes),
        "size_bytes": sum(known) if len(known) == len(sizes) else None,
    }


def forecast(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """forecast.json, for an expansion; empty for anything else."""
    folder = open_own_folder(run_folder, inputs.run)
    written = json_files.read_json(folder, json_files.TOPIC)
    change = TopicChange.from_mapping(written["change"])
    if not change.adds_partitions:
        return {}
    found = topic_forecast.build(folder, change, read_connection(written["connection_id"]))
    json_files.write_json(folder, json_files.FORECAST, found, source_digest=change.digest)
    for line in forecast_lines(found):
        log.info("%s", line)
    return {"moved_keys": found["keys"]["moved_keys"], "verdict": found["keys"]["verdict"]}


def read_approved_change(decision: Mapping[str, Any], started: RunName) -> ApprovedChange:
    """The change of topic.json, if it is the one that was approved. Raises ApprovalError, ArtifactError."""
    folder, written = read_decision(decision, started)
    found = json_files.read_json(folder, json_files.TOPIC)
    change = TopicChange.from_mapping(found["change"])
    check_digest(f"The change of topic {change.topic}", change.digest, written)
    return ApprovedChange(folder, found, written, change)


@_failing_as_kafka_topics()
def write(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Writes exactly the approved change, after a last look at policy and topic. A retry writes nothing twice."""
    approved = read_approved_change(decision, inputs.run)
    change = approved.change
    check_not_frozen(approved.connection_id)
    policy = read_policy(approved.connection_id)
    check_policy_unchanged(approved.decision["policy_digest"], policy.digest if policy else None)
    connection = read_connection(approved.connection_id)
    with open_client(connection.zookeeper) as client:
        view = read_cluster_view(client, [change.topic])
        if view.cluster_id != change.cluster_id:
            raise ClusterNotReadyError(
                f"This is cluster {view.cluster_id}, the change is of {change.cluster_id}. Nothing was written. "
                "Correct the connection, and start a new Dag run."
            )
        check_same_cluster(connection, view)
        registered = tuple(view.brokers)
        if change.action == "create":
            _check_may_begin(client, approved, policy)
            return _create(client, change, registered)
        if change.action == "alter" and not change.new_partitions:
            _check_may_begin(client, approved, policy)
            check_still(change, configs_now=_configs(client, change.topic), registered=registered)
            return _set_configs(client, change)
        # A rebalance that holds the cluster may be about to move this very topic, on lists it has had approved.
        owner = lock_owner(change.digest, inputs.run)
        fence = take_lock(client, approved.connection_id, owner)
        try:
            _check_may_begin(client, approved, policy)
            if change.action == "delete":
                return _delete(client, change, fence)
            return _expand(client, change, registered, fence)
        finally:
            cluster_lock.release(client, owner)
            forget_lock(approved.connection_id, owner)


def _check_may_begin(client: KazooClient, approved: ApprovedChange, policy: Policy | None) -> None:
    """Raises ApprovalError for an approval that has grown too old, RunFolderError for one of an earlier attempt.

    To be asked immediately before the write. What is written already is not held against its age: a retry says so.
    """
    if _is_written(client, approved.change):
        return
    check_newest_attempt(approved.folder)
    if approved.document["needs_approval"]:
        assert policy is not None  # or the digests could not be the same
        expires = policy.approval_expires_after_seconds
        check_approval_fresh(approved.decision["approved_at"], expires, datetime.now(UTC))


def _is_written(client: KazooClient, change: TopicChange) -> bool:
    """Whether all of the change that needs a decision is there; of an expansion its configs may still be to come."""
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
            "%s: a config without a topic was there, left by a creation that was cut short: %s. It was replaced.",
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
    topic_writes.add_partitions(
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


def _delete(client: KazooClient, change: TopicChange, fence: cluster_lock.Fence) -> dict[str, Any]:
    assert change.identity is not None
    return {"written": str(topic_writes.delete_topic(client, change.topic, expected=change.identity, fence=fence))}


def _configs(client: KazooClient, topic: str) -> dict[str, str]:
    return read_topic_configs(client, [topic]).get(topic, {})


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Waits until the change has come to its end, and holds the topic against it. Raises where it did not."""
    approved = read_approved_change(decision, inputs.run)
    with open_client(read_connection(approved.connection_id).zookeeper) as client:
        checks = _settled(client, approved.change)
    summary = summarise(checks)
    json_files.write_json(
        approved.folder,
        json_files.VERIFICATION,
        {**document(checks), "verified_at": datetime.now(UTC).isoformat(timespec="seconds")},
        source_digest=approved.change.digest,
    )
    ledger.append(
        "topics",
        approved.connection_id,
        inputs.run.run_id,
        datetime.now(UTC),
        [_row(approved, inputs.run, summary.passed)],
    )
    for line in summary.lines():
        log.info("%s", line)
    if not summary.passed:
        first = summary.failed[0]
        raise VerificationError(
            f"{len(summary.failed)} of {len(checks)} checks failed after {SETTLE_SECONDS:.0f} s; first {first.name} of "
            f"{first.subject}: {first.words}, must be {first.expectation}. Nothing more was written. Clear this task "
            "to look again."
        )
    return {"checks": len(checks), "warnings": len(summary.warnings)}


def _settled(client: KazooClient, change: TopicChange) -> tuple[Check, ...]:
    """The checks, once they all pass or the time is up."""
    give_up = time.monotonic() + SETTLE_SECONDS
    said = ""
    while True:
        view = read_cluster_view(client, [change.topic])
        checks = _checks(client, change, view)
        failed = summarise(checks).failed
        if not failed or time.monotonic() > give_up:
            return checks
        if failed[0].finding != said:
            said = failed[0].finding
            log.info("%d of %d checks to go: %s, %s", len(failed), len(checks), failed[0].subject, said)
        time.sleep(LOOK_SECONDS)


def _checks(client: KazooClient, change: TopicChange, view: ClusterView) -> tuple[Check, ...]:
    if change.action == "delete":
        assert change.identity is not None
        deletion = topic_writes.read_deletion(client, change.topic, expected=change.identity)
        return check_deleted(
            change.topic,
            view,
            marked=deletion.marked,
            topic_left=deletion.topic_left,
            config_left=deletion.config_left,
        )
    partitions: tuple[Check, ...] = ()
    if change.new_partitions:
        partitions = check_new_partitions(change.topic, change.new_partitions, change.partitions_after, view)
    return (*partitions, *check_configs(change.topic, change.config_changes, _configs(client, change.topic)))


def _row(approved: ApprovedChange, started: StartedRun, verified: bool) -> dict[str, Any]:
    change, approver = approved.change, approved.decision["approved_by"]
    return {
        "run_id": started.run_id,
        "topic": change.topic,
        "action": change.action,
        "digest": change.digest,
        "requested_by": approved.document["requested_by"],
        "approved_by": approver["id"] if approver else None,
        "partitions_before": change.partitions_before,
        "partitions_after": change.partitions_after,
        "configs_changed": len(change.config_changes),
        "verified": verified,
    }
