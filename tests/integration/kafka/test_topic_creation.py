"""Creation, expansion and deletion of topics, held against kafka-topics' own code on a ZooKeeper without brokers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kafka_rebalance.kafka.topics import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTION_TOPIC,
    check_deletable,
    check_more_partitions,
    check_new_topic,
)
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.refusals import refusal

EXISTING = ("orders", "a.b", "x_y", "_", "pay-ments", *sorted(INTERNAL_TOPICS))


class KafkaOnZooKeeper:
    """AdminZkClient of a version, on a ZooKeeper that holds the topics of EXISTING and nothing else."""

    def __init__(self, classes: KafkaClasses, stack: ExitStack) -> None:
        self.classes = classes
        self._properties = classes.class_of("java.util.Properties")
        self.zk_client = self._connect(self._start_zookeeper(stack))
        stack.callback(self.zk_client.close)
        self.zk_client.createTopLevelPaths()
        for topic in EXISTING:
            self.zk_client.makeSurePersistentPathExists(f"/brokers/topics/{topic}")
        self._admin = self._admin_client()

    def _start_zookeeper(self, stack: ExitStack) -> int:
        """Its port on this machine."""
        jvm = self.classes.jvm
        folder = jvm.java.io.File(str(self.classes.folder / "zookeeper"))
        server = jvm.org.apache.zookeeper.server.ZooKeeperServer(folder, folder, 2000)
        factory = jvm.org.apache.zookeeper.server.NIOServerCnxnFactory()
        factory.configure(jvm.java.net.InetSocketAddress("127.0.0.1", 0), 10)
        factory.startup(server)
        stack.callback(factory.shutdown)
        return int(factory.getLocalPort())

    def _connect(self, port: int) -> Any:
        time = self.classes.class_of("org.apache.kafka.common.utils.Time").SYSTEM
        common = (f"127.0.0.1:{port}", False, 30_000, 30_000, 10, time)
        client = self.classes.companion("kafka.zk.KafkaZkClient")
        match self.classes.version:
            case "2.0.1":
                return client.apply(*common, "test", "test")
            case "2.8.2":
                nothing = self.classes.option(None)
                return client.apply(*common, "test", "test", nothing, nothing)
        config = self.classes.class_of("org.apache.zookeeper.client.ZKClientConfig")()
        return client.apply(*common, "test", config, "test", "test", False, False)

    def _admin_client(self) -> Any:
        admin = self.classes.class_of("kafka.zk.AdminZkClient")
        return admin(self.zk_client, self.classes.option(None)) if self.is_3 else admin(self.zk_client)

    @property
    def is_3(self) -> bool:
        return self.classes.version == "3.9.2"

    def check_new_topic(self, name: str, assignment: dict[int, list[int]], configs: dict[str, str]) -> None:
        properties = self._properties()
        for key, value in configs.items():
            properties.setProperty(key, value)
        lists = self.classes.map(assignment)
        if self.classes.version == "2.0.1":
            self._admin.validateCreateOrUpdateTopic(name, lists, properties, False)
        else:
            self._admin.validateTopicCreate(name, lists, properties)

    def tool(self, action: str, *arguments: str) -> None:
        """`kafka-topics --ACTION`, in this JVM."""
        name = "kafka.admin.TopicCommand"
        given = ["--zookeeper", "z", f"--{action}", *arguments]
        array = self.classes.gateway.new_array(self.classes.jvm.java.lang.String, len(given))
        for index, argument in enumerate(given):
            array[index] = argument
        options = self.classes.class_of(f"{name}$TopicCommandOptions")(array)
        if self.classes.version == "2.0.1":
            getattr(self.classes.companion(name), f"{action}Topic")(self.zk_client, options)
        else:
            getattr(self.classes.class_of(f"{name}$ZookeeperTopicService")(self.zk_client), f"{action}Topic")(options)


@pytest.fixture(scope="module")
def kafka(kafka_classes: KafkaClasses) -> Iterator[KafkaOnZooKeeper]:
    with ExitStack() as stack:
        yield KafkaOnZooKeeper(kafka_classes, stack)


def test_new_topics_are_refused_for_the_same_reason_as_kafka_refuses_them(kafka: KafkaOnZooKeeper) -> None:
    """Where several things are wrong, the one that Kafka names first."""
    draw = random.Random(40)
    version = kafka.classes.version
    names = [*EXISTING, "new", "a_b", "x.y", ".", "..", "", "a b", "-", "A" * 250]
    configs = [{}, {}, {"flush.ms": "7"}, {"flush.ms": "x"}, {"flush": "7"}, {"retention.ms": "-2"}]
    seen = set()
    for _ in range(400):
        name = draw.choice([*names, "new", "new", "new"])
        partitions = draw.randint(0, 3)
        assignment = {at: _replicas(draw) for at in range(partitions)}
        if assignment and draw.random() < 0.2:
            assignment[draw.choice([5, 7])] = assignment.pop(draw.choice(list(assignment)))
        chosen = draw.choice(configs)
        ours = refusal(check_new_topic, name, assignment, chosen, existing=EXISTING, version=version)
        kafkas = refusal(kafka.check_new_topic, name, assignment, chosen)
        seen.add((ours or "taken").split(":")[0].split("'")[0])
        assert _comparable(ours, version) == _comparable(kafkas, version) or (
            # from 2.3 on Kafka refuses gaps; here they always are, in its words
            version == "2.0.1" and "consecutive" in str(ours) and kafkas in (None, refusal_of_configs(chosen))
        ), (name, assignment, chosen)
    assert len(seen) > 9, seen


def refusal_of_configs(configs: dict[str, str]) -> str | None:
    return refusal(check_new_topic, "new", {0: [1]}, configs, existing=())


def _replicas(draw: random.Random) -> list[int]:
    if draw.random() < 0.1:
        return draw.choices([1, 2], k=2)
    return draw.sample(range(9), draw.choice([2, 2, 2, 2, 1]))


def _comparable(refused: str | None, version: str) -> str | None:
    """3.9 says otherwise what is wrong with a name; 2.8 and 3.9 list a map of their own."""
    if refused is None:
        return None
    if refused.startswith("Topic name"):
        return "Topic name" if version == "3.9.2" else refused
    return refused.split("found: ")[0] if "Duplicate replica assignment" in refused else refused


def test_internal_topics_are_refused_with_the_tools_texts(kafka: KafkaOnZooKeeper) -> None:
    if kafka.is_3:
        pytest.skip("kafka-topics of 3.x does not speak with ZooKeeper")
    for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):  # those that these versions have
        assert refusal(check_deletable, topic) == refusal(kafka.tool, "delete", "--topic", topic)
    # 2.0 forgets the second one, for which 2.8 has a text.
    topic = {"2.0.1": "__consumer_offsets", "2.8.2": "__transaction_state"}[kafka.classes.version]
    ours = refusal(check_more_partitions, topic, {0: [1]}, 99)
    assert ours == refusal(kafka.tool, "alter", "--topic", topic, "--partitions", "99")
