"""The sample of a topic's keys: the request to the Spark job, its settings, and the reason if it fails."""

from __future__ import annotations

import itertools
import json

from kafka_rebalance.admin.offsets import read_offset_ranges
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.key_sample import REQUEST, REQUEST_FILE, SampleRequest
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.run.inputs import SparkArguments, StepInputs
from kafka_rebalance.run.run_folder import RunFolder, check_submitted, open_own_folder
from kafka_rebalance.topics.moved_keys import counts_to_try
from kafka_rebalance.topics.topic_request import TopicRequest

NOT_SAMPLED = "not_sampled.json"
_DIGEST = "sample_digest"  # key of topic.json; earlier versions do not have it


def prepare_sample(
    asked: TopicRequest, change: TopicChange, connection: ClusterConnection, folder: RunFolder, now_ms: int
) -> bool:
    """Writes sample.json for the keys job; False if there is nothing to read."""
    if not asked.sample_rows:
        return go_without(folder, "no sample was asked for")
    not_before_ms = now_ms - asked.sample_hours * 3_600_000
    ranges = read_offset_ranges(
        connection.kafka,
        change.topic,
        range(change.partitions_before),
        max_rows=asked.sample_rows,
        not_before_ms=not_before_ms,
    )
    if not any(found.offsets for found in ranges):
        return go_without(folder, f"there is no record of the last {asked.sample_hours} hours")
    wanted = SampleRequest(
        topic=change.topic,
        partitions=change.partitions_before,
        ranges=ranges,
        not_before_ms=not_before_ms,
        counts=counts_to_try(change.partitions_before, change.partitions_after),
    )
    REQUEST_FILE.write(folder, wanted, source_digest=change.digest)
    return True


def digest_of_request(folder: RunFolder) -> dict[str, str]:
    """What topic.json has of sample.json: the approver reads figures of exactly these offsets."""
    return {_DIGEST: digest_of(json_files.read_json(folder, REQUEST))}


def go_without(folder: RunFolder, why: str) -> bool:
    """Notes why there is no sample, for the forecast. Returns False."""
    json_files.write_json(folder, NOT_SAMPLED, {"why": why})
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
    written = json_files.read_json(folder, json_files.TOPIC)
    if _DIGEST in written and digest_of_request(folder)[_DIGEST] != written[_DIGEST]:
        raise ArtifactError(
            f"{folder / REQUEST} is not as the task request wrote it: somebody has changed it since. Start a new Dag "
            "run."
        )
    kafka = inputs.deployment.read_connection(written["connection_id"]).kafka
    return folder, json.dumps({**kafka.security, "bootstrap.servers": kafka.bootstrap_servers})


def last_line(text: str) -> str:
    """Spark's own error from the operator's text, which quotes the end of the driver's log."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line]
    return (told or lines or ["unknown"])[-1]
