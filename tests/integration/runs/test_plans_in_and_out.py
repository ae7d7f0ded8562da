"""Plans to and from Kafka's own tool of each version: it takes our files unchanged, and we take what it proposes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.kafka.reassignment_json import format_reassignment, parse_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.java.reassign_tool import ReassignPartitions
from support.kafka.on_versions import BOTH_KINDS
from support.runs.rebalance_run import InProcessRun

SIZE_BYTES = 50_000
WAIT_SECONDS = 60
EVERY_CANDIDATE = ["leaders_only", "light", "balanced", "as_kafka"]

Lists = dict[TopicPartition, tuple[int, ...]]


@pytest.fixture
def classes(cluster: LocalCluster, classes_of: Callable[[str], KafkaClasses]) -> KafkaClasses:
    """Kafka's classes of the cluster's version."""
    return classes_of(cluster.version)


@pytest.fixture
def tool(classes: KafkaClasses, cluster: LocalCluster) -> ReassignPartitions:
    return ReassignPartitions(classes, cluster)


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> str:
    """Six small partitions, of which broker 1 leads all and broker 4 holds none."""
    name = fresh_topic_name()
    replicas = {0: (1, 2), 1: (1, 3), 2: (1, 2), 3: (1, 3), 4: (1, 2), 5: (1, 3)}
    cluster.create_topic(name, replicas)
    cluster.produce(name, dict.fromkeys(replicas, SIZE_BYTES))
    return name


def lists_of(client: KazooClient, topic: str) -> Lists:
    return {tp: partition.replicas for tp, partition in read_cluster_view(client, [topic]).partitions.items()}


def wait_for(client: KazooClient, topic: str, wanted: Lists) -> None:
    """Until the lists are these, in this order, every replica is in sync, and nothing is under way."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = read_cluster_view(client, [topic]).partitions
        in_sync = all(set(partition.isr) == set(partition.replicas) for partition in found.values())
        there = {tp: partition.replicas for tp, partition in found.items()} == wanted
        if there and in_sync and client.exists("/admin/reassign_partitions") is None:
            return
        assert time.monotonic() < deadline, f"{found} is not {wanted}"
        time.sleep(0.05)


def test_every_candidate_and_its_way_back_are_taken_unchanged_by_kafkas_tool_and_move(
    run: InProcessRun, tool: ReassignPartitions, client: KazooClient, topic: str
) -> None:
    before = lists_of(client, topic)
    asked = {TopicPartition(topic, 0): [4, 3, 2], TopicPartition(topic, 1): [3], TopicPartition(topic, 2): [2, 1]}
    proposals = run.plan(topics_in=[topic], plan=format_reassignment(asked), candidates=EVERY_CANDIDATE, seed=1)
    names = [candidate["name"] for candidate in proposals["candidates"]]
    assert names == [*EVERY_CANDIDATE, "given"]
    for name in names:
        forth, back = (run.folder / "reassignments" / f"{name}{end}.json" for end in ("", "-rollback"))
        contents = forth.read_bytes(), back.read_bytes()
        after = before | {move.topic_partition: move.after for move in read_candidate(run.folder, name).moves}
        assert after != before, name
        for file, wanted in ((forth, after), (back, before)):
            said = tool("--reassignment-json-file", str(file), "--execute")
            assert "Successfully started" in said, said
            wait_for(client, topic, wanted)
        said = tool("--reassignment-json-file", str(back), "--verify")
        assert "failed" not in said
        assert "ERROR" not in said
        assert said.count(f"{topic}-") >= len(parse_reassignment(back.read_text()))
        assert (forth.read_bytes(), back.read_bytes()) == contents


@BOTH_KINDS
def test_an_order_of_followers_that_a_plan_asks_for_is_executed(
    run: InProcessRun, client: KazooClient, cluster: LocalCluster, fresh_topic_name: Callable[[], str]
) -> None:
    name = fresh_topic_name()
    cluster.create_topic(name, {0: (1, 2, 3)})
    cluster.produce(name, {0: SIZE_BYTES})
    wanted: Lists = {TopicPartition(name, 0): (1, 3, 2)}
    run.plan(topics_in=[name], plan=format_reassignment(wanted))
    assert run.carry_out("given")["passed"] is True
    wait_for(client, name, wanted)


def test_what_kafkas_tool_generates_is_a_plan_that_a_run_executes(
    run: InProcessRun, tool: ReassignPartitions, client: KazooClient, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    output = tool("--topics-to-move-json-file", str(tmp_path / "topics.json"), "--broker-list", "2,3,4", "--generate")
    proposed = parse_reassignment(output.splitlines()[-1])
    before = lists_of(client, topic)
    run.plan(topics_in=[topic], plan=output)
    moves = read_candidate(run.folder, "given").moves
    assert before | {move.topic_partition: move.after for move in moves} == proposed
    assert run.carry_out("given")["passed"] is True
    wait_for(client, topic, proposed)
    found = read_cluster_view(client, [topic]).partitions
    assert {tp: partition.leader for tp, partition in found.items()} == {tp: lists[0] for tp, lists in proposed.items()}
