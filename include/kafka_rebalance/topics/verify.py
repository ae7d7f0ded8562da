"""`verify` of `kafka_topics`: checks that the change is complete, and adds a row to the ledger."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approved_plan import ApprovedRequest
from kafka_rebalance.run.check_result import Check, check_passed, settled, write_checks
from kafka_rebalance.run.inputs import StartedRun, StepInputs
from kafka_rebalance.topics.rules import check_configs, check_deleted, check_new_partitions
from kafka_rebalance.topics.topic_request import RequestedChange
from kafka_rebalance.topics.write import read_approved_change

SETTLE_SECONDS = 300.0  # until partitions have leaders, or the topic is gone; a healthy cluster takes one or two


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Raises VerificationError if the change is not complete."""
    approved = read_approved_change(inputs, decision)
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
    configs = cluster.read_topic_configs([change.topic]).get(change.topic, {})
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
