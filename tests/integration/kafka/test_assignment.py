"""Replica assignment, held against Kafka's own classes of each version with thousands of seeded inputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.assignment import add_partitions, assign_replicas, rack_alternated
from kafka_rebalance.kafka.topics import check_added_replicas
from support.kafka.java.kafka_classes import KafkaClasses

RACKS = ("a", "b", "B", "rack10", "rack2", "é", "")
Assignment = dict[int, tuple[int, ...]]


class KafkaAssignment:
    """Kafka's assignment of a version: Scala up to 2.8, and Java, in another package, in 3.9."""

    def __init__(self, classes: KafkaClasses) -> None:
        self.classes = classes
        self.is_java = classes.version == "3.9.2"
        self.package = classes.class_of("org.apache.kafka.admin" if self.is_java else "kafka.admin")
        self.utils = self.package.AdminUtils if self.is_java else classes.companion("kafka.admin.AdminUtils")
        self._client = self._admin_client()
        self._replica_assignment = classes.class_of("kafka.controller.ReplicaAssignment")
        self._metadata: dict[tuple[int, str | None], Any] = {}

    def _admin_client(self) -> Any:
        client = self.classes.class_of("kafka.zk.AdminZkClient")
        return client(None, self.classes.option(None)) if self.is_java else client(None)

    def brokers(self, ids: Sequence[int], racks: Mapping[int, str | None] | None) -> Any:
        """A list of BrokerMetadata, Scala's or Java's."""
        listed = [self._broker(broker, (racks or {}).get(broker)) for broker in ids]
        if not self.is_java:
            return self.classes.seq(listed)
        collected = self.classes.jvm.java.util.ArrayList()
        for broker in listed:
            collected.add(broker)
        return collected

    def _broker(self, broker: int, rack: str | None) -> Any:
        if (broker, rack) not in self._metadata:
            optional = self.classes.jvm.java.util.Optional.ofNullable if self.is_java else self.classes.option
            self._metadata[broker, rack] = self.package.BrokerMetadata(broker, optional(rack))
        return self._metadata[broker, rack]

    def assign(self, brokers: Any, partitions: int, factor: int, start: int, first: int) -> Assignment:
        assigned = self.utils.assignReplicasToBrokers(brokers, partitions, factor, start, first)
        if not self.is_java:
            return self.read(assigned)
        return {int(partition): tuple(held) for partition, held in self.classes.python(assigned).items()}

    def read(self, scala_map: Any) -> Assignment:
        return {int(partition): held for partition, held in self.classes.replica_lists(scala_map).items()}

    def add(
        self, topic: str, existing: Assignment, total: int, ids: Sequence[int], racks: Any, added: Assignment | None
    ) -> Assignment:
        """The new partitions of AdminZkClient.addPartitions, with validateOnly: it touches no ZooKeeper then."""
        classes = self.classes
        given = classes.option(None if added is None else classes.map(added))
        # A Scala list everywhere, in 3.9 of Java's BrokerMetadata.
        metadata = classes.seq([self._broker(broker, (racks or {}).get(broker)) for broker in sorted(ids)])
        held: Mapping[int, Any] = existing
        if classes.version != "2.0.1":
            nothing = classes.seq([])
            held = {p: self._replica_assignment(classes.seq(r), nothing, nothing) for p, r in existing.items()}
        after = self.read(self._client.addPartitions(topic, classes.map(held), metadata, total, given, True))
        return {partition: after[partition] for partition in sorted(after) if partition not in existing}


@pytest.fixture(scope="module")
def kafka(kafka_classes: KafkaClasses) -> KafkaAssignment:
    return KafkaAssignment(kafka_classes)


def outcome(call: Callable[..., Assignment], *arguments: Any, **options: Any) -> tuple[str, Any]:
    """What came of the call: ("assigned", …) or ("refused", Kafka's text)."""
    try:
        return "assigned", call(*arguments, **options)
    except KafkaRuleError as refused:
        return "refused", refused.kafka_message
    except Py4JJavaError as thrown:
        return "refused", thrown.java_exception.getMessage()


def random_cluster(draw: random.Random) -> tuple[list[int], dict[int, str | None] | None]:
    """Up to 9 brokers in any order; without racks, with some, with few (one, unequal) or with many."""
    ids = draw.sample(range(40), draw.randint(1, 9))
    kind = draw.choice(["none", "all", "all", "all", "some"])
    if kind == "none":
        return ids, None
    names = draw.sample(RACKS, draw.randint(1, len(RACKS)))
    racks: dict[int, str | None] = {broker: draw.choice(names) for broker in ids}
    if kind == "some":
        racks[draw.choice(ids)] = None
    return ids, racks


def test_replicas_are_assigned_as_kafka_assigns_them(kafka: KafkaAssignment) -> None:
    draw = random.Random(20)
    kinds = {"assigned": 0, "refused": 0}
    for _ in range(250):
        ids, racks = random_cluster(draw)
        brokers = kafka.brokers(ids, racks)
        for _ in range(10):
            partitions = draw.choice([draw.randint(-1, 3), draw.randint(1, 40)])
            factor = draw.choice([draw.randint(-1, 10), draw.randint(1, len(ids))])
            start = draw.choice([draw.randrange(len(ids)), draw.randrange(100_000)])
            first = draw.choice([-1, 0, draw.randrange(50), len(ids) * draw.randrange(9)])
            ours = outcome(
                assign_replicas, ids, partitions, factor, racks=racks, start_index=start, start_partition_id=first
            )
            kafkas = outcome(kafka.assign, brokers, partitions, factor, start, first)
            assert ours == kafkas, f"{ids=} {racks=} {partitions=} {factor=} {start=} {first=}"
            kinds[ours[0]] += 1
    assert min(kinds.values()) > 300


def test_racks_alternate_as_kafka_alternates_them(kafka: KafkaAssignment) -> None:
    draw = random.Random(21)
    for _ in range(200):
        racks = {broker: draw.choice([*RACKS, "\uffff", "\U0001f600"]) for broker in draw.sample(range(99), 9)}
        if kafka.is_java:
            java_map = kafka.classes.jvm.java.util.HashMap()
            for broker, rack in racks.items():
                java_map.put(broker, rack)
            alternated = kafka.utils.getRackAlternatedBrokerList(java_map)
        else:
            alternated = kafka.classes.values_of(kafka.utils.getRackAlternatedBrokerList(kafka.classes.map(racks)))
        assert rack_alternated(racks) == tuple(alternated)


def test_random_starts_and_shifts_of_kafka_are_all_within_ours(kafka: KafkaAssignment) -> None:
    """Without a fixed start Kafka draws two numbers: its results are ours of all pairs, no more and no less."""
    racks = {0: "a", 1: "b", 2: "b", 3: "a"}
    for given in (None, racks):
        brokers = kafka.brokers(range(4), given)
        ours = {
            tuple(assign_replicas(range(4), 5, 3, racks=given, start_index=start, replica_shift=shift).values())
            for start in range(4)
            for shift in range(4)
        }
        kafkas = {tuple(held for _, held in sorted(kafka.assign(brokers, 5, 3, -1, -1).items())) for _ in range(400)}
        assert kafkas == ours


def test_partitions_are_added_as_kafka_adds_them(kafka: KafkaAssignment) -> None:
    draw = random.Random(22)
    kinds = {"assigned": 0, "refused": 0}
    for _ in range(300):
        ids, racks = random_cluster(draw)
        factor = draw.randint(1, len(ids) + (draw.random() < 0.1))
        before = draw.randint(1, 6)
        # brokers may have left or come since the topic was made
        existing = {partition: tuple(draw.sample(range(45), factor)) for partition in range(before)}
        if draw.random() < 0.1:
            existing[99] = existing.pop(0)
        total = draw.choice([before - 1, before, before + draw.randint(1, 20), before + draw.randint(1, 20)])
        ours = outcome(add_partitions, "t", existing, total, ids, racks=racks)
        kafkas = outcome(kafka.add, "t", existing, total, ids, racks, None)
        # how Scala prints a map differs by version
        ours, kafkas = (
            (kind, what.split("Assignment:")[0] if kind == "refused" else what) for kind, what in (ours, kafkas)
        )
        assert ours == kafkas, f"{ids=} {racks=} {existing=} {total=}"
        kinds[ours[0]] += 1
    assert min(kinds.values()) > 60


def test_replicas_added_by_hand_are_refused_as_kafka_refuses_them(kafka: KafkaAssignment) -> None:
    draw = random.Random(23)
    kinds = {"assigned": 0, "refused": 0}
    for _ in range(200):
        ids = draw.sample(range(6), 4)
        factor = draw.randint(1, 3)
        existing = {0: tuple(ids[:factor]), 1: tuple(ids[:factor])}
        added = {2 + at: _by_hand(draw, ids, factor) for at in range(draw.randint(1, 3))}
        ours = outcome(_checked, existing, added, ids)
        kafkas = outcome(kafka.add, "t", existing, 2 + len(added), ids, None, added)
        assert _available_sorted(ours) == _available_sorted(kafkas), f"{ids=} {existing=} {added=}"
        kinds[ours[0]] += 1
    assert min(kinds.values()) > 40


def _checked(existing: Assignment, added: Assignment, ids: list[int]) -> Assignment:
    check_added_replicas("t", existing, added, ids)
    return added


def _by_hand(draw: random.Random, ids: list[int], factor: int) -> tuple[int, ...]:
    match draw.randrange(8):
        case 0:
            return tuple(draw.choices(ids, k=factor))  # maybe twice the same
        case 1:
            return tuple(draw.sample(range(9), factor))  # maybe unknown
        case 2:
            return tuple(draw.sample(ids, draw.randint(0, 4)))  # maybe of another length
        case _:
            return tuple(draw.sample(ids, factor))


def _available_sorted(result: tuple[str, Any]) -> tuple[str, Any]:
    """Kafka lists the available brokers in the order of a hash set."""
    kind, what = result
    if kind == "refused" and "available brokers: " in what:
        start, _, brokers = what.rstrip(".").rpartition(": ")
        what = (start, sorted(brokers.split(", ")))
    return kind, what
