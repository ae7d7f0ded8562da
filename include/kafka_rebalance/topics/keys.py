"""The sample of a topic's keys: the request to the Spark job, its settings, and the reason if it fails."""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from kafka_rebalance.admin.groups import read_groups
from kafka_rebalance.admin.offsets import read_offset_ranges
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.json_files import JsonFile
from kafka_rebalance.documents.key_sample import REQUEST, REQUEST_FILE, SAMPLE_FILE, SampleRequest
from kafka_rebalance.errors import ArtifactError, ReadError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.consumer_groups import CLASSIC, TopicGroups
from kafka_rebalance.model.finding import SHOWN
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.run.inputs import SparkArguments, StepInputs
from kafka_rebalance.run.run_folder import RunFolder, check_submitted, open_own_folder
from kafka_rebalance.topics.forecast import FORECAST_FILE, TopicForecast, counts_to_try, forecast_groups, forecast_keys
from kafka_rebalance.topics.request import forecast_lines
from kafka_rebalance.topics.rules import TOPIC_FILE, RequestedChange, TopicRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotSampled:
    why: str


NOT_SAMPLED_FILE = JsonFile("not_sampled.json", NotSampled)


def prepare_sample(
    request: TopicRequest, change: TopicChange, connection: ClusterConnection, folder: RunFolder, now_ms: int
) -> bool:
    """Writes sample.json for the keys job; False if there is nothing to read."""
    if not request.sample_rows:
        return go_without(folder, "no sample was asked for")
    not_before_ms = now_ms - request.sample_hours * 3_600_000
    ranges = read_offset_ranges(
        connection.kafka,
        change.topic,
        range(change.partitions_before),
        max_rows=request.sample_rows,
        not_before_ms=not_before_ms,
    )
    if not any(read.offsets for read in ranges):
        return go_without(folder, f"there is no record of the last {request.sample_hours} hours")
    wanted = SampleRequest(
        topic=change.topic,
        partitions=change.partitions_before,
        ranges=ranges,
        not_before_ms=not_before_ms,
        counts=counts_to_try(change.partitions_before, change.partitions_after),
    )
    REQUEST_FILE.write(folder, wanted, source_digest=change.digest)
    return True


def go_without(folder: RunFolder, why: str) -> bool:
    """Notes why there is no sample, for the forecast. Returns False."""
    NOT_SAMPLED_FILE.write(folder, NotSampled(why))
    return False


def begin_sample(inputs: StepInputs, run_folder: str, submit: SparkArguments) -> tuple[RunFolder, str]:
    """This run's folder, and Kafka's client settings as JSON.

    Raises RunFolderError if Spark would get another folder or other code: the job gets secrets. Raises ArtifactError if
    somebody has changed which offsets it reads.
    """
    given = dict(itertools.pairwise(submit.application_args or ()))
    folder = open_own_folder(inputs.deployment, run_folder, inputs.run, given["--expect-nonce"])
    same = (given["--out"], given["--sample"]) == (str(folder), f"{folder}/{REQUEST}")
    check_submitted(submit, same)
    written = TOPIC_FILE.read(folder)
    if written.sample_digest not in (None, REQUEST_FILE.read_with_digest(folder)[1]):
        raise ArtifactError(
            f"{folder / REQUEST} is not as the task request wrote it: somebody has changed it since. Start a new Dag "
            "run."
        )
    kafka = inputs.deployment.read_connection(written.connection_id).kafka
    return folder, json.dumps({**kafka.security, "bootstrap.servers": kafka.bootstrap_servers})


def last_line(text: str) -> str:
    """Spark's own error from the operator's text, which quotes the end of the driver's log."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line]
    return (told or lines or ["unknown"])[-1]


# Forecasts what an expansion does to keys and consumers.


def with_groups(written: RequestedChange, connection: ClusterConnection) -> RequestedChange:
    """With the names of the groups that use the topic; if they cannot be read, with the reason."""
    groups, unread = _groups(connection, written.change.topic, written.change.partitions_before)
    if groups is None:
        return replace(written, groups=None, groups_unread=unread)
    return replace(
        written,
        groups=tuple(group.group for group in groups.groups),
        groups_unread=None,
        group_types={group.group: group.type for group in groups.groups if group.type != CLASSIC} or None,
        groups_not_read=groups.unread,
    )


def forecast(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Writes forecast.json for an expansion; does nothing for another change."""
    folder = open_own_folder(inputs.deployment, run_folder, inputs.run)
    written = TOPIC_FILE.read(folder)
    change = written.change
    if not change.adds_partitions:
        return {}
    foretold = build(folder, change, inputs.deployment.read_connection(written.connection_id))
    FORECAST_FILE.write(folder, foretold, source_digest=change.digest)
    for line in forecast_lines(foretold):
        log.info("%s", line)
    return {"moved_keys": foretold.keys.moved_keys, "verdict": foretold.keys.verdict}


def build(folder: RunFolder, change: TopicChange, connection: ClusterConnection) -> TopicForecast:
    before, after = change.partitions_before, change.partitions_after
    sample = SAMPLE_FILE.read_if_there(folder)
    why = {} if sample is not None else {"not_sampled": NOT_SAMPLED_FILE.read(folder).why}
    keys = forecast_keys(change.topic, before, after, sample, **why)
    groups, unread = _groups(connection, change.topic, before)
    if groups is None:
        return TopicForecast(keys, None, unread)
    subscribed = {topic for group in groups.groups for member in group.members for topic in member.topics}
    with open_cluster(connection) as cluster:
        view = cluster.read_view(subscribed | {change.topic})
    partitions = Counter(tp.topic for tp in view.partitions)
    # What of the groups is not known is said too: the approver must not take it for nothing.
    return TopicForecast(keys, forecast_groups(change.topic, after, groups.groups, partitions), None, groups.unread)


def _groups(connection: ClusterConnection, topic: str, partitions: int) -> tuple[TopicGroups | None, str | None]:
    """The groups, or why they cannot be read: the approver must not think that nobody reads the topic."""
    try:
        groups = read_groups(connection.kafka, topic, range(partitions))
        for finding in groups.unread[:SHOWN]:
            log.warning("%s.", finding)
        if len(groups.unread) > SHOWN:
            log.warning("%d more groups cannot be read.", len(groups.unread) - SHOWN)
        return groups, None
    except ReadError as unread:
        log.warning("%s", unread)
        return None, str(unread)
