"""A plan is the same, whichever way the cluster is read: through ZooKeeper, or through Kafka's Admin API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_rebalance.admin import cluster_view, quorum
from kafka_rebalance.admin.quorum import Quorum
from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.planning.tables.read_problem import BROKERS, PARTITIONS
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.waiting import wait

OF_ZOOKEEPER = {PARTITIONS: {"topic_znode_version", "topic_czxid"}, BROKERS: {"registration_czxid"}}


@pytest.mark.parametrize("cluster", ["2.8.2", "3.9.2"], indirect=True)
def test_a_plan_is_the_same_bytes(
    cluster: LocalCluster,
    fresh_topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2), 1: (1, 3), 2: (2, 1), 3: (1, 4)}, config={"retention.ms": "86400000"})
    cluster.produce(topic, {0: 400_000, 1: 100_000, 2: 300_000, 3: 20_000})
    found = []
    for way in ("zookeeper", "admin"):
        if way == "admin":
            # Simulated: the quorum, which a cluster with ZooKeeper does not have.
            for room in (quorum, cluster_view):
                monkeypatch.setattr(room, "find_quorum", lambda wire: Quorum(1, 1, frozenset(), {}))
            by_api = {"conn_type": "kafka_admin_api", "host": cluster.bootstrap_servers}
            monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(by_api))
        attempts: list[InProcessRun] = []

        def in_sync(way: str = way, attempts: list[InProcessRun] = attempts) -> bool:
            # Each attempt has a folder of its own, so that no plan is near another one.
            root = tmp_path / f"{way}-{len(attempts)}"
            root.mkdir()
            attempts.append(InProcessRun(root, cluster, monkeypatch, way))
            return planned(attempts[-1], topic)

        wait("all is in sync", in_sync)
        run = attempts[-1]
        proposals = json_files.read_json(run.folder, json_files.PROPOSALS)
        rows = {
            name: pq.read_table(run.folder / json_files.SNAPSHOT_FOLDER / name)
            .drop_columns(sorted(columns))
            .to_pylist()
            for name, columns in OF_ZOOKEEPER.items()
        }
        for row in rows[PARTITIONS]:
            row["isr"].sort()  # in no particular order
        for row in rows[BROKERS]:
            row["disk_used_bytes"] = None  # of the whole machine
            row["log_dirs"] = [one["path"] for one in row["log_dirs"]]
        files = {file.name: file.read_bytes() for file in sorted((run.folder / "reassignments").iterdir())}
        # Not the digests: they bind a candidate to its snapshot, which has the columns of ZooKeeper or lacks them.
        moves = {one["name"]: read_candidate(run.folder, one["name"]).moves for one in proposals["candidates"]}
        found.append((rows, moves, files))
    assert any(one["moved_replicas"] for one in proposals["candidates"])
    assert found[0] == found[1]


def planned(run: InProcessRun, topic: str) -> bool:
    """Whether all replicas of the snapshot are in sync."""
    run.plan(topics_in=[topic], job="drain", drain=[1], seed=7)
    rows = pq.read_table(run.folder / json_files.SNAPSHOT_FOLDER / PARTITIONS).to_pylist()
    return all(set(row["isr"]) == set(row["replicas"]) for row in rows)
