"""What an expansion does to keys and consumers: reads what is needed, and puts the forecast together."""

from __future__ import annotations

import logging
from typing import Any

from kafka_rebalance.admin.group_members import read_groups
from kafka_rebalance.admin.offsets import read_offset_ranges
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.requests.key_sample import REQUEST, SAMPLE, KeySample, SampleRequest
from kafka_rebalance.errors import ReadError
from kafka_rebalance.execution.topics.house_rules import TopicChange
from kafka_rebalance.execution.topics.topic_request import TopicRequest
from kafka_rebalance.forecast.consumer_shares import GroupForecast, forecast_groups
from kafka_rebalance.forecast.moved_keys import counts_to_try, forecast_keys
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.consumer_groups import ConsumerGroup
from kafka_rebalance.spark import package_zip
from kafka_rebalance.workflow.run.folder import RunFolder
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_assignments

log = logging.getLogger(__name__)

NOT_SAMPLED = "not_sampled.json"
_HOUR_MS = 3_600_000


def consumers(connection: ClusterConnection, topic: str, partitions: int) -> dict[str, Any]:
    """Names of the groups that use the topic; None, and why, where they cannot be read."""
    found, unread = _groups(connection, topic, partitions)
    return {"groups": None if found is None else [group.group for group in found], "groups_unread": unread}


def prepare_sample(
    asked: TopicRequest, change: TopicChange, connection: ClusterConnection, folder: RunFolder, now_ms: int
) -> bool:
    """Writes sample.json for the keys job, and the package it runs with; False where there is nothing to read."""
    if not asked.sample_rows:
        return _goes_without(folder, "no sample was asked for")
    not_before_ms = now_ms - asked.sample_hours * _HOUR_MS
    ranges = read_offset_ranges(
        connection.kafka,
        change.topic,
        range(change.partitions_before),
        max_rows=asked.sample_rows,
        not_before_ms=not_before_ms,
    )
    if not any(found.offsets for found in ranges):
        return _goes_without(folder, f"there is no record of the last {asked.sample_hours} hours")
    wanted = SampleRequest(
        topic=change.topic,
        partitions=change.partitions_before,
        ranges=ranges,
        not_before_ms=not_before_ms,
        counts=counts_to_try(change.partitions_before, change.partitions_after),
    )
    json_files.write_json(folder, REQUEST, wanted.to_mapping(), source_digest=change.digest)
    package_zip.build(folder / json_files.PACKAGE_ZIP)
    return True


def _goes_without(folder: RunFolder, why: str) -> bool:
    json_files.write_json(folder, NOT_SAMPLED, {"why": why})
    return False


def build(folder: RunFolder, change: TopicChange, connection: ClusterConnection) -> dict[str, Any]:
    """The content of forecast.json."""
    before, after = change.partitions_before, change.partitions_after
    sample = json_files.read_json_if_there(folder, SAMPLE)
    if sample is not None:
        keys = forecast_keys(change.topic, before, after, KeySample.from_mapping(sample))
    else:
        why = json_files.read_json(folder, NOT_SAMPLED)["why"]
        keys = forecast_keys(change.topic, before, after, not_sampled=why)
    found, unread = _groups(connection, change.topic, before)
    groups = None if found is None else _forecast_groups(connection, change, found)
    return {
        "keys": keys.to_mapping(),
        "groups": None if groups is None else [group.to_mapping() for group in groups],
        "groups_unread": unread,
    }


def _forecast_groups(
    connection: ClusterConnection, change: TopicChange, groups: tuple[ConsumerGroup, ...]
) -> tuple[GroupForecast, ...]:
    subscribed = {topic for group in groups for member in group.members for topic in member.topics} | {change.topic}
    with open_client(connection.zookeeper) as client:
        assignments = read_assignments(client, subscribed)
    partitions = {topic: len(assignment.partitions) for topic, assignment in assignments.items()}
    return forecast_groups(change.topic, change.partitions_after, groups, partitions)


def _groups(
    connection: ClusterConnection, topic: str, partitions: int
) -> tuple[tuple[ConsumerGroup, ...] | None, str | None]:
    """The groups, or why they cannot be read: an approver must not take that for "nobody reads this"."""
    try:
        return read_groups(connection.kafka, topic, range(partitions)), None
    except ReadError as unread:
        log.warning("%s", unread)
        return None, str(unread)
