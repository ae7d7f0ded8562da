"""The first run of a cluster without ZooKeeper, where nobody has used transactions or groups before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.kafka.topics import LOCK_TOPIC, TRANSACTION_TOPIC
from kafka_rebalance.local_cluster import LocalCluster
from support.kafka.on_versions import NEWEST_WITHOUT_ZOOKEEPER
from support.runs import rebalance_run
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster

MB = 1_000_000


@pytest.fixture(params=NEWEST_WITHOUT_ZOOKEEPER)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(request.param, brokers=4, racks=0, kraft=True, controllers=1) as running:
        running.create_topic("orders", {0: (4, 2), 1: (3, 4), 2: (2, 3)})
        running.produce("orders", dict.fromkeys(range(3), MB))
        yield running


def names(cluster: LocalCluster) -> set[str]:
    return {topic for topic, _ in held(cluster)}


def held(cluster: LocalCluster) -> set[tuple[str, int]]:
    """(topic, broker) of every replica."""
    with open_cluster(WatchedCluster(cluster).connection) as opened:
        partitions = opened.read_view().partitions
    return {(tp.topic, broker) for tp, one in partitions.items() for broker in one.replicas}


def test_a_first_drain_empties_its_broker_and_a_plan_without_a_policy_makes_nothing(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance_run, "POLICY", rebalance_run.POLICY + "internal_topics: true\n")
    looking = InProcessRun(tmp_path, cluster, monkeypatch, "looking")
    policy = tmp_path / "policies" / f"{rebalance_run.CONNECTION}.yaml"
    policy.unlink()
    looking.plan(job="drain", drain=[4], internal_topics=True)
    assert names(cluster) == {"orders"}, "a cluster without a policy is read-only"

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "true")
    frozen = InProcessRun(tmp_path, cluster, monkeypatch, "frozen")
    frozen.plan(job="drain", drain=[4], internal_topics=True)
    assert names(cluster) == {"orders"}, "nothing is written to a frozen cluster"
    monkeypatch.delenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE")

    run = InProcessRun(tmp_path, cluster, monkeypatch, "first")
    run.plan(job="drain", drain=[4], internal_topics=True)
    assert json_files.read_json(run.folder, json_files.SNAPSHOT)["brokers"] == 4
    assert names(cluster) == {"orders", LOCK_TOPIC, TRANSACTION_TOPIC}
    assert {topic for topic, broker in held(cluster) if broker == 4} == {"orders"}
    assert run.carry_out("light")["passed"]
    assert not {topic for topic, broker in held(cluster) if broker == 4}
    assert names(cluster) == {"orders", LOCK_TOPIC, TRANSACTION_TOPIC}, "reading needs no group"
    assert WatchedCluster(cluster).leftovers() == []


@pytest.mark.long
def test_what_was_not_there_at_the_snapshot_is_made_on_brokers_that_stay(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = InProcessRun(tmp_path, cluster, monkeypatch, "thawed")
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "true")
    run.plan(job="drain", drain=[4])
    monkeypatch.delenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE")
    run.approve("light", 50 * MB)
    run.hold()
    assert {topic for topic, broker in held(cluster) if broker == 4} == {"orders"}
    run.reassign()
    assert run.finish()["passed"]
