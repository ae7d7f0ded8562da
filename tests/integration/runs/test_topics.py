"""`kafka_topics` on real clusters: create, alter, describe, delete; and what it refuses, with nothing written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ClusterConnection, ZooKeeperConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.topics.plan import END
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.zookeeper.client import open_client, read_znodes
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.on_versions import BOTH_KINDS, NEWEST, OLDEST
from support.runs.topic_run import CONNECTION, TopicRun

Names = Callable[[], str]


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TopicRun]:
    """Makes runs, each with a folder of its own."""

    def make(policy: str = "approvers: [uma]\n") -> TopicRun:
        return TopicRun(tmp_path, cluster, monkeypatch, policy)

    return make


def described(run: TopicRun, topic: str) -> dict:
    run.request(action="describe", topic=re.escape(topic))
    (entry,) = json_files.read_json(run.folder, json_files.TOPICS)["topics"]
    return entry


def test_a_topic_lives_from_creation_to_deletion(run: Callable[..., TopicRun], fresh_topic_name: Names) -> None:
    topic = fresh_topic_name()
    made = run().carry_out(
        action="create", topic=topic, partitions=4, replication_factor=3, config=["retention.ms=60000"]
    )
    assert made["passed"]
    entry = described(run(), topic)
    assert (entry["partition_count"], entry["replication_factor"]) == (4, 3)
    assert entry["configs"] == {"retention.ms": "60000"}
    assert entry["size_bytes"] == entry["under_replicated"] == entry["unavailable"] == 0

    grown = run().carry_out(
        action="alter", topic=topic, partitions=8, config=["segment.bytes=1048576"], delete_config=["retention.ms"]
    )
    assert grown["passed"]
    entry = described(run(), topic)
    assert entry["partition_count"] == 8
    assert entry["configs"] == {"segment.bytes": "1048576"}
    assert all(len(partition["isr"]) == 3 for partition in entry["partitions"])

    assert run().carry_out(action="delete", topic=topic)["passed"]
    gone = run()
    gone.request(action="describe", topic=re.escape(topic))
    assert json_files.read_json(gone.folder, json_files.TOPICS)["topics"] == []


def kafka_topics(classes: KafkaClasses, cluster: LocalCluster, *arguments: str) -> list[str]:
    """The lines that kafka-topics of the cluster's version prints."""
    given = ["--zookeeper", cluster.zookeeper, *arguments]
    _, said, complained = classes.run_tool("kafka.admin.TopicCommand", given)
    return (said + complained).splitlines()


@OLDEST
def test_a_creation_says_that_it_created_the_topic(
    run: Callable[..., TopicRun],
    cluster: LocalCluster,
    classes_of: Callable[[str], KafkaClasses],
    fresh_topic_name: Names,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Seed 004, rows 5 and 9: 2 partitions with replication factor 2, and `Created topic "test".`, as the tool says."""
    topic, theirs = fresh_topic_name(), fresh_topic_name()
    size = ("--partitions", "2", "--replication-factor", "2")
    (said,) = kafka_topics(classes_of(cluster.version), cluster, "--create", "--topic", theirs, *size)
    made = run()
    with caplog.at_level("INFO"):
        made.carry_out(action="create", topic=topic, partitions=2, replication_factor=2)
        assert caplog.messages.count(said.replace(theirs, topic)) == 1
        caplog.clear()
        made.write()  # a retry: the topic is there already
        assert not any("Created topic" in message for message in caplog.messages)
    for name in (topic, theirs):
        assert [len(partition["replicas"]) for partition in described(run(), name)["partitions"]] == [2, 2]


@OLDEST
def test_an_error_says_that_the_command_failed_and_why(
    run: Callable[..., TopicRun],
    cluster: LocalCluster,
    classes_of: Callable[[str], KafkaClasses],
    fresh_topic_name: Names,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Seed 004, row 4: "Error while executing topic command" and the cause, as the tool says."""
    topic = fresh_topic_name()
    size = ("--partitions", "1", "--replication-factor", "9")
    said, *_ = kafka_topics(classes_of(cluster.version), cluster, "--create", "--topic", topic, *size)
    with pytest.raises(AirflowFailException, match="Replication factor: 9 larger than available brokers: 4"):
        run().request(action="create", topic=topic, partitions=1, replication_factor=9)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [said]
    assert said.startswith("Error while executing topic command")
    assert topic not in all_topics(run())


@OLDEST
def test_a_dry_run_and_a_rejection_write_nothing(
    run: Callable[..., TopicRun], cluster: LocalCluster, fresh_topic_name: Names
) -> None:
    topic = fresh_topic_name()
    dry = run()
    dry.request(action="create", topic=topic, partitions=2, replication_factor=2, dry_run=True)
    with pytest.raises(DownstreamTasksSkipped):
        dry.ask()
    assert topic not in all_topics(run())
    run().carry_out(action="create", topic=topic, partitions=2, replication_factor=2)
    before = znodes(cluster, topic)
    refused = run()
    refused.request(action="alter", topic=topic, partitions=3)
    refused.ask()
    with pytest.raises(DownstreamTasksSkipped):
        refused.answer("Reject")
    with pytest.raises(AirflowFailException, match="ApprovalError"):
        refused.write()
    assert znodes(cluster, topic) == before


@BOTH_KINDS
def test_writing_again_after_a_kill_changes_nothing(
    run: Callable[..., TopicRun], cluster: LocalCluster, fresh_topic_name: Names
) -> None:
    """A retry of the task after its worker was killed anywhere behind the write."""
    topic = fresh_topic_name()
    for request in (
        {"action": "create", "partitions": 2, "replication_factor": 2},
        {"action": "alter", "partitions": 4, "config": ["flush.ms=1000"]},
        {"action": "delete"},
    ):
        once = run()
        once.carry_out(topic=topic, **request)
        written = znodes(cluster, topic)
        once.write()
        assert znodes(cluster, topic) == written
        assert once.verify()


@NEWEST
def test_a_creation_that_was_cut_short_is_finished_by_the_next_one(
    run: Callable[..., TopicRun], cluster: LocalCluster, fresh_topic_name: Names
) -> None:
    """Kafka's own tool writes the config first: what a kill between its two writes leaves is a config without topic."""
    topic = fresh_topic_name()
    with open_client(connection(run()).zookeeper) as client:
        client.create(f"/config/topics/{topic}", b'{"version":1,"config":{"flush.ms":"9"}}')
    run().carry_out(action="create", topic=topic, partitions=2, replication_factor=2, config=["flush.ms=7"])
    assert described(run(), topic)["configs"] == {"flush.ms": "7"}


@NEWEST
@pytest.mark.parametrize("assignment", ["room", "kafka"])
def test_new_partitions_keep_to_the_racks(
    run: Callable[..., TopicRun], fresh_topic_name: Names, assignment: str
) -> None:
    topic = fresh_topic_name()
    made = run()
    made.carry_out(action="create", topic=topic, partitions=6, replication_factor=3, assignment=assignment)
    grown = run()
    grown.carry_out(action="alter", topic=topic, partitions=9, assignment=assignment)
    with open_client(connection(made).zookeeper) as client:
        racks = read_cluster_view(client, [topic]).racks
    lists = [*made.change["new_partitions"].values(), *grown.change["new_partitions"].values()]
    assert len(lists) == 9
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in lists)


@NEWEST
def test_an_assignment_by_hand_is_taken_as_it_is(run: Callable[..., TopicRun], fresh_topic_name: Names) -> None:
    topic = fresh_topic_name()
    run().carry_out(action="create", topic=topic, replica_assignment="4:2,1:3")
    run().carry_out(action="alter", topic=topic, replica_assignment="4:2,1:3,2:1")
    entry = described(run(), topic)
    assert [partition["replicas"] for partition in entry["partitions"]] == [[4, 2], [1, 3], [2, 1]]


@NEWEST
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"action": "create", "topic": "a b", "partitions": 1, "replication_factor": 1}, 'Topic name "a b" is illegal'),
        ({"action": "create", "topic": "$x", "partitions": 1, "replication_factor": 1}, "is illegal"),
        ({"action": "create", "partitions": 0, "replication_factor": 1}, "Number of partitions must be larger than 0."),
        ({"action": "create", "partitions": 1, "replication_factor": 9}, "larger than available brokers: 4."),
        ({"action": "create", "partitions": 1, "replication_factor": 4}, "above the 3 racks"),
        ({"action": "create", "replica_assignment": "1:2,2:99"}, "Specified brokers: 2, 99, available brokers"),
        ({"action": "create", "partitions": 1, "replication_factor": 1, "config": ["a=1"]}, "Unknown topic config"),
        (
            {"action": "create", "partitions": 1, "replication_factor": 2, "config": ["min.insync.replicas=2"]},
            "one broker down",
        ),
        ({"action": "create", "partitions": 2000, "replication_factor": 1}, "partitions_per_topic 1000"),
        ({"action": "alter", "partitions": 3}, "does not exist"),
        ({"action": "delete"}, "does not exist"),
        ({"action": "delete", "topic": "__consumer_offsets"}, "internal topic|does not exist"),
    ],
)
def test_what_must_not_be_is_refused_before_anybody_is_asked(
    run: Callable[..., TopicRun],
    cluster: LocalCluster,
    fresh_topic_name: Names,
    params: dict[str, object],
    words: str,
) -> None:
    before = all_topics(run())
    asked = run()
    with pytest.raises(AirflowFailException, match=words) as refused:
        asked.request(**{"topic": fresh_topic_name(), **params})
    assert re.search(r"Nothing was (read or )?written|changed nothing", str(refused.value))
    assert all_topics(run()) == before


@NEWEST
def test_if_exists_and_if_not_exists_make_nothing_of_it(run: Callable[..., TopicRun], fresh_topic_name: Names) -> None:
    topic = fresh_topic_name()
    assert run().request(action="delete", topic=topic, if_exists=True)["next"] == END
    creation = {"action": "create", "topic": topic, "partitions": 1, "replication_factor": 1}
    run().carry_out(**creation)
    assert run().request(**creation, if_not_exists=True)["next"] == END
    with pytest.raises(AirflowFailException, match="already exists"):
        run().request(**creation)


@BOTH_KINDS
def test_a_topic_that_was_made_again_since_the_approval_is_left_alone(
    run: Callable[..., TopicRun], cluster: LocalCluster, fresh_topic_name: Names
) -> None:
    topic = fresh_topic_name()
    creation = {"action": "create", "topic": topic, "partitions": 2, "replication_factor": 2}
    run().carry_out(**creation)
    for request in (
        {"action": "alter", "partitions": 3},
        {"action": "delete"},
        {"action": "alter", "config": ["flush.ms=1"]},
    ):
        approved = run()
        approved.request(topic=topic, **request)
        approved.ask()
        approved.answer(str(request["action"]))
        run().carry_out(action="delete", topic=topic)
        run().carry_out(**creation)
        before = znodes(cluster, topic)
        with pytest.raises(AirflowFailException, match=r"StaleProposalError.*deleted and made again"):
            approved.write()
        assert znodes(cluster, topic) == before


@NEWEST
def test_a_topic_that_changed_since_the_approval_is_left_alone(
    run: Callable[..., TopicRun], cluster: LocalCluster, fresh_topic_name: Names
) -> None:
    topic = fresh_topic_name()
    run().carry_out(action="create", topic=topic, partitions=2, replication_factor=2)
    approved = run()
    approved.request(action="alter", topic=topic, partitions=5)
    approved.ask()
    approved.answer("alter")
    run().carry_out(action="alter", topic=topic, partitions=3)
    before = znodes(cluster, topic)
    with pytest.raises(AirflowFailException, match=r"StaleProposalError.*given the cluster's lock back"):
        approved.write()
    assert znodes(cluster, topic) == before


@NEWEST
def test_a_changed_file_is_not_what_was_approved(run: Callable[..., TopicRun], fresh_topic_name: Names) -> None:
    topic = fresh_topic_name()
    run().carry_out(action="create", topic=topic, partitions=2, replication_factor=2)
    approved = run()
    approved.request(action="alter", topic=topic, partitions=3)
    approved.ask()
    approved.answer("alter")
    document = json_files.read_json(approved.folder, json_files.TOPIC)
    document["change"]["new_partitions"]["3"] = [1, 2]
    json_files.write_json(approved.folder, json_files.TOPIC, document)
    with pytest.raises(AirflowFailException, match=r"ApprovalError.*had changed nothing in the cluster"):
        approved.write()
    assert described(run(), topic)["partition_count"] == 2


@NEWEST
def test_a_rebalance_that_holds_the_cluster_keeps_its_topics_as_they_were_approved(
    run: Callable[..., TopicRun], fresh_topic_name: Names
) -> None:
    topic = fresh_topic_name()
    run().carry_out(action="create", topic=topic, partitions=2, replication_factor=2)
    approved = run()
    approved.request(action="alter", topic=topic, partitions=3)
    approved.ask()
    approved.answer("alter")
    holder = LockOwner(run="kafka_rebalance/other", digest="d", owner="elsewhere")
    with open_client(connection(approved).zookeeper) as client:
        ZooKeeperLock(client).acquire(holder)
        try:
            with pytest.raises(AirflowFailException, match=r"LockHeldError.*kafka_rebalance/other"):
                approved.write()
        finally:
            ZooKeeperLock(client).release(holder)
    assert described(run(), topic)["partition_count"] == 2
    approved.write()
    approved.verify()
    with open_client(connection(approved).zookeeper) as client:
        assert ZooKeeperLock(client).read() is None


@OLDEST
def test_a_cluster_without_a_policy_can_be_looked_at_and_not_changed(
    run: Callable[..., TopicRun], tmp_path: Path, fresh_topic_name: Names
) -> None:
    looked = run()
    (tmp_path / "policies" / f"{CONNECTION}.yaml").unlink()
    assert looked.request(action="list")["next"] == END
    with pytest.raises(AirflowFailException, match=r"PolicyError.*read-only"):
        looked.request(action="create", topic=fresh_topic_name(), partitions=1, replication_factor=1)


def connection(run: TopicRun) -> ClusterConnection:
    return read_connection(CONNECTION)


def all_topics(run: TopicRun) -> list[str]:
    run.request(action="list")
    return [entry["topic"] for entry in json_files.read_json(run.folder, json_files.TOPICS)["topics"]]


def znodes(cluster: LocalCluster, topic: str) -> dict[str, bytes | None]:
    """What is stored of a topic, and what is requested of the controller for it."""
    paths = [f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}"]
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
        return {path: znode and znode[0] for path, znode in read_znodes(client, paths).items()}
