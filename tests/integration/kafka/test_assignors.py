"""Range and round robin, held against the clients' own assignors with seeded random groups."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_rebalance.kafka.assignors import range_assignment, round_robin_assignment
from support.kafka.java.kafka_classes import KafkaClasses

CASES = 1000  # for each version
# Names whose order differs by number, by case, by length and between code points and UTF-16 units.
NAMES = ["C1", "C10", "C2", "c1", "C", "", "é", "\ufffd", "\U0001f600", "\U0001f600a", "C-1", "C1-0b6f", "Z", "_"]
TOPICS = [*(f"t{number}" for number in range(12)), "T", "t.1", "t_1", "topic", "\ufffd", "\U0001f600"]

Group = tuple[dict[str, Sequence[str]], dict[str, int]]


def random_groups(seed: int) -> list[Group]:
    rng = random.Random(seed)
    subscribed = [tuple(rng.sample(TOPICS, rng.randrange(7))) for _ in range(100)]
    groups: list[Group] = []
    for _ in range(CASES):
        members = rng.sample(NAMES, rng.randrange(1, 9))
        known = rng.sample(TOPICS, rng.randrange(len(TOPICS) + 1))
        partitions = {topic: rng.choice((1, 2, 3, rng.randrange(1, 30))) for topic in known}
        shared = rng.choice((None, rng.choice(subscribed)))  # in half of the groups everyone reads the same
        groups.append(({member: shared or rng.choice(subscribed) for member in members}, partitions))
    return groups


class Assignor:
    """One of Kafka's assignors, with the subscriptions it has been given before."""

    def __init__(self, classes: KafkaClasses, name: str) -> None:
        consumer = classes.jvm.org.apache.kafka.clients.consumer
        self._classes = classes
        self._assignor = getattr(consumer, name)()
        # An interface of its own since 2.4.
        interface = "internals.PartitionAssignor" if classes.version == "2.0.1" else "ConsumerPartitionAssignor"
        self._subscription = classes.class_of(f"org.apache.kafka.clients.consumer.{interface}$Subscription")
        self._made: dict[tuple[str, ...], Any] = {}

    def assign(self, subscriptions: dict[str, Sequence[str]], partitions: dict[str, int]) -> dict[str, list[Any]]:
        java_map = self._classes.jvm.java.util.LinkedHashMap()
        for member, topics in subscriptions.items():
            key = tuple(topics)
            if key not in self._made:
                self._made[key] = self._subscription(self._classes.java(list(key)))
            java_map.put(member, self._made[key])
        assigned = self._assignor.assign(self._classes.java(partitions), java_map)
        # {C1=[t-0, t-1], C2=[]}
        entries = (entry.partition("=[") for entry in assigned.toString()[1:-2].split("], "))
        return {member: [split(name) for name in held.split(", ") if name] for member, _, held in entries}


def split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def test_round_robin_agrees_on_thousands_of_groups(kafka_classes: KafkaClasses) -> None:
    theirs = Assignor(kafka_classes, "RoundRobinAssignor")
    for subscriptions, partitions in random_groups(1):
        assert round_robin_assignment(subscriptions, partitions) == theirs.assign(subscriptions, partitions)


def test_range_agrees_on_thousands_of_groups(kafka_classes: KafkaClasses) -> None:
    """Kafka leaves the order of a member's topics to a hash map."""
    theirs = Assignor(kafka_classes, "RangeAssignor")
    for subscriptions, partitions in random_groups(2):
        if kafka_classes.version == "3.9.2":
            # Here it takes only topics that somebody subscribes, as its callers give it.
            wanted = {topic for topics in subscriptions.values() for topic in topics}
            partitions = {topic: count for topic, count in partitions.items() if topic in wanted}  # noqa: PLW2901
        ours = range_assignment(subscriptions, partitions)
        expected = theirs.assign(subscriptions, partitions)
        assert ours == {member: sorted(held, key=by_topic) for member, held in expected.items()}


def by_topic(held: tuple[str, int]) -> bytes:
    return held[0].encode("utf-16-be")


@pytest.mark.parametrize("name", ["RangeAssignor", "RoundRobinAssignor"])
def test_a_group_of_one_gets_everything_from_both(kafka_classes: KafkaClasses, name: str) -> None:
    expected = Assignor(kafka_classes, name).assign({"C1": ("a", "b")}, {"a": 2, "b": 1})
    assert {member: sorted(held) for member, held in expected.items()} == {"C1": [("a", 0), ("a", 1), ("b", 0)]}
    for ours in (range_assignment, round_robin_assignment):
        assert ours({"C1": ("a", "b")}, {"a": 2, "b": 1}) == {"C1": [("a", 0), ("a", 1), ("b", 0)]}
