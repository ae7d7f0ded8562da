"""murmur2 and the choice of a partition, held against the clients' own classes with seeded random keys."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kafka_rebalance.kafka.partitioner import murmur2, partition_for_key
from support.kafka.java.default_partitioner import DefaultPartitioner
from support.kafka.java.kafka_classes import KafkaClasses

PARTITIONER = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"


def random_keys(seed: int, count: int) -> list[bytes]:
    """Of every length up to 40, and some long ones; half of them with the high bytes that signed shifts go wrong on."""
    rng = random.Random(seed)
    lengths = [index % 41 if index % 50 else rng.randrange(3000) for index in range(count)]
    return [
        bytes(rng.choice((rng.randrange(256), rng.randrange(128, 256))) for _ in range(length)) for length in lengths
    ]


def test_murmur2_agrees_on_thousands_of_keys(kafka_classes: KafkaClasses) -> None:
    java = kafka_classes.jvm.org.apache.kafka.common.utils.Utils.murmur2
    for key in random_keys(1, 5000):
        assert murmur2(key) == java(key), key.hex()


def make_cluster(classes: KafkaClasses, topic: str, order: list[int], available: set[int]) -> Any:
    """Metadata of a topic whose partitions come in that order, only some of them with a leader."""
    common = classes.jvm.org.apache.kafka.common
    node = common.Node(1, "localhost", 9092)
    nodes = classes.gateway.new_array(common.Node, 0)
    partitions = classes.jvm.java.util.ArrayList()
    for partition in order:
        partitions.add(common.PartitionInfo(topic, partition, node if partition in available else None, nodes, nodes))
    no_topics = classes.jvm.java.util.HashSet()
    live = classes.jvm.java.util.ArrayList()
    live.add(node)
    return common.Cluster("cluster", live, partitions, no_topics, no_topics)


def make_counters(classes: KafkaClasses, starts: dict[str, int]) -> Any:
    """A ConcurrentMap to AtomicIntegers; made in Java, for py4j takes these for plain integers."""
    mapper = classes.jvm.com.fasterxml.jackson.databind.ObjectMapper()
    concurrent = "java.util.concurrent."
    names = (f"{concurrent}ConcurrentHashMap", "java.lang.String", f"{concurrent}atomic.AtomicInteger")
    kinds = [classes.jvm.java.lang.Class.forName(name) for name in names]
    return mapper.readValue(json.dumps(starts), mapper.getTypeFactory().constructMapType(*kinds))


def test_keyed_records_go_to_the_same_partition_in_every_version(kafka_classes: KafkaClasses) -> None:
    rng = random.Random(2)
    partitioner = kafka_classes.class_of(PARTITIONER)()
    for number in range(30):
        order = list(range(rng.randrange(1, 60)))
        rng.shuffle(order)
        cluster = make_cluster(kafka_classes, "t", order, set(rng.sample(order, rng.randrange(len(order) + 1))))
        for key in [b"", *random_keys(number, 80)]:
            expected = partitioner.partition("t", None, key, None, None, cluster)
            assert partition_for_key(key, len(order)) == expected


def test_records_without_key_take_the_same_turns(kafka_classes: KafkaClasses) -> None:
    """Up to 2.3; a counter at every edge of 32 bits and some between."""
    if kafka_classes.version != "2.0.1":
        pytest.skip("records without key are partitioned by batch since 2.4")
    rng = random.Random(3)
    edges = [0, -1, 2**31 - 3, -(2**31), -(2**31) + 1, *(rng.randrange(-(2**31), 2**31) for _ in range(35))]
    for number, start in enumerate(edges):
        topic, order = f"t{number}", list(range(rng.randrange(1, 20)))
        rng.shuffle(order)
        leaders = set(rng.sample(order, rng.randrange(len(order) + 1)))
        cluster = make_cluster(kafka_classes, topic, order, leaders)
        theirs = kafka_classes.class_of(PARTITIONER)()
        kafka_classes.set_field(theirs, "topicCounterMap", make_counters(kafka_classes, {topic: start}))
        ours = DefaultPartitioner(start)
        available = [partition for partition in order if partition in leaders]
        for record in range(50):
            key = None if record % 7 else b"key"
            expected = theirs.partition(topic, None, key, None, None, cluster)
            assert ours.partition(key, len(order), available) == expected, (start, order, leaders, record)
