"""--generate, --execute's checks and --verify, held against kafka-reassign-partitions on a real ZooKeeper.

The tool speaks to ZooKeeper up to 2.8; no broker runs: what it reads is written by the test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.reassignment_json import (
    check_executable,
    format_reassignment,
    generate,
    parse_reassignment,
)
from kafka_rebalance.local_cluster.machine.ports import free_port
from kafka_rebalance.zookeeper.znodes import decode_reassignment, encode_reassignment
from support.kafka.java.java_random import JavaRandom
from support.kafka.java.kafka_classes import JavaError, KafkaClasses

with_zookeeper = pytest.mark.parametrize("kafka_classes", ["2.0.1", "2.8.2"], indirect=True)
TOOL = "kafka.admin.ReassignPartitionsCommand"

Lists = dict[Any, tuple[int, ...]]


class Cluster:
    """A ZooKeeper in Kafka's JVM, with brokers and topics that are znodes only."""

    def __init__(self, classes: KafkaClasses, folder: Path) -> None:
        self.classes, jvm = classes, classes.jvm
        self.address = f"127.0.0.1:{free_port()}"
        jvm.java.lang.System.setProperty("zookeeper.forceSync", "no")  # no znode of these outlives this machine
        file = jvm.java.io.File(str(folder))
        self._factory = jvm.org.apache.zookeeper.server.NIOServerCnxnFactory()
        self._factory.configure(jvm.java.net.InetSocketAddress("127.0.0.1", int(self.address.split(":")[1])), 0)
        self._factory.startup(jvm.org.apache.zookeeper.server.ZooKeeperServer(file, file, 1000))
        self.client = KazooClient(self.address, timeout=10)
        self.client.start(timeout=30)
        more = () if classes.version == "2.0.1" else (classes.option(None), classes.option(None))
        self.kafka = classes.companion("kafka.zk.KafkaZkClient").apply(
            self.address, False, 10000, 10000, 2**31 - 1, jvm.org.apache.kafka.common.utils.Time.SYSTEM,
            "kafka.server", "SessionExpireListener", *more,
        )  # fmt: skip

    def close(self) -> None:
        self.kafka.close()
        self.client.stop()
        self.client.close()
        self._factory.shutdown()

    def write(self, racks: Mapping[int, str | None], lists: Mapping[tuple[str, int], Sequence[int]]) -> None:
        for path in ("/brokers", "/admin"):
            self.client.delete(path, recursive=True) if self.client.exists(path) else None
        for broker, rack in racks.items():
            registration = {
                "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
                "endpoints": [f"PLAINTEXT://127.0.0.1:{9000 + broker}"],
                "rack": rack, "jmx_port": -1, "host": "127.0.0.1", "timestamp": "1", "port": 9000 + broker,
                "version": 4,
            }  # fmt: skip
            self._create(f"/brokers/ids/{broker}", registration)
        self.client.ensure_path("/brokers/ids")
        topics: dict[str, dict[str, list[int]]] = {}
        for (topic, partition), replicas in lists.items():
            topics.setdefault(topic, {})[str(partition)] = list(replicas)
        for topic, partitions in topics.items():
            self._create(f"/brokers/topics/{topic}", {"version": 1, "partitions": partitions})
        self.client.ensure_path("/brokers/topics")

    def _create(self, path: str, value: object) -> None:
        self.client.create(path, json.dumps(value).encode(), makepath=True)

    def generate(self, topics: Sequence[str], brokers: Sequence[int]) -> dict[str, tuple[int, ...]]:
        command = self.classes.companion(TOOL)
        text = json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]})
        if self.classes.version == "2.0.1":
            arguments = (self.classes.seq(brokers), text, False)
        else:
            arguments = (text, ",".join(map(str, brokers)), True)
        return self.classes.replica_lists(self.classes.call(command, "generateAssignment", self.kafka, *arguments)._1())

    def check(self, assignment: Lists) -> None:
        command = self.classes.companion(TOOL)
        if self.classes.version == "2.0.1":
            self.classes.call(command, "parseAndValidate", self.kafka, format_reassignment(assignment))
            return
        proposed = {self.classes.topic_partition(*key): list(replicas) for key, replicas in assignment.items()}
        self.classes.call(command, "verifyReplicasAndBrokersInAssignment", self.kafka, self.classes.map(proposed))

    def run(self, *arguments: str) -> str:
        code, said, complained = self.classes.run_tool(TOOL, ["--zookeeper", self.address, *arguments])
        assert code in (0, 1), complained
        return said


@pytest.fixture
def cluster_of_znodes(kafka_classes: KafkaClasses, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(kafka_classes, tmp_path)
    yield cluster
    cluster.close()


def random_cluster(rng: random.Random) -> tuple[dict[int, str | None], Lists]:
    brokers = rng.sample(range(30), rng.randrange(1, 9))
    kind = rng.choice(("none", "all", "all", "some"))
    racks: dict[int, str | None] = dict.fromkeys(brokers)
    for broker in brokers:
        if kind == "all" or (kind == "some" and rng.random() < 0.5):
            racks[broker] = rng.choice(("a", "b", "rack10", "rack2"))
    factor = rng.randrange(1, len(brokers) + 1)
    lists = {("t", p): tuple(rng.sample(brokers, factor)) for p in range(rng.randrange(1, 20))}
    lists |= {("u", p): tuple(rng.sample(brokers, 1)) for p in range(rng.randrange(3))}
    return racks, lists


def outcome(call: Any) -> tuple[Any, str | None]:
    try:
        return call(), None
    except JavaError as error:
        return None, str(error.message)
    except KafkaRuleError as error:
        return None, error.kafka_message


@with_zookeeper
def test_generate_proposes_what_the_tool_proposes_from_the_same_random_numbers(cluster_of_znodes: Cluster) -> None:
    rng = random.Random(1)
    java = cluster_of_znodes.classes.companion("kafka.admin.AdminUtils").rand()
    refusals = 0
    for seed in range(150):
        racks, lists = random_cluster(rng)
        cluster_of_znodes.write(racks, lists)
        listed = rng.sample([*racks, 50, 51], rng.randrange(1, len(racks) + 3))
        if rng.random() < 0.05 and cluster_of_znodes.classes.version != "2.0.1":
            listed.append(listed[0])  # which 2.0 checks before this method
        topics = ["t", *rng.choice(([], ["nowhere"], ["t"]))] if rng.random() < 0.3 else ["t"]
        java.setSeed(seed)
        expected, message = outcome(lambda: cluster_of_znodes.generate(topics, listed))  # noqa: B023
        ours, refused = outcome(lambda: generate(topics, lists, listed, racks, JavaRandom(seed)))  # noqa: B023
        assert refused == message, (racks, listed, topics)
        assert (ours and {str(key): replicas for key, replicas in ours.items()}) == expected, (racks, lists, listed)
        refusals += refused is not None
    assert 15 < refusals < 120


@with_zookeeper
def test_execute_checks_partitions_then_brokers_as_the_tool_does(cluster_of_znodes: Cluster) -> None:
    rng = random.Random(2)
    known = {"partitions": 0, "brokerIDs": 0, "": 0}
    for _ in range(15):
        racks, lists = random_cluster(rng)
        cluster_of_znodes.write(racks, lists)
        for _ in range(12):
            keys = rng.sample([*lists, ("t", 99), ("nowhere", 0)], 1) + rng.sample(
                list(lists), rng.randrange(len(lists))
            )
            brokers = [*racks, *rng.choice(([], [], [77, 78]))]
            assignment = {key: tuple(rng.sample(brokers, rng.randrange(1, len(brokers) + 1))) for key in keys[:3]}
            _, message = outcome(lambda: cluster_of_znodes.check(assignment))  # noqa: B023
            _, refused = outcome(lambda: check_executable(assignment, lists, racks))  # noqa: B023
            if message is not None and cluster_of_znodes.classes.version != "2.0.1":
                # Another collection, whose order is a hash map's.
                message = message.replace("partitions: Set(", "partitions: ListBuffer(")
                message = message.replace("partitions: List(", "partitions: ListBuffer(")
            assert (refused is None) == (message is None), (racks, lists, assignment)
            if refused is not None and message is not None:
                assert words(refused) == words(message)
            known[next((kind for kind in known if kind and kind in str(refused)), "")] += 1
    assert min(known.values()) >= 10, known


def words(message: str) -> list[str]:
    """Without the order of what is listed: from five on it is a hash map's."""
    return sorted(message.replace("(", ", ").replace(")", "").replace(": ", ", ").replace(",", ", ").split(", "))


EXAMPLE: Lists = {("foo1", 2): (1, 2), ("foo1", 0): (3, 4), ("foo2", 0): (2, 3), ("foo1", 1): (2, 3)}


def generate_with_tool(cluster: Cluster, folder: Path) -> tuple[str, str]:
    """The two lines of JSON that --generate prints for the example on brokers 5 and 6: current, proposed."""
    cluster.write(dict.fromkeys(range(1, 7)), EXAMPLE)
    cluster.client.ensure_path("/admin")
    topics = folder / "topics.json"
    topics.write_text('{"topics":[{"topic":"foo1"},{"topic":"foo2"}],"version":1}', encoding="utf-8")
    said = cluster.run("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "5,6").splitlines()
    current = said.index("Current partition replica assignment")
    proposed = said.index("Proposed partition reassignment configuration")
    return said[current + 1], said[proposed + 1]


def execute_with_tool(cluster: Cluster, folder: Path) -> tuple[str, str]:
    """(the plan, what --execute prints) for the tool's own proposal, saved to a file."""
    _, proposed = generate_with_tool(cluster, folder)
    plan = folder / "plan.json"
    plan.write_text(proposed, encoding="utf-8")
    return proposed, cluster.run("--execute", "--reassignment-json-file", str(plan))


@with_zookeeper
def test_both_lines_that_generate_prints_are_plans_to_us(cluster_of_znodes: Cluster, tmp_path: Path) -> None:
    current, proposed = map(parse_reassignment, generate_with_tool(cluster_of_znodes, tmp_path))
    assert current == EXAMPLE
    assert proposed.keys() == EXAMPLE.keys()
    assert {frozenset(replicas) for replicas in proposed.values()} == {frozenset({5, 6})}


@with_zookeeper
def test_reassignment_saved_plan_is_executed(cluster_of_znodes: Cluster, tmp_path: Path) -> None:
    """Seed 001, row 7: plan saved to a file and passed to --execute; ours is taken as well as the tool's own."""
    plan, said = execute_with_tool(cluster_of_znodes, tmp_path)
    assert "Successfully started " in said
    cluster_of_znodes.client.delete("/admin/reassign_partitions")
    (tmp_path / "plan.json").write_text(
        format_reassignment(parse_reassignment(plan), with_log_dirs=False), encoding="utf-8"
    )
    said = cluster_of_znodes.run("--execute", "--reassignment-json-file", str(tmp_path / "plan.json"))
    assert "Successfully started " in said


@with_zookeeper
def test_what_execute_writes_is_read_and_would_be_written_the_same_by_us(
    cluster_of_znodes: Cluster, tmp_path: Path
) -> None:
    plan, _ = execute_with_tool(cluster_of_znodes, tmp_path)
    written = cluster_of_znodes.client.get("/admin/reassign_partitions")[0]
    assert decode_reassignment(written) == parse_reassignment(plan)
    ours, theirs = (json.loads(data) for data in (encode_reassignment(parse_reassignment(plan)), written))
    for document in (ours, theirs):
        document["partitions"].sort(key=lambda entry: (entry["topic"], entry["partition"]))
    assert ours == theirs
