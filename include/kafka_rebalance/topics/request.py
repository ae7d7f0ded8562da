"""`request` of `kafka_topics`: reads, checks and writes topic.json. The cluster stays as it is."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.key_sample import REQUEST_FILE
from kafka_rebalance.errors import KafkaRuleError, PolicyError
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.requester import check_somebody_may_approve, read_requester
from kafka_rebalance.run.run_folder import RunFolder, create_run_folder
from kafka_rebalance.topics import keys
from kafka_rebalance.topics.forecast import FORECAST_FILE
from kafka_rebalance.topics.plan import plan_change
from kafka_rebalance.topics.read import TOPICS_FILE, TopicCluster, TopicsFound, describe, read_topic_cluster
from kafka_rebalance.topics.topic_request import TOPIC_FILE, RequestedChange, TopicRequest, needs_approval
from kafka_rebalance.topics.words import approval_body, approval_subject, change_lines, describe_lines, list_lines

log = logging.getLogger(__name__)


# The next task.
END, SAMPLE, FORECAST = "end", "sample_keys", "forecast"


@contextmanager
def failing_as_kafka_topics() -> Iterator[None]:
    """Logs a broken rule of Kafka in the words of kafka-topics."""
    try:
        yield
    except KafkaRuleError as broken:
        log.error("Error while executing topic command : %s", broken.kafka_message)
        raise


@failing_as_kafka_topics()
def request(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the next task and the main figures. list and describe end here."""
    asked = TopicRequest.from_params(params)
    connection_id = params["kafka_conn_id"]
    policy = inputs.deployment.read_policy(connection_id)
    if policy is None and not asked.is_read_only:
        raise PolicyError(
            f"There is no policy file for the connection {connection_id!r}, so the cluster is read-only: only list and "
            "describe are allowed. Add include/policies/<connection id>.yaml."
        )
    if asked.needs_approval:
        check_somebody_may_approve(policy, read_requester(inputs.deployment, inputs.run))
    connection = inputs.deployment.read_connection(connection_id)
    folder, nonce = create_run_folder(inputs.deployment, connection_id, inputs.run)
    inputs.tell("run_folder", str(folder))
    inputs.tell("nonce", nonce)
    cluster = read_topic_cluster(connection, asked)
    if policy is None or asked.is_read_only:
        return _show(asked, cluster, folder)
    limits = bound_policy(inputs.deployment, policy, connection_id, cluster.view.cluster_id)
    planned = plan_change(asked, cluster, connection, limits, folder)
    if planned is None or planned.change.changes_nothing:
        log.info("%s: there is nothing to %s. Nothing was written.", asked.topic, asked.action)
        return {"next": END, "changed": False}
    with open_cluster(connection) as reached:
        reached.topics.check_accepted(planned.change)
    change = planned.change
    written = RequestedChange(
        connection_id=connection_id,
        cluster_id=cluster.view.cluster_id,
        policy_digest=policy.digest,
        limits_digest=limits.digest,
        nonce=nonce,
        observed_at=clock.utc_now().replace(microsecond=0),
        dag_id=inputs.run.dag_id,
        run_id=inputs.run.run_id,
        requested_by=inputs.run.started_by,
        reason=params.get("reason") or "",
        dry_run=asked.dry_run,
        needs_approval=needs_approval(change.action),
        change=change,
        digest=change.digest,
        assignment=asked.assignment,
        replica_bytes=planned.replica_bytes,
        costs=planned.costs,
        notes=planned.notes,
        size_bytes=_size_bytes(cluster, change.topic),
    )
    if change.action != "create":
        written = keys.with_groups(written, connection)
    sampled = change.adds_partitions and keys.prepare_sample(
        asked, change, connection, folder, int(clock.utc_now().timestamp() * 1000)
    )
    if sampled:
        written = replace(written, sample_digest=REQUEST_FILE.read_with_digest(folder)[1])
    TOPIC_FILE.write(folder, written)
    for line in change_lines(written):
        log.info("%s", line)
    return {
        "next": SAMPLE if sampled else FORECAST,
        "digest": change.digest,
        "partitions": len(change.new_partitions),
        "configs": len(change.config_changes),
    }


def _show(asked: TopicRequest, cluster: TopicCluster, folder: RunFolder) -> dict[str, Any]:
    entries = describe(cluster, asked)
    TOPICS_FILE.write(folder, TopicsFound(cluster.view.cluster_id, entries))
    for line in list_lines(entries) if asked.action == "list" else describe_lines(entries):
        log.info("%s", line)
    return {
        "next": END,
        "topics": len(entries),
        "under_replicated": sum(entry.under_replicated for entry in entries),
        "unavailable": sum(entry.unavailable for entry in entries),
    }


def _size_bytes(cluster: TopicCluster, topic: str) -> int | None:
    """One replica of each of its partitions; None if a leader does not tell its size."""
    sizes = [
        cluster.disks.replicas.get(tp, {}).get(partition.leader)
        for tp, partition in cluster.view.partitions.items()
        if tp.topic == topic
    ]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


# A person approves one change of one topic, or rejects it. A creation needs no approval: it removes nothing.


class TopicApproval(Approval):
    """Offers the change of topic.json. A dry run ends here."""

    behind = ("write", "verify")
    shown = (json_files.TOPIC, json_files.FORECAST)

    def offer(self, folder: RunFolder) -> Offer:
        written, digest = TOPIC_FILE.read_with_digest(folder)
        return Offer(
            connection_id=written.connection_id,
            policy_digest=written.policy_digest,
            digests={written.change.action: written.digest},
            source_digest=digest,
            request_digest=digest,
            asked_by=written.requested_by,
            nothing="This was a dry run. Nothing was written to the cluster." if written.dry_run else None,
            needs_answer=needs_approval(written.change.action),  # whatever else the file says: people can edit it
        )

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        written, forecast = TOPIC_FILE.read(folder), FORECAST_FILE.read_if_there(folder)
        return approval_subject(written), approval_body(written, forecast)
