"""A topic whose older records are in remote storage (KIP-405), from the samples of its rate to the verification.

The remote storage is Kafka's own of its tests: a folder that all brokers share. It is of 3.9.2, because 4.4.0's is in
no repository.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from kafka_rebalance.admin.replica_sizes import read_log_dirs
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.class_path import tiered_storage_jar
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.history_table import EXISTING_SCHEMA, SAMPLES_SCHEMA
from kafka_rebalance.planning.tables.sample_aggregates import aggregated
from kafka_rebalance.planning.tables.snapshot_files import PARTITIONS
from kafka_rebalance.steps.ledger.metric_rows import metric_rows
from kafka_rebalance.steps.run.cluster_snapshot import read_snapshot
from kafka_rebalance.workflow.hooks import read_connection
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.waiting import wait

TIERED = "3.9.2"
RECORDS, RECORD_BYTES, MORE = 5_000, 1_000, 600
SEGMENT_BYTES = 200_000
TWO_OF_THREE = {number: [(1, 2), (2, 1)][number % 2] for number in range(4)}  # broker 3 is empty
AFTER = {0: [3, 2], 1: [2, 3], 2: [3, 2], 3: [2, 3]}
FAST = 50_000_000  # bytes per second
KINDS = [pytest.param(True, id="kraft"), pytest.param(False, id="zookeeper", marks=pytest.mark.long)]
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    config: dict[str, str | int] = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": str(tiered_storage_jar(TIERED)),
        "rsm.config.dir": str(tmp_path_factory.mktemp("remote")),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        # The defaults are 30 s and 5 min.
        "remote.log.manager.task.interval.ms": 500,
        "log.retention.check.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
        # A follower must be able to take a chunk into a segment.
        "replica.fetch.max.bytes": SEGMENT_BYTES // 2,
        "message.max.bytes": SEGMENT_BYTES // 2,
    }
    with LocalCluster(TIERED, brokers=3, racks=0, kraft=request.param, broker_config=config) as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> str:
    """25 segments a partition, of which the disks keep the newest one."""
    configs = {"remote.storage.enable": "true", "segment.bytes": str(SEGMENT_BYTES), "local.retention.bytes": "1"}
    cluster.create_topic("events", TWO_OF_THREE, configs)
    produce(cluster, RECORDS)
    settle(cluster)
    return "events"


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> InProcessRun:
    return InProcessRun(tmp_path, cluster, monkeypatch)


def value(number: int) -> bytes:
    return number.to_bytes(4) * (RECORD_BYTES // 4)


def produce(cluster: LocalCluster, records: int) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "broker.address.family": "v4", "log_level": 0}
    producer = Producer({**servers, "acks": "all", "batch.size": SEGMENT_BYTES // 4})
    for number in range(records):
        for partition in TWO_OF_THREE:
            producer.produce("events", value(number), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def written_as(offset: int) -> int:
    """The number that the record of this offset has: each call of `produce` counts from 0."""
    return offset if offset < RECORDS else offset - RECORDS


def settle(cluster: LocalCluster) -> None:
    """Until every segment but the active one is in the remote storage alone."""

    def segments() -> list[int]:
        replicas = cluster.folder.glob("data-*/events-*")
        return [len(list(replica.glob("*.log"))) for replica in replicas]

    wait("the disks keep the newest segment", lambda: set(segments()) == {1})


def sizes(cluster: LocalCluster) -> dict[tuple[int, int], int]:
    """Bytes on disk, by partition and broker."""
    told = read_log_dirs(KafkaConnection(cluster.bootstrap_servers), sorted(cluster.brokers)).replicas
    return {(tp.partition, b): size for tp, held in told.items() if tp.topic == "events" for b, size in held.items()}


def samples(cluster: LocalCluster) -> list[dict[str, Any]]:
    """Two of each partition, with more records an hour later."""
    rows: list[dict[str, Any]] = []
    for hour in range(2):
        if hour:
            produce(cluster, MORE)
            settle(cluster)
        taken = read_snapshot(read_connection(CONNECTION), Settings(), of_the_rest=True)
        at = NOON + timedelta(hours=hour)
        rows.extend({"observed_at": at, **row} for row in metric_rows(taken) if row["topic"] == "events")
    return rows


def read_from_the_start(cluster: LocalCluster) -> dict[int, int]:
    """How many records there are to read in each partition, each as it was written."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "all", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False, "broker.address.family": "v4"})
    read, ended = dict.fromkeys(TWO_OF_THREE, 0), set[int]()

    def at_the_end() -> bool:
        for message in consumer.consume(500, 0.2):
            partition = message.partition()
            assert partition is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
            else:
                assert message.offset() == read[partition], "no record is missing"
                assert message.value() == value(written_as(read[partition]))
                read[partition] += 1
        return ended == set(TWO_OF_THREE)

    with closing(consumer):
        consumer.assign([TopicPartition("events", number, OFFSET_BEGINNING) for number in TWO_OF_THREE])
        wait("every partition is read to its end", at_the_end)
    return read


def test_the_bytes_of_a_tiered_topic_are_the_local_ones_its_rate_is_the_true_one_and_its_moves_end_as_approved(
    run: InProcessRun, cluster: LocalCluster, topic: str
) -> None:
    history = aggregated(
        pa.Table.from_pylist(samples(cluster), schema=SAMPLES_SCHEMA),
        pa.Table.from_pylist(
            [{"topic": topic, "partition": number, "tiered": True} for number in TWO_OF_THREE], schema=EXISTING_SCHEMA
        ),
    ).to_pylist()
    records = RECORDS + MORE
    for row in history:
        # A little more than the value: the batch's header is shared. By all records it would be some 30 bytes.
        assert RECORD_BYTES < row["mean_bytes_in_per_second"] * 3600 / MORE < 1.05 * RECORD_BYTES
    lists = [{"topic": topic, "partition": number, "replicas": list(held)} for number, held in AFTER.items()]
    (given,) = run.plan(plan=json.dumps({"version": 1, "partitions": lists}), candidates=[])["candidates"]
    rows = pq.read_table(run.folder / json_files.SNAPSHOT_FOLDER / PARTITIONS).to_pylist()
    tiers = {row["partition"]: row for row in rows if row["topic"] == topic}
    for row in tiers.values():
        assert row["local_records"] + row["remote_records"] == records
        assert RECORD_BYTES * row["local_records"] < row["size_bytes"] <= SEGMENT_BYTES
        assert row["remote_records"] > 20 * row["local_records"]
    configs = json_files.read_json(run.folder / json_files.SNAPSHOT_FOLDER, json_files.CONFIGS)
    assert RECORD_BYTES < configs["append_bytes"][topic] < 1.05 * RECORD_BYTES
    assert given["moved_bytes"] == sum(row["size_bytes"] for row in tiers.values()), "one new replica of each"
    page = (run.folder / json_files.REPORT).read_text()
    assert "of its records in remote storage alone" in page
    run.approve("given", FAST)
    run.hold()
    run.reassign()
    assert run.finish()["passed"]
    arrived = {partition: size for (partition, broker), size in sizes(cluster).items() if broker == 3}
    assert arrived == {partition: row["size_bytes"] for partition, row in tiers.items()}, "and nothing of the rest"
    with open_cluster(read_connection(CONNECTION)) as opened:
        found = opened.read_view([topic]).partitions
    assert {tp.partition: list(one.replicas) for tp, one in found.items()} == AFTER
    assert read_from_the_start(cluster) == dict.fromkeys(TWO_OF_THREE, records)
