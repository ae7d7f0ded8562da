"""A broker that is dead for good and alone held a partition: every emergency job goes on with what can be copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.runs.rebalance_run import InProcessRun
from support.waiting import wait

FAST = 50_000_000  # bytes per second
DEAD = 4
LISTS = {number: [(1, 4), (2, 4), (4, 3), (3, 1)][number % 4] for number in range(8)}


@pytest.fixture(
    scope="module", params=[pytest.param("2.8.2", marks=pytest.mark.long), pytest.param("4.4.0", id="4.4.0-kraft")]
)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    controllers = 1 if request.param == "4.4.0" else 0
    with LocalCluster(request.param, brokers=5, racks=0, kraft=bool(controllers), controllers=controllers) as running:
        running.create_topic("solid", LISTS)
        running.create_topic("scratch", {0: (DEAD,), 1: (1,)})
        running.create_topic("old", {0: (DEAD, 1), 1: (2, DEAD)})
        running.create_topic("calm", dict.fromkeys(range(6), (1, 2)))
        running.produce("solid", dict.fromkeys(LISTS, 100_000))
        running.produce("calm", dict.fromkeys(range(6), 100_000))
        running.produce("scratch", {0: 1000, 1: 1000})
        running.stop_broker(DEAD)
        wait("the controller has noticed", lambda: leader_of_scratch(running) == -1)
        yield running


def leader_of_scratch(cluster: LocalCluster) -> int:
    return partitions(cluster, "scratch")[0].leader


def partitions(cluster: LocalCluster, topic: str) -> dict[int, Any]:
    zookeeper = None if cluster.kraft else ZooKeeperConnection(cluster.zookeeper)
    with open_cluster(ClusterConnection("test", zookeeper, KafkaConnection(cluster.bootstrap_servers))) as opened:
        return {tp.partition: one for tp, one in opened.read_view([topic]).partitions.items()}


@pytest.mark.parametrize(
    "asked",
    [
        {"job": "drain", "drain": [DEAD]},
        {"job": "replace", "replace": {str(DEAD): 5}},
        {"job": "leaders", "drain": [DEAD]},
        {"job": "relieve", "drain": [DEAD], "relieve_above": 0.99, "disk_headroom": 0.0},
    ],
)
def test_each_emergency_job_is_planned_without_what_is_lost(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    if asked["job"] == "relieve" and not cluster.kraft:
        pytest.skip("2.8.2 does not tell the size of a disk")
    offered = [one for one in run.plan(**asked)["candidates"] if one["status"] != "infeasible"]
    assert offered
    for one in offered:
        assert one["status"] == "partial"
        assert "eft out: scratch-0, lost unless broker 4 returns" in one["note"]
        moved = {str(move.topic_partition) for move in read_candidate(run.folder, one["name"]).moves}
        assert "scratch-0" not in moved


@pytest.mark.parametrize("asked", [{"topics_in": ["calm"]}, {"topics_out": ["s*", "old"]}])
def test_topics_that_are_well_are_balanced_meanwhile(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    asked = {**asked, "topics_out": [*asked.get("topics_out", []), "__*"]}
    assert InProcessRun(tmp_path, cluster, monkeypatch).plan(**asked)["recommended"] is not None


def test_the_drain_is_carried_out_and_verified_with_a_warning_about_what_is_lost(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    chosen = run.plan(job="drain", drain=[DEAD])["recommended"]
    run.approve(chosen, FAST)
    run.hold()
    run.reassign()
    verification = run.finish()
    assert all(DEAD not in one.replicas for one in partitions(cluster, "solid").values())
    assert all(len(one.isr) == 2 for one in partitions(cluster, "solid").values())
    assert partitions(cluster, "scratch")[0].replicas == (DEAD,)
    emptied = [one for one in verification["checks"] if one["name"] == "emptied"]
    assert [(one["passed"], one["severity"], "scratch-0" in one["finding"]) for one in emptied] == [
        (True, "warning", True)
    ]
    assert verification["passed"]
