"""What we leave in ZooKeeper for a topic is what Kafka's own tool of the same version leaves, znode by znode."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_rebalance.kafka import assignment
from kafka_rebalance.kafka.topics import parse_replica_assignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.model.partition import TopicIdentity, topic_identities
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_assignments, read_cluster_view
from kafka_rebalance.zookeeper.topic_writes import (
    create_topic,
    delete_topic,
    set_topic_configs,
    write_more_partitions,
)
from support.kafka.java.kafka_classes import KafkaClasses
from support.waiting import wait
from support.zookeeper.fake_zookeeper import fake_cluster
from support.zookeeper.new_partitions import are_led

MANUAL, ALL = "2:3:1,3:4:2", "2:3:1,3:4:2,4:1:3,1:2:4"
CONFIGS, CHANGES = {"retention.ms": "86400000", "cleanup.policy": "compact"}, {"retention.ms": "5", "segment.ms": "7"}
TREES = ("/brokers/topics", "/config/topics", "/admin/delete_topics")
Tree = dict[str, tuple[Any, Any]]


class Tool:
    """Kafka's topic tool of the cluster's version: of ZooKeeper where it still can, else of the brokers."""

    def __init__(self, classes: KafkaClasses, where: str) -> None:
        self._classes = classes
        self._of_zookeeper = not classes.version.startswith("3.")
        self._where = ["--zookeeper" if self._of_zookeeper else "--bootstrap-server", where]

    def topics(self, action: str, topic: str, *options: str) -> None:
        main_class = "kafka.admin.TopicCommand" if self._of_zookeeper else "org.apache.kafka.tools.TopicCommand"
        self._run(main_class, f"--{action}", "--topic", topic, *options)

    def configure(self, topic: str, changes: dict[str, str]) -> None:
        changed = [f"{key}={value}" for key, value in changes.items()]
        if self._of_zookeeper:
            self.topics("alter", topic, *configs(dict(entry.split("=") for entry in changed)))
        else:
            self._run("kafka.admin.ConfigCommand", "--alter", "--topic", topic, "--add-config", ",".join(changed))

    def _run(self, main_class: str, *arguments: str) -> None:
        code, said, complained = self._classes.run_tool(main_class, [*self._where, *arguments])
        assert code == 0, said + complained


def configs(given: dict[str, str]) -> list[str]:
    return [part for key, value in given.items() for part in ("--config", f"{key}={value}")]


@pytest.fixture
def classes(cluster: LocalCluster, classes_of: Callable[[str], KafkaClasses]) -> KafkaClasses:
    """Kafka's classes of the cluster's version."""
    return classes_of(cluster.version)


def identity(client: Any, name: str) -> TopicIdentity:
    return topic_identities(read_cluster_view(client, [name]).partitions)[name]


def tree(client: Any, *roots: str) -> Tree:
    """Content and ACL of everything there; of ids only that there is one."""
    found: Tree = {}
    waiting = [root for root in roots if client.exists(root)]
    while waiting:
        path = waiting.pop()
        data, acl = client.get(path)[0], client.get_acls(path)[0]
        content = json.loads(data) if data and data.startswith(b"{") else data or b""
        if isinstance(content, dict) and "topic_id" in content:
            content["topic_id"] = "an id"
        found[path] = content, acl
        waiting += [f"{path.rstrip('/')}/{child}" for child in client.get_children(path)]
    return found


def topic_tree(client: Any, name: str) -> Tree:
    """What there is of the topic, as if it were named T."""
    found = tree(client, *(f"{root}/{name}" for root in TREES))
    return {path.replace(name, "T"): content for path, content in found.items()}


# --- with brokers: the same end ---


def test_a_topic_of_ours_is_in_the_end_like_one_of_kafkas_tool(
    cluster: LocalCluster, classes: KafkaClasses, client: Any, fresh_topic_name: Callable[[], str]
) -> None:
    theirs, ours = f"{fresh_topic_name()}-theirs", f"{fresh_topic_name()}-ours"
    tool = Tool(classes, cluster.zookeeper if not cluster.version.startswith("3.") else cluster.bootstrap_servers)
    first, every = parse_replica_assignment(MANUAL), parse_replica_assignment(ALL)
    more = {partition: replicas for partition, replicas in every.items() if partition not in first}

    def settled(partitions: dict[int, tuple[int, ...]]) -> None:
        for name in (theirs, ours):
            wait(f"{name} is led", lambda name=name: are_led(client, name, partitions))
            if not cluster.version.startswith("2.0"):
                wait(f"{name} has an id", lambda name=name: identity(client, name).topic_id is not None)

    tool.topics("create", theirs, "--replica-assignment", MANUAL, *configs(CONFIGS))
    create_topic(client, ours, first, CONFIGS, version=cluster.version, registered=cluster.brokers)
    settled(first)
    assert topic_tree(client, ours) == topic_tree(client, theirs)
    assert len(topic_tree(client, ours)) == 2 + 1 + 2 * len(first)

    tool.topics("alter", theirs, "--partitions", "4", "--replica-assignment", ALL)
    write_more_partitions(client, ours, more, expected=identity(client, ours), registered=cluster.brokers)
    settled(every)
    assert topic_tree(client, ours) == topic_tree(client, theirs)
    assert len(topic_tree(client, ours)) == 2 + 1 + 2 * len(every)

    tool.configure(theirs, CHANGES)
    set_topic_configs(client, ours, CHANGES, version=cluster.version, expected=identity(client, ours))
    assert topic_tree(client, ours) == topic_tree(client, theirs)
    newest = sorted(client.get_children("/config/changes"))[-2:]
    told = [json.loads(client.get(f"/config/changes/{name}")[0]) for name in newest]
    assert told == [{"version": 2, "entity_path": f"topics/{name}"} for name in (theirs, ours)]

    tool.topics("delete", theirs)
    delete_topic(client, ours, expected=identity(client, ours))
    left = [f"{root}/{name}" for root in TREES for name in (theirs, ours)]
    wait("both are gone", lambda: not any(client.exists(path) for path in left))


def test_replicas_that_kafka_chose_are_some_that_we_could_have_chosen(
    cluster: LocalCluster, classes: KafkaClasses, client: Any, fresh_topic_name: Callable[[], str]
) -> None:
    theirs, ours = f"{fresh_topic_name()}-theirs", f"{fresh_topic_name()}-ours"
    tool = Tool(classes, cluster.zookeeper if not cluster.version.startswith("3.") else cluster.bootstrap_servers)
    racks = assignment.brokers_with_racks(read_cluster_view(client, []).racks, "enforced")
    brokers = sorted(cluster.brokers)
    shape = (brokers, 9, 3)
    tool.topics("create", theirs, "--partitions", "9", "--replication-factor", "3")
    wait("it is there", lambda: bool(read_assignments(client, [theirs])))
    chosen = read_assignments(client, [theirs])[theirs].partitions
    starts = itertools.product(range(len(brokers)), repeat=2)
    possible = [assignment.assign_replicas(*shape, racks=racks, start_index=s, replica_shift=r) for s, r in starts]
    assert chosen in possible
    create_topic(client, ours, chosen, {}, version=cluster.version, registered=brokers)

    tool.topics("alter", theirs, "--partitions", "14")
    added = assignment.add_partitions(theirs, chosen, 14, brokers, racks=racks)
    write_more_partitions(client, ours, added, expected=identity(client, ours), registered=brokers)
    for name in (theirs, ours):
        wait(f"{name} is led", lambda name=name: are_led(client, name, {**chosen, **added}))
    assert topic_tree(client, ours) == topic_tree(client, theirs)


# --- without brokers: the same writes ---


@pytest.fixture
def twins(cluster: LocalCluster, client: Any, fresh_topic_name: Callable[[], str]) -> Iterator[tuple[str, str]]:
    """Two chroots of the real ZooKeeper whose brokers and controller are there in name only."""
    paths = [f"/{fresh_topic_name()}" for _ in range(2)]
    for path, (name, znode) in itertools.product(paths, fake_cluster({}).znodes.items()):
        client.create(path + name.rstrip("/"), znode.data, makepath=True)
    yield paths[0], paths[1]
    for path in paths:
        client.delete(path, recursive=True)


@pytest.mark.parametrize("cluster", ["2.0.1", "2.8.2"], indirect=True)
def test_we_write_what_the_tool_of_that_version_writes(
    cluster: LocalCluster, classes: KafkaClasses, client: Any, twins: tuple[str, str]
) -> None:
    """No controller adds to it: the tool of 2.8 leaves the topic id to the controller, and so do we."""
    theirs, ours = twins
    tool = Tool(classes, cluster.zookeeper + theirs)
    first, every = parse_replica_assignment(MANUAL), parse_replica_assignment(ALL)
    more = {partition: replicas for partition, replicas in every.items() if partition not in first}

    def check_same() -> Tree:
        trees = [{path.removeprefix(root): found for path, found in tree(client, root).items()} for root in twins]
        assert trees[0] == trees[1]
        return trees[0]

    with open_client(ZooKeeperConnection(cluster.zookeeper + ours)) as below:
        tool.topics("create", "T", "--replica-assignment", MANUAL, *configs(CONFIGS))
        create_topic(below, "T", first, CONFIGS, version=cluster.version, registered=range(1, 5))
        written = check_same()["/brokers/topics/T"][0]
        assert written["version"] == (1 if cluster.version.startswith("2.0") else 3)
        assert "topic_id" not in written
        expected = identity_below(below)

        tool.topics("alter", "T", "--partitions", "4", "--replica-assignment", ALL)
        write_more_partitions(below, "T", more, expected=expected, registered=range(1, 5))
        assert len(check_same()["/brokers/topics/T"][0]["partitions"]) == len(every)

        tool.configure("T", CHANGES)
        set_topic_configs(below, "T", CHANGES, version=cluster.version, expected=expected)
        found = check_same()
        assert found["/config/topics/T"][0]["config"] == CONFIGS | CHANGES
        assert found["/config/changes/config_change_0000000000"][0]["entity_path"] == "topics/T"

        tool.topics("create", "plain", "--replica-assignment", MANUAL)
        create_topic(below, "plain", first, {}, version=cluster.version, registered=range(1, 5))
        assert check_same()["/config/topics/plain"][0] == {"version": 1, "config": {}}

        tool.topics("delete", "T")
        delete_topic(below, "T", expected=expected)
        assert "/admin/delete_topics/T" in check_same()


def identity_below(client: Any) -> TopicIdentity:
    """Of a topic that no controller has given states."""
    stat = client.exists("/brokers/topics/T")
    return TopicIdentity(stat.version, stat.czxid)
