"""What a snapshot, its sample and its documents say of a topic whose older records are in remote storage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_rebalance.admin import offsets
from kafka_rebalance.admin.offsets import LocalStarts
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.tables.history import existing_partitions
from kafka_rebalance.planning.tables.read_problem import PARTITIONS
from kafka_rebalance.run import snapshot_reader as cluster_snapshot
from kafka_rebalance.run.ledger import metric_rows
from support.runs.simulated_cluster import SIZE_BYTES, SimulatedCluster, SimulatedRun

CONNECTION = ClusterConnection("kafka_eu", ZooKeeperConnection("simulated:2181"), KafkaConnection("simulated:9092"))
FIRST, SECOND, PLAIN = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("plain", 0)
TIERED = {"remote.storage.enable": "true", "retention.ms": "86400000", "local.retention.ms": "60000"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """3,000 records in each partition of orders, of which the disks have 100."""
    made = SimulatedCluster(monkeypatch, {"orders": {0: (1, 2), 1: (1, 2)}, "plain": {0: (2, 1)}}, version="3.9")
    made.fake.put_json("/config/topics/orders", {"version": 1, "config": TIERED})
    monkeypatch.setattr(cluster_snapshot, "STORM_PAUSE_SECONDS", 0)
    monkeypatch.setattr(offsets, "read_end_offsets", lambda _, partitions, **__: dict.fromkeys(partitions, 3000))
    tell(monkeypatch, {FIRST: 2900, SECOND: 2900})
    return made


def tell(
    monkeypatch: pytest.MonkeyPatch,
    told: Mapping[TopicPartition, int],
    untold: Mapping[TopicPartition, str] | None = None,
) -> None:
    def read(_: KafkaConnection, leaders: Mapping[TopicPartition, int]) -> LocalStarts:
        assert leaders.keys() == {FIRST, SECOND}, "no other topic is asked for"
        return LocalStarts(told, untold or {})

    monkeypatch.setattr(offsets, "read_local_starts", read)


def snapshot() -> cluster_snapshot.Snapshot:
    return cluster_snapshot.read_snapshot(CONNECTION, Settings())


def columns(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["tiered"], row.get("local_records"), row.get("remote_records"), row["retention_ms"]


def test_the_snapshot_counts_what_is_on_disk_and_what_is_remote_alone(cluster: SimulatedCluster) -> None:
    taken = snapshot()
    rows = {(row["topic"], row["partition"]): row for row in taken.partitions}
    assert columns(rows[FIRST]) == (True, 100, 2900, 60_000)
    assert columns(rows[PLAIN])[:3] == (None, None, None)
    samples = {(row["topic"], row["partition"]): row for row in metric_rows(taken)}
    assert (samples[FIRST]["start_offset"], samples[FIRST]["local_start_offset"]) == (0, 2900)
    assert (samples[PLAIN]["start_offset"], samples[PLAIN]["local_start_offset"]) == (0, None)
    assert taken.configs.append_bytes["orders"] == SIZE_BYTES // 100
    assert taken.configs.append_bytes["plain"] == SIZE_BYTES // 3000


def test_what_a_leader_does_not_tell_is_unknown_and_not_nothing(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(monkeypatch, {FIRST: 2900}, {SECOND: "broker 1 answers NotLeaderForPartitionError"})
    taken = snapshot()
    rows = {(row["topic"], row["partition"]): row for row in taken.partitions}
    assert columns(rows[SECOND]) == (True, None, None, 60_000)
    assert taken.unread.offsets == (SECOND,)
    samples = {(row["topic"], row["partition"]): row for row in metric_rows(taken)}
    assert (samples[SECOND]["start_offset"], samples[SECOND]["local_start_offset"]) == (None, None)
    assert taken.configs.append_bytes["orders"] == SIZE_BYTES // 100, "of the other partition"


@pytest.mark.parametrize("untold", [{}, {SECOND: "broker 1 is of a release before 3.6, which cannot tell it"}])
def test_a_run_keeps_and_shows_how_much_of_each_topic_is_remote(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, untold: dict[TopicPartition, str]
) -> None:
    tell(monkeypatch, {FIRST: 2900} if untold else {FIRST: 0, SECOND: 0}, untold)
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.plan()
    document = json_files.read_json(run.folder, json_files.SNAPSHOT)["tiered"]
    (orders,) = document["largest"]
    known = {"local_records": None, "remote_records": None} if untold else {"local_records": 6000, "remote_records": 0}
    assert orders == {"topic": "orders", "local_bytes": 2 * SIZE_BYTES, "untold": untold.get(SECOND), **known}
    assert (document["topics"], document["unknown"]) == (1, len(untold))
    tables = run.folder / json_files.SNAPSHOT_FOLDER
    rows = pq.read_table(tables / PARTITIONS).to_pylist()
    assert [row["remote_records"] for row in rows] == ([2900, None, None] if untold else [0, 0, None])
    assert existing_partitions(prepare(tables, Settings()), tables)["tiered"].to_pylist() == [True, True, False]
    page = (run.folder / json_files.REPORT).read_text()
    assert "A move copies no more than the part on disk" in page
    assert ("which cannot tell it" in page) == bool(untold)


def test_without_a_tiered_topic_no_file_speaks_of_them(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fake.put_json("/config/topics/orders", {"version": 1, "config": {"remote.storage.enable": "false"}})
    monkeypatch.setattr(offsets, "read_local_starts", lambda _, leaders: LocalStarts() if not leaders else None)
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.plan()
    assert "tiered" not in json_files.read_json(run.folder, json_files.SNAPSHOT)
    names = pq.read_schema(run.folder / json_files.SNAPSHOT_FOLDER / PARTITIONS).names
    assert not {"tiered", "remote_records", "local_records"} & set(names)
    assert "Tiered topics" not in (run.folder / json_files.REPORT).read_text()
