"""A whole rebalance on a cluster whose controller elects preferred leaders by itself, which is Kafka's default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.runs.rebalance_run import InProcessRun
from support.waiting import wait

VERSION = "3.9.2"
MEGABYTE = 1_000_000
RATE, SIZE = 50 * MEGABYTE, 2 * MEGABYTE
# As Kafka has it, but for the five minutes between two checks.
CONFIG: dict[str, str | int] = {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": 1}
BEFORE = {0: (1, 2), 1: (1, 3), 2: (1, 2), 3: (1, 3)}
AFTER = {0: (3, 2), 1: (4, 3), 2: (2, 1), 3: (3, 4)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(VERSION, brokers=4, racks=0, one_jvm=True, broker_config=CONFIG) as running:
        yield running


def leaders(client: KazooClient, topic: str) -> dict[int, int]:
    return {tp.partition: one.leader for tp, one in read_cluster_view(client, [topic]).partitions.items()}


def test_it_is_told_before_the_approval_expected_meanwhile_and_the_end_is_the_approved_one(
    cluster: LocalCluster, client: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("orders", BEFORE)
    cluster.produce("orders", dict.fromkeys(BEFORE, SIZE))
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    plan = format_reassignment({TopicPartition("orders", partition): lists for partition, lists in AFTER.items()})
    run.plan(topics_in=["orders"], plan=plan, partitions_per_batch=1)
    told = json_files.read_json(run.folder, json_files.SNAPSHOT)["automatic_elections"]
    assert told == {"brokers": [1, 2, 3, 4], "check_seconds": 1}
    page = re.sub(r"\s+", " ", (run.folder / json_files.REPORT).read_text(encoding="utf-8"))
    assert "the controller also elects preferred leaders by itself between batches, which it checks every" in page
    run.approve("given", RATE)
    run.hold()
    batch, said = run.request(), []
    while batch is not None:
        event, lines = run.follow(batch)
        assert event is not None
        assert event.state == "done"
        said += lines
        # The controller elects before our own election of this batch has its turn.
        wait("every preferred leader leads", lambda: all(is_led_by_its_first(client)))
        batch = run.resume(event)
    verification = run.finish()
    assert verification["passed"] is True, verification
    assert leaders(client, "orders") == {partition: replicas[0] for partition, replicas in AFTER.items()}
    assert not [line for line in said if "another tool" in line or "Leaders changed" in line]


def is_led_by_its_first(client: KazooClient) -> Iterator[bool]:
    return (one.leader == one.replicas[0] for one in read_cluster_view(client, ["orders"]).partitions.values())
