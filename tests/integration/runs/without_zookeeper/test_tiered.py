"""A topic whose older records are in remote storage (KIP-405), from the samples of its rate to the verification."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.history import EXISTING_SCHEMA, SAMPLES_SCHEMA, aggregated
from kafka_rebalance.planning.tables.read_problem import PARTITIONS
from kafka_rebalance.run.ledger import metric_rows
from kafka_rebalance.run.snapshot_reader import read_snapshot
from kafka_rebalance.workflow.hooks import read_connection
from support.kafka.tiered import (
    RECORD_BYTES,
    RECORDS,
    SEGMENT_BYTES,
    TOPIC,
    TWO_OF_THREE,
    make_tiered_topic,
    produce,
    read_from_the_start,
    settle,
    sizes,
    tiered_brokers,
)
from support.runs.rebalance_run import CONNECTION, InProcessRun

MORE = 600  # records
AFTER = {0: [3, 2], 1: [2, 3], 2: [3, 2], 3: [2, 3]}
KINDS = [pytest.param(True, id="kraft"), pytest.param(False, id="zookeeper", marks=pytest.mark.long)]
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with tiered_brokers(tmp_path_factory.mktemp("remote"), kraft=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> str:
    make_tiered_topic(cluster)
    return TOPIC


def samples(cluster: LocalCluster) -> list[dict[str, Any]]:
    """Two of each partition, with more records an hour later."""
    rows: list[dict[str, Any]] = []
    for hour in range(2):
        if hour:
            produce(cluster, MORE)
            settle(cluster)
        taken = read_snapshot(read_connection(CONNECTION), Settings(), of_the_rest=True)
        at = NOON + timedelta(hours=hour)
        rows.extend({"observed_at": at, **row} for row in metric_rows(taken) if row["topic"] == TOPIC)
    return rows


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
    (given,) = run.plan_lists(topic, AFTER)["candidates"]
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
    assert run.carry_out("given")["passed"]
    arrived = {partition: size for (partition, broker), size in sizes(cluster).items() if broker == 3}
    assert arrived == {partition: row["size_bytes"] for partition, row in tiers.items()}, "and nothing of the rest"
    with open_cluster(read_connection(CONNECTION)) as opened:
        found = opened.read_view([topic]).partitions
    assert {tp.partition: list(one.replicas) for tp, one in found.items()} == AFTER
    assert read_from_the_start(cluster) == dict.fromkeys(TWO_OF_THREE, records)
