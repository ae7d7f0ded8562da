"""What a run proposes, writes and gives back, as kafka-reassign-partitions does it. Acceptance rows of seed 001."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.kafka.reassignment_json import parse_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.kafka.on_versions import BOTH_KINDS
from support.runs.rebalance_run import InProcessRun
from support.zookeeper.zookeeper_log import Write, read_writes

RATE = 50_000_000
REQUEST = "/admin/reassign_partitions"
BROKERS = {2, 3, 4}  # what --broker-list names: all others are emptied
DRAIN = {"job": "drain", "drain": [1]}
Lists = dict[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True)
class Executed:
    """The run's folder and the page it showed, the lists at each stage, and what was written to ZooKeeper meanwhile."""

    folder: Path
    page: str
    before: Lists
    planned: Lists
    after: Lists
    back: Lists
    by_planning: tuple[Write, ...]
    by_executing: tuple[Write, ...]

    def file(self, name: str) -> Lists:
        """A plan of the run's folder, as Kafka's tool reads it."""
        return parse_reassignment((self.folder / "reassignments" / name).read_text())


def lists_of(client: KazooClient, topics: list[str]) -> Lists:
    return {tp: partition.replicas for tp, partition in read_cluster_view(client, topics).partitions.items()}


@pytest.fixture(scope="module")
def executed(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Executed]:
    """--generate's candidate for the topics of a topics-to-move file: planned, approved, executed, and taken back."""
    topics, folder = [fresh_topic_name(), fresh_topic_name()], tmp_path_factory.mktemp("runs")
    for topic in topics:
        cluster.create_topic(topic, {0: (1, 2), 1: (3, 1), 2: (2, 1)})
        cluster.produce(topic, dict.fromkeys(range(3), 20_000))
    to_move = json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]})

    def written() -> tuple[Write, ...]:
        return read_writes(cluster.folder / "zookeeper")

    with pytest.MonkeyPatch.context() as patch, open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
        before, at_first = lists_of(client, topics), len(written())
        run = InProcessRun(folder, cluster, patch)
        run.plan(topics_to_move=to_move, candidates=["as_kafka"], **DRAIN)
        planned, by_planning = lists_of(client, topics), written()[at_first:]
        run.approve("as_kafka", RATE)
        run.hold()
        run.reassign()
        assert run.finish()["passed"] is True
        after, by_executing = lists_of(client, topics), written()[at_first + len(by_planning) :]
        again = InProcessRun(folder, cluster, patch, "back")
        again.plan(topics_to_move=to_move, plan=(run.folder / "reassignments" / "as_kafka-rollback.json").read_text())
        again.approve("given", RATE)
        again.hold()
        again.reassign()
        assert again.finish()["passed"] is True
        page = (run.folder / "report.html").read_text()
        back = lists_of(client, topics)
        yield Executed(run.folder, page, before, planned, after, back, by_planning, by_executing)


@BOTH_KINDS
def test_a_proposal_is_two_files_the_current_lists_and_the_proposed_ones(executed: Executed) -> None:
    """Seed 001, row 3: --generate with a broker list prints current and proposed JSON."""
    proposed, current = executed.file("as_kafka.json"), executed.file("as_kafka-rollback.json")
    assert proposed.keys() == current.keys()
    assert current == {tp: executed.before[tp] for tp in current}
    assert all(set(replicas) <= BROKERS for replicas in proposed.values())
    # What is in neither file stays where it is, which is where --generate would put it.
    assert all(set(executed.before[tp]) <= BROKERS for tp in executed.before.keys() - proposed.keys())


@BOTH_KINDS
def test_planning_executes_nothing(executed: Executed) -> None:
    """Seed 001, row 6: generate does not execute."""
    assert executed.planned == executed.before
    ours = [write.path for write in executed.by_planning if write.path.startswith(("/admin", "/config", "/brokers"))]
    assert ours == []


@BOTH_KINDS
def test_an_executed_plan_has_its_way_back_which_the_page_offers(executed: Executed) -> None:
    """Seed 001, row 8: execute prints the current assignment for rollback, and what to do with it."""
    assert executed.after == executed.before | executed.file("as_kafka.json")
    assert executed.back == executed.before
    assert 'href="reassignments/as_kafka-rollback.json" download aria-label="Way back from as_kafka"' in executed.page


@BOTH_KINDS
def test_executing_writes_topic_partition_and_replicas_of_exactly_the_approved_moves(executed: Executed) -> None:
    """Seed 001, row 10: execute writes `/admin/reassign_partitions`, entries topic/partition/replicas."""
    created = [write for write in executed.by_executing if (write.call, write.path) == ("create", REQUEST)]
    assert created
    entries = []
    for write in created:
        document = json.loads(write.data)
        assert document.keys() == {"version", "partitions"}
        assert document["version"] == 1
        entries += document["partitions"]
    assert all(entry.keys() == {"topic", "partition", "replicas"} for entry in entries)
    assert all(type(broker) is int for entry in entries for broker in entry["replicas"])
    asked = {(entry["topic"], entry["partition"]): tuple(entry["replicas"]) for entry in entries}
    assert len(asked) == len(entries)
    assert asked == {move.topic_partition: move.after for move in read_candidate(executed.folder, "as_kafka").moves}
