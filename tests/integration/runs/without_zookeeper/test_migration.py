"""A cluster leaves ZooKeeper, by a real migration of Kafka 3.9 on real brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.client import KazooClient

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.kraft_migration import KraftMigration
from kafka_rebalance.nightly.check_cluster import check
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.run_step import step_inputs
from support.runs.plain_deployment import ToldRuns
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.waiting import wait

FAST = 50_000_000  # bytes per second
EVEN = {0: (1, 2), 1: (2, 3), 2: (3, 4), 3: (4, 1)}
UNEVEN = dict.fromkeys(range(8), (1, 2))


def is_in_sync() -> bool:
    with open_cluster(read_connection(CONNECTION)) as opened:
        partitions = opened.read_view().partitions.values()
    return bool(partitions) and all(len(partition.isr) == len(partition.replicas) for partition in partitions)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster("3.9.2", brokers=4, racks=2) as running:
        yield running


def night(run_id: str) -> dict[str, Any]:
    """Simulated: Airflow tells that no other run is going."""
    dag_run = SimpleNamespace(dag_id="kafka_balance", run_id=run_id, triggering_user_name=None, run_type="scheduled")
    inputs = step_inputs(dag_run)
    return check(replace(inputs, deployment=replace(inputs.deployment, other_runs=ToldRuns())), CONNECTION)


def make(cluster: LocalCluster, topic: str, replicas: dict[int, tuple[int, int]]) -> None:
    cluster.create_topic(topic, replicas)
    cluster.produce(topic, dict.fromkeys(replicas, 100_000))


@pytest.mark.long
def test_history_policy_ledger_and_an_approved_plan_outlive_the_migration(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(cluster, "orders", EVEN)
    run = InProcessRun(tmp_path, cluster, monkeypatch, "approved")
    before = night("night-1")
    make(cluster, "lopsided", UNEVEN)
    run.plan()
    run.approve("balanced", FAST)

    migration = KraftMigration(cluster)
    migration.begin()
    for act in (run.hold, lambda: night("night-2")):
        with pytest.raises(ClusterNotReadyError, match=r"KRaft controller owns the cluster \(epoch \d+\)"):
            act()
    client = KazooClient(cluster.zookeeper)
    client.start()
    try:
        assert client.exists("/kafka_rebalance/run") is None
        assert client.get("/config/topics/lopsided")[0] == b'{"version":1,"config":{}}'
    finally:
        client.stop()
        client.close()
    # The same connection with its new type comes too early while brokers are still in ZooKeeper.
    without_zookeeper = {"conn_type": "kafka_admin_api", "host": cluster.bootstrap_servers}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(without_zookeeper))
    with pytest.raises(AirflowFailException, match="while it is being migrated from there"):
        run.hold()

    migration.end()
    wait("every replica is in sync again after the restarts", is_in_sync)
    run.hold()
    run.reassign()
    assert run.finish()["passed"]
    after = night("night-2")
    assert after["cluster_id"] == before["cluster_id"]
    assert after["limit"] == before["limit"]
    now = datetime.now(UTC)
    tables = {
        name: ledger.read(airflow_deployment(), name, CONNECTION, 1.0, now=now).rows for name in ("balance", "metrics")
    }
    assert [row["run_id"] for row in tables["balance"]] == ["night-2", "night-1"]
    assert len({row["observed_at"] for row in tables["metrics"] if row["topic"] == "orders"}) >= 2
