"""The JVM that the tests of Kafka's algorithms are held against."""

from __future__ import annotations

import pytest

from support.kafka.java.kafka_classes import JavaError, KafkaClasses

TWO_DOTS = {
    "2.0.1": 'Topic name cannot be "." or ".."',
    "2.8.2": 'Topic name cannot be "." or ".."',
    "3.9.2": "Topic name is invalid: '..' is not allowed",
}
TOOLS = {"3.9.2": "org.apache.kafka.tools.TopicCommand"}


def test_scala_objects_private_methods_and_collections_are_reached(kafka_classes: KafkaClasses) -> None:
    scala_list = kafka_classes.seq([3, 1, 2])
    assert kafka_classes.values_of(scala_list) == [3, 1, 2]
    assert kafka_classes.replica_lists(kafka_classes.map({"a-0": [1, 2], "b-1": []})) == {"a-0": (1, 2), "b-1": ()}
    assert kafka_classes.python(kafka_classes.java({"a": [1, "x", None]})) == {"a": [1, "x", None]}
    assert kafka_classes.option(None).isEmpty()
    assert kafka_classes.option(7).get() == 7
    assert kafka_classes.set(["a", "a"]).size() == 1
    partition = kafka_classes.topic_partition("orders", 3)
    assert kafka_classes.call(partition, "partition") == 3


def test_what_kafka_throws_comes_with_its_class_and_its_own_text(kafka_classes: KafkaClasses) -> None:
    with pytest.raises(JavaError) as thrown:
        kafka_classes.call("org.apache.kafka.common.internals.Topic", "validate", "..")
    assert thrown.value.java_class == "org.apache.kafka.common.errors.InvalidTopicException"
    assert thrown.value.message == TWO_DOTS[kafka_classes.version]


def test_a_tool_ends_with_its_own_exit_code_and_output(kafka_classes: KafkaClasses) -> None:
    main_class = TOOLS.get(kafka_classes.version, "kafka.admin.TopicCommand")
    code, said, complained = kafka_classes.run_tool(main_class, [])
    assert code == 1
    assert "Create, delete, describe, or change a topic" in said + complained
