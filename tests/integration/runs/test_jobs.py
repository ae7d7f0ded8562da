"""The jobs of a rebalance on real brokers, from the snapshot to the verification, on a cluster of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.kafka.reassignment_json import parse_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.partition import PartitionView
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.java.reassign_tool import ReassignPartitions
from support.runs.cancel_run import CancelRun
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.waiting import wait

VERSION = "2.0.1"  # starts fastest; what a plan becomes on each version is in test_rebalance.py
MEGABYTE = 1_000_000
# Seed 001: foo1 and foo2 each have these lists, and are to lie on brokers 5 and 6.
FOO = {0: (3, 4), 1: (2, 3), 2: (1, 2)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Six brokers in three racks: 1 and 4, 2 and 5, 3 and 6."""
    with LocalCluster(VERSION, brokers=6, racks=3, one_jvm=True) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster, client: KazooClient) -> Iterator[Callable[..., str]]:
    """Makes a topic with data, which goes with the test: what a drained broker holds is looked for in all topics."""
    made = []

    def make(name: str, replicas: dict[int, tuple[int, ...]], size_bytes: int = 200_000) -> str:
        cluster.create_topic(name, replicas)
        cluster.produce(name, dict.fromkeys(replicas, size_bytes))
        made.append(name)
        return name

    yield make
    assert client.exists("/admin/reassign_partitions") is None
    assert client.exists("/kafka_rebalance/run") is None
    for name in made:
        client.create(f"/admin/delete_topics/{name}")
        wait(f"topic {name} is gone", lambda name=name: not client.exists(f"/brokers/topics/{name}"))  # type: ignore[misc]


def partitions(client: KazooClient, *topics: str) -> dict[tuple[str, int], PartitionView]:
    return {(tp.topic, tp.partition): found for tp, found in read_cluster_view(client, topics).partitions.items()}


def lists(client: KazooClient, *topics: str) -> dict[tuple[str, int], tuple[int, ...]]:
    return {tp: partition.replicas for tp, partition in partitions(client, *topics).items()}


def test_a_dead_broker_is_replaced_by_a_new_one(
    run: InProcessRun, topic: Callable[..., str], client: KazooClient, cluster: LocalCluster
) -> None:
    name = topic("replace", {0: (3, 2), 1: (1, 3), 2: (2, 1)})
    cluster.stop_broker(3)
    try:
        run.plan(topics_in=[name], job="replace", replace={"3": 6})
        assert run.carry_out("light")["passed"] is True
        found = partitions(client, name)
        assert lists(client, name) == {(name, 0): (6, 2), (name, 1): (1, 6), (name, 2): (2, 1)}
        assert all(set(one.isr) == set(one.replicas) and one.leader == one.replicas[0] for one in found.values())
    finally:
        cluster.start_broker(3)


def test_relieve_takes_from_the_full_broker_alone(
    run: InProcessRun, topic: Callable[..., str], client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("relieve", {0: (1, 2), 1: (1, 3), 2: (1, 2), 3: (3, 2)}, MEGABYTE)
    connection = json.loads(os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"])
    connection["extra"]["broker_capacities"] = {broker: {"disk_bytes": 4 * MEGABYTE} for broker in range(1, 7)}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(connection))
    before = lists(client, name)
    # Of 4 MB each, brokers 1 and 2 hold 2 and 3, broker 3 holds 2: one is above seven tenths.
    proposals = run.plan(topics_in=[name], job="relieve", relieve_above=0.7, disk_headroom=0.0)
    assert run.carry_out(proposals["recommended"])["passed"] is True
    after = lists(client, name)
    left = {tp: (set(before[tp]) - set(replicas), set(replicas) - set(before[tp])) for tp, replicas in after.items()}
    assert set().union(*(gone for gone, _ in left.values())) == {1, 2}
    held = {broker: sum(broker in replicas for replicas in after.values()) for broker in range(1, 7)}
    assert max(held.values()) <= 2, held


def test_a_topic_that_is_to_spread_ends_with_its_even_share_on_every_broker(
    run: InProcessRun, topic: Callable[..., str], client: KazooClient, cluster: LocalCluster
) -> None:
    names = [topic("hot", dict.fromkeys(range(6), (1, 2))), topic("cold", dict.fromkeys(range(6), (4, 5)))]
    proposals = run.plan(topics_in=names, spread_topics=["hot"], max_bytes=10 * MEGABYTE)
    assert run.carry_out(proposals["recommended"])["passed"] is True
    held = [broker for found in lists(client, "hot").values() for broker in found]
    assert {broker: held.count(broker) for broker in set(held)} == dict.fromkeys(range(1, 7), 2)
    for tp, replicas in lists(client, *names).items():
        assert len({cluster.brokers[broker] for broker in replicas}) == 2, tp


def test_after_a_plan_that_survives_losses_every_broker_has_room_for_what_it_would_take(
    run: InProcessRun,
    topic: Callable[..., str],
    client: KazooClient,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic("losses", dict.fromkeys(range(6), (1, 2)), MEGABYTE)
    connection = json.loads(os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"])
    network = dict.fromkeys(("nic_in_bytes_per_second", "nic_out_bytes_per_second"), 100 * MEGABYTE)
    disk = {"disk_bytes": 7 * MEGABYTE}
    connection["extra"]["broker_capacities"] = dict.fromkeys(range(1, 7), disk | network)
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(connection))
    # With the loss of broker 1, broker 4 takes 6 MB of the 4.9 that it may have.
    proposals = run.plan(topics_in=[name], survive="broker", disk_headroom=0.3, tolerance=0.9, max_bytes=50 * MEGABYTE)
    assert run.carry_out(proposals["recommended"])["passed"] is True
    held = [broker for found in lists(client, name).values() for broker in found]
    for rack in set(cluster.brokers.values()):
        both = sum(cluster.brokers[broker] == rack for broker in held)
        assert both * MEGABYTE <= 0.7 * 7 * MEGABYTE, "the other broker of the rack takes all"


def test_what_goes_between_racks_is_told_and_leaders_go_to_the_racks_named(
    run: InProcessRun, topic: Callable[..., str], client: KazooClient, cluster: LocalCluster
) -> None:
    turns = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    small = topic("small", {number: turns[number % 3] for number in range(6)}, 100_000)
    large = topic("large", dict(enumerate(turns)), MEGABYTE)
    racks = cluster.brokers
    proposals = run.plan(topics_in=[small, large], candidates=["balanced"], leader_racks=[racks[1]])
    (plan,) = proposals["candidates"]
    between = sum(
        move.size_bytes
        for move in read_candidate(run.folder, "balanced").moves
        for broker in move.added
        if racks[broker] != racks[move.source]
    )
    assert plan["cross_rack_bytes"] == between
    assert 0 < plan["between_racks"]["copied_by_chance"] <= plan["moved_bytes"]
    assert run.carry_out("balanced")["passed"] is True
    leaders = [found.leader for found in partitions(client, small, large).values()]
    assert set(leaders) == {1, 4}
    assert "9 of 9 leaders are in rack" in plan["note"]


def test_replicas_that_share_a_rack_are_spread_over_racks(
    run: InProcessRun, topic: Callable[..., str], client: KazooClient, cluster: LocalCluster
) -> None:
    name = topic("racks", {0: (1, 4), 1: (2, 5), 2: (1, 2)})
    proposals = run.plan(topics_in=[name], job="repair_racks")
    assert run.carry_out(proposals["recommended"])["passed"] is True
    for tp, replicas in lists(client, name).items():
        assert len({cluster.brokers[broker] for broker in replicas}) == 2, tp
    assert set(lists(client, name)[name, 2]) == {1, 2}


def test_a_higher_replication_factor_is_reached_with_every_new_replica_in_sync(
    run: InProcessRun, topic: Callable[..., str], client: KazooClient
) -> None:
    name = topic("factor", {0: (1, 2), 1: (3, 4), 2: (5, 6)})
    proposals = run.plan(topics_in=[name], job="replication_factor", replication_factor=3)
    before = lists(client, name)
    assert run.carry_out(proposals["recommended"])["passed"] is True
    for tp, found in partitions(client, name).items():
        assert len(found.replicas) == 3
        assert set(found.replicas) > set(before[name, tp[1]])
        assert set(found.isr) == set(found.replicas)


def test_preferred_leaders_are_elected_without_a_change_of_any_list(
    run: InProcessRun, topic: Callable[..., str], client: KazooClient, cluster: LocalCluster
) -> None:
    name = topic("elect", {0: (1, 2), 1: (1, 3), 2: (2, 1), 3: (1, 4)})
    cluster.stop_broker(1)
    cluster.start_broker(1)
    wait("broker 1 is in sync", lambda: all(1 in one.isr for one in partitions(client, name).values()))
    before = lists(client, name)
    assert {tp[1]: one.leader for tp, one in partitions(client, name).items()} == {0: 2, 1: 3, 2: 2, 3: 4}
    versions = {one.topic_znode_version for one in partitions(client, name).values()}
    proposals = run.plan(topics_in=[name], job="elect")
    assert [candidate["name"] for candidate in proposals["candidates"]] == ["leaders_only"]
    assert run.carry_out("leaders_only")["passed"] is True
    found = partitions(client, name)
    assert {tp[1]: one.leader for tp, one in found.items()} == {0: 1, 1: 1, 2: 2, 3: 1}
    assert lists(client, name) == before
    assert {one.topic_znode_version for one in found.values()} == versions, "nobody wrote the lists"


def test_the_example_with_foo1_and_foo2_is_generated_approved_executed_and_rolled_back(
    tmp_path: Path,
    topic: Callable[..., str],
    client: KazooClient,
    cluster: LocalCluster,
    classes_of: Callable[[str], KafkaClasses],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 001, rows 2 to 10, with Kafka's tool for `--generate` and the product for everything else."""
    names = [topic("foo1", FOO), topic("foo2", FOO)]
    current = {(name, partition): replicas for name in names for partition, replicas in FOO.items()}
    file = tmp_path / "topics-to-move.json"
    file.write_text(json.dumps({"topics": [{"topic": "foo1"}, {"topic": "foo2"}], "version": 1}))
    tool = ReassignPartitions(classes_of(VERSION), cluster)
    said = tool("--topics-to-move-json-file", str(file), "--broker-list", "5,6", "--generate")
    told, proposed = (parse_reassignment(line) for line in said.splitlines() if line.startswith("{"))
    assert told == current
    assert {tp: set(replicas) for tp, replicas in proposed.items()} == {tp: {5, 6} for tp in current}
    assert lists(client, *names) == current, "to generate is not to execute"

    run = InProcessRun(tmp_path, cluster, monkeypatch, "forth")
    run.plan(topics_in=names, plan=said)
    moves = read_candidate(run.folder, "given").moves
    assert {move.topic_partition: (move.before, move.after) for move in moves} == {
        tp: (current[tp], proposed[tp]) for tp in proposed
    }
    back = parse_reassignment((run.folder / "reassignments" / "given-rollback.json").read_text())
    assert back == current
    assert run.carry_out("given")["passed"] is True
    assert lists(client, *names) == proposed
    assert all(one.leader == one.replicas[0] for one in partitions(client, *names).values())

    way_back = CancelRun(monkeypatch, "way back")
    assert way_back.request("roll_back")["run"] == "kafka_rebalance/forth"
    asked: dict[str, Any] = {name: way_back.xcom["conf"][name] for name in ("plan", "candidates")}
    assert parse_reassignment(asked["plan"]) == current
    again = InProcessRun(tmp_path, cluster, monkeypatch, "back")
    again.plan(**asked)
    assert again.carry_out("given")["passed"] is True
    assert lists(client, *names) == current
