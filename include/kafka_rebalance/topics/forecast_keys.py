"""Forecasts what an expansion does to keys and consumers."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import asdict
from typing import Any

from kafka_rebalance.admin.group_members import read_groups
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.key_sample import SAMPLE_FILE
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.consumer_groups import CLASSIC, TopicGroups
from kafka_rebalance.model.finding import SHOWN
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.run_folder import RunFolder, open_own_folder
from kafka_rebalance.topics.consumer_shares import forecast_groups
from kafka_rebalance.topics.moved_keys import forecast_keys
from kafka_rebalance.topics.sample_keys import NOT_SAMPLED
from kafka_rebalance.topics.topic_change import forecast_lines

log = logging.getLogger(__name__)


def consumers(connection: ClusterConnection, topic: str, partitions: int) -> dict[str, Any]:
    """The names of the groups that use the topic; if they cannot be read, None and the reason."""
    found, unread = _groups(connection, topic, partitions)
    if found is None:
        return {"groups": None, "groups_unread": unread}
    types = {group.group: group.type for group in found.groups if group.type != CLASSIC}
    return {
        "groups": [group.group for group in found.groups],
        "groups_unread": None,
        **({"group_types": types} if types else {}),
        **_not_read(found),
    }


def forecast(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Writes forecast.json for an expansion; does nothing for another change."""
    folder = open_own_folder(inputs.deployment, run_folder, inputs.run)
    written = json_files.read_json(folder, json_files.TOPIC)
    change = TopicChange.from_mapping(written["change"])
    if not change.adds_partitions:
        return {}
    found = build(folder, change, inputs.deployment.read_connection(written["connection_id"]))
    json_files.write_json(folder, json_files.FORECAST, found, source_digest=change.digest)
    for line in forecast_lines(found):
        log.info("%s", line)
    return {"moved_keys": found["keys"]["moved_keys"], "verdict": found["keys"]["verdict"]}


def build(folder: RunFolder, change: TopicChange, connection: ClusterConnection) -> dict[str, Any]:
    """The content of forecast.json."""
    before, after = change.partitions_before, change.partitions_after
    sample = SAMPLE_FILE.read_if_there(folder)
    why = {} if sample is not None else {"not_sampled": json_files.read_json(folder, NOT_SAMPLED)["why"]}
    keys = forecast_keys(change.topic, before, after, sample, **why)
    found, unread = _groups(connection, change.topic, before)
    groups: list[dict[str, Any]] | None = None
    if found is not None:
        subscribed = {topic for group in found.groups for member in group.members for topic in member.topics}
        with open_cluster(connection) as cluster:
            view = cluster.read_view(subscribed | {change.topic})
        partitions = Counter(tp.topic for tp in view.partitions)
        groups = [group.to_mapping() for group in forecast_groups(change.topic, after, found.groups, partitions)]
    singly = {} if found is None else _not_read(found)
    return {"keys": keys.to_mapping(), "groups": groups, "groups_unread": unread, **singly}


def _not_read(found: TopicGroups) -> dict[str, Any]:
    """What of the groups is not known: the approver must not take it for nothing."""
    return {"groups_not_read": [asdict(finding) for finding in found.unread]} if found.unread else {}


def _groups(connection: ClusterConnection, topic: str, partitions: int) -> tuple[TopicGroups | None, str | None]:
    """The groups, or why they cannot be read: the approver must not think that nobody reads the topic."""
    try:
        found = read_groups(connection.kafka, topic, range(partitions))
        for finding in found.unread[:SHOWN]:
            log.warning("%s.", finding)
        if len(found.unread) > SHOWN:
            log.warning("%d more groups cannot be read.", len(found.unread) - SHOWN)
        return found, None
    except ReadError as unread:
        log.warning("%s", unread)
        return None, str(unread)
