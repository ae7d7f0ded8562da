"""The rules of kafka-topics, held against Kafka's own classes of each version: names, configs, assignments by hand."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.given_json import trim
from kafka_rebalance.kafka.topic_configs import (
    check_topic_config,
    check_topic_configs,
    parse_config_arguments,
    topic_config_names,
)
from kafka_rebalance.kafka.topics import INTERNAL_TOPICS, check_actions, check_topic_name, parse_replica_assignment
from kafka_rebalance.local_cluster.jars.locked_jars import ROOTS
from support.kafka.java.kafka_classes import JavaError, KafkaClasses
from support.kafka.refusals import refusal

CHARACTERS = "aZ09._-,:=* \t\n\x00\x1f\x7f\u00a0äŻ٣０\u2003\ufeff😀"


# Names


@pytest.fixture(scope="module")
def topic_class(kafka_classes: KafkaClasses) -> Any:
    return kafka_classes.class_of("org.apache.kafka.common.internals.Topic")


def random_names(draw: random.Random) -> list[str]:
    fixed = ["", ".", "..", "...", "a" * 249, "a" * 250, "😀" * 124, "😀" * 125, "__consumer_offsets", "a\\nb", 'a"b']
    short = ["".join(draw.choices("ab._-", k=draw.randint(1, 4))) for _ in range(100)]
    hostile = ["".join(draw.choices(CHARACTERS, k=draw.randint(1, 5))) for _ in range(300)]
    return [*fixed, *short, *hostile, *("".join(draw.choices(CHARACTERS, k=n)) for n in range(240, 260))]


def test_names_are_taken_and_refused_as_kafka_does(kafka_classes: KafkaClasses, topic_class: Any) -> None:
    for name in random_names(random.Random(30)):
        ours, kafkas = refusal(check_topic_name, name), refusal(topic_class.validate, name)
        if kafka_classes.version == "3.9.2":  # refuses the same names, in other words
            ours, kafkas = ours and "refused", kafkas and "refused"
        assert ours == kafkas, repr(name)


def test_names_collide_where_kafka_says_so(topic_class: Any) -> None:
    draw = random.Random(31)
    names = ["".join(draw.choices("ab._", k=draw.randint(1, 3))) for _ in range(40)]
    for name in [name for name in names if name not in (".", "..")]:
        for other in names:
            collides = topic_class.hasCollision(name, other) and name != other
            refused = refusal(check_topic_name, name, existing=[other]) or ""
            assert ("collides with existing topics" in refused) == collides, (name, other)


def test_internal_topics_are_those_of_all_versions(classes_of: Callable[[str], KafkaClasses]) -> None:
    """What a later version adds has to be known before a broker of it answers."""
    known = {version: internal_names(classes_of(version)) for version in ROOTS}
    assert set().union(*known.values()) == INTERNAL_TOPICS, known


def internal_names(classes: KafkaClasses) -> set[str]:
    topic = "org.apache.kafka.common.internals.Topic"
    names = classes.jvm.java.lang.Class.forName(topic).getDeclaredField("INTERNAL_TOPICS")
    names.setAccessible(True)
    found = {str(name) for name in names.get(None)}
    assert all(classes.class_of(topic).isInternal(name) for name in found)
    return found


# Configs


class KafkaLogConfig:
    """The check of topic configs of a version."""

    def __init__(self, classes: KafkaClasses) -> None:
        self.classes = classes
        self.version = classes.version
        self._properties = classes.class_of("java.util.Properties")
        if self.version == "3.9.2":
            self.object = classes.class_of("org.apache.kafka.storage.internals.log.LogConfig")
            self.names = sorted(self.object.configNames())
            self._defaults = self.object.configDefCopy().defaultValues()
        else:
            self.object = classes.companion("kafka.log.LogConfig")
            self.names = sorted(classes.values_of(self.object.configNames()))
        if self.version == "2.0.1":
            self._versions = classes.companion("kafka.api.ApiVersion")

    def check(self, configs: dict[str, str]) -> None:
        """As the tool does. For 2.0 also what its brokers do with a message format, which the tool does not look at."""
        self.object.validate(self._as_properties(configs))
        if self.version == "2.0.1" and "message.format.version" in configs:
            self._versions.apply(trim(configs["message.format.version"]))

    def check_as_broker(self, configs: dict[str, str], existing: dict[str, str]) -> None:
        """As a broker with ZooKeeper and without tiered storage does, of the version that knows of these."""
        if self.version != "3.9.2":
            return self.check(configs)
        before = self.classes.java(existing)
        return self.object.validate(before, self._as_properties(configs), self._defaults, False, True)

    def _as_properties(self, configs: dict[str, str]) -> Any:
        properties = self._properties()
        for name, value in configs.items():
            properties.setProperty(name, value)
        return properties


@pytest.fixture(scope="module")
def log_config(kafka_classes: KafkaClasses) -> KafkaLogConfig:
    return KafkaLogConfig(kafka_classes)


NUMBERS = [str(n) for n in (0, 1, 2, 3, 4, 9, 10, 13, 14, 17, 18, 22, 23, 1000, -1, -2, -3, -131072, -131073)] + [
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "+5", "-0", "007", " 7 ", "\t7\n", "\u00a07", "７", "٣", "𝟙"),
    *("", "-", "+", "1.5", "1e3", "0x10", "1_000", "1,5", "7L", "null"),
]
DOUBLES = [
    *("0.0", "1.0", "1.00001", "-0.0", "-1e-9", ".5", "5.", ".", "1e-400", "1e400", "-1e400", "NaN", "-NaN", "nan"),
    *("Infinity", "-Infinity", "inf", "0.5f", "0.5D", "0.5ff", "NaNf", "Infinityd", "1e", "1e+", "0x1p-1", "0X.8P0"),
    *("0x1.8p1", "0xp1", "0x1", "0x1p99999", "2", "10000000", "9999999.5", "123456789", "1e22", "\u00a01", " 0.5 "),
]
WORDS = [
    *("true", "TRUE", "False", " true ", "yes", "compact", "delete", "compact,delete", "delete , compact", "Compact"),
    *(",", "delete,", ",delete", "delete,,compact", "compact delete", "compact\u00a0,delete", "compaction"),
    *("uncompressed", "snappy", "lz4", "gzip", "zstd", "producer", "none", "GZIP", "CreateTime", "LogAppendTime"),
    *("createtime", "*", " * ", "*,0:1", "0:1,*", "*,", ",*", "**", "0:1", "0:1,1:2", "0:1 , 1:2", "0:1,,", "0:1,x"),
    *("0:", ":1", "0:1:2", "0-1", "-1:2", "0 :1", "٣:1", "x" * 300, "😀", "a\nb", "a\x00b", "Iıİ"),
    *("tRuE\u0130", "falſe"),
]
# 3.9 also takes 4.0-IV0, which was never released.
FORMATS_IN_WORDS = """
    0.8.0 0.8.1 0.8.2 0.8.3 0.8 0.9.0 0.9.0.1 0.9 0.10 0.10.0 0.10.0-IV0 0.10.0-IV1 0.10.0-IV2 0.10.1-IV2 0.10.2.1
    0.11.0-IV2 0.11.0-IV3 1.0 1.1-IV0 1 2 2.0 2.0.1 2.0. 2..0 .2.0 2.0.x 2.0-IV1 2.0-IV1.7 2.0-IV2 2.1 2.1-IV2 2.8
    2.8.2 2.8-IV1 2.9 3.0-IV1 3.3-IV3 3.5-IV2 3.6-IV2 3.7-IV4 3.7-IV5 3.8-IV0 3.9 3.9.2 3.9-IV0 3.9. 3.9-IV1 4.0 4.1
    latest . .. 0. 0..8
"""
FORMATS = [*FORMATS_IN_WORDS.split(), "", " 2.0 "]


def test_config_names_are_those_of_the_version(log_config: KafkaLogConfig) -> None:
    assert list(topic_config_names(log_config.version)) == log_config.names
    for name in ["", "log.segment.bytes", " preallocate", "max.compaction.lag.ms", "remote.storage.enable"]:
        ours = refusal(check_topic_config, name, "x", version=log_config.version)
        assert ours == refusal(log_config.check, {name: "x"})


def test_config_values_are_taken_and_refused_as_kafka_does(log_config: KafkaLogConfig) -> None:
    """Every listed value for every name, whatever its type."""
    taken = refused = 0
    for name in log_config.names:
        values = FORMATS if name == "message.format.version" else [*NUMBERS, *DOUBLES, *WORDS]
        for value in values:
            ours = refusal(check_topic_config, name, value, version=log_config.version)
            assert ours == refusal(log_config.check, {name: value}), (name, value)
            taken, refused = taken + (ours is None), refused + (ours is not None)
    assert taken > 400
    assert refused > 2000


def test_random_config_values_are_taken_and_refused_as_kafka_does(log_config: KafkaLogConfig) -> None:
    draw = random.Random(32)
    for _ in range(800):
        name = draw.choice(log_config.names)
        value = "".join(
            draw.choices([*CHARACTERS, *"0123456789+", "delete", "compact", "2.0", "IV1", "e"], k=draw.randint(0, 6))
        )
        ours = refusal(check_topic_config, name, value, version=log_config.version)
        assert ours == refusal(log_config.check, {name: value}), (name, value)


def test_configs_together_are_refused_for_the_same_one(log_config: KafkaLogConfig) -> None:
    draw = random.Random(33)
    values = ["0", "1", "4", "20", "100", "-1", "true", "false", "delete", "compact", "gzip", "2.0", "*", "CreateTime"]
    related = dict.fromkeys(["min.compaction.lag.ms", "max.compaction.lag.ms"], ("1", "4", "20"))
    related |= dict.fromkeys(["remote.storage.enable", "remote.log.copy.disable"], ("true", "true", "false"))
    seen = set()
    for _ in range(800):
        names = draw.sample(log_config.names, draw.randint(0, 2)) + draw.sample(list(related), draw.randint(0, 3))
        if log_config.version == "2.0.1" and "message.format.version" in names:
            continue  # refused by brokers only, after everything else
        configs = {name: draw.choice(related.get(name, values)) for name in names}
        if len(set(names) - set(log_config.names)) > 1:
            continue  # of several unknown names Kafka names the first of a hash table
        # On a topic that has it, tiered storage is not looked at here: the broker is one that does not have it.
        tiered = draw.random() < 0.2 and configs.get("remote.storage.enable") != "true"
        existing = {"remote.storage.enable": "true"} if tiered else {}
        ours = refusal(check_topic_configs, configs, version=log_config.version, existing=existing)
        assert ours == refusal(log_config.check_as_broker, configs, existing), (configs, existing)
        seen.add((ours or "taken").split(" ")[0])
    assert {"taken", "Invalid"} <= seen
    assert log_config.version == "2.0.1" or "conflict" in seen
    assert log_config.version != "3.9.2" or {"It", "Tiered"} <= seen


# Arguments of the tool


class KafkaTopicCommand:
    """kafka-topics of a version."""

    def __init__(self, classes: KafkaClasses) -> None:
        self.classes = classes
        self.is_java = classes.version == "3.9.2"
        self.name = "org.apache.kafka.tools.TopicCommand" if self.is_java else "kafka.admin.TopicCommand"
        self._object = self.name if self.is_java else classes.companion(self.name)
        self._options = classes.class_of(self.name + "$TopicCommandOptions")

    def parse_replica_assignment(self, text: str) -> dict[int, tuple[int, ...]]:
        parsed = self.classes.call(self._object, "parseReplicaAssignment", text)
        lists = self.classes.python(parsed) if self.is_java else self.classes.replica_lists(parsed)
        return {int(partition): tuple(held) for partition, held in sorted(lists.items())}

    def parse_configs(self, arguments: list[str]) -> dict[str, str]:
        given = [
            "--bootstrap-server=z" if self.is_java else "--zookeeper=z",
            "--create",
            "--topic=t",
            *(f"--config={argument}" for argument in arguments),
        ]
        array = self.classes.gateway.new_array(self.classes.jvm.java.lang.String, len(given))
        for index, argument in enumerate(given):
            array[index] = argument
        return self.classes.python(self.classes.call(self._object, "parseTopicConfigsToBeAdded", self._options(array)))


@pytest.fixture(scope="module")
def topic_command(kafka_classes: KafkaClasses) -> KafkaTopicCommand:
    return KafkaTopicCommand(kafka_classes)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """The value, or Kafka's text without what depends on a hash or on an object's address."""
    try:
        return call(*arguments)
    except KafkaRuleError as refused:
        text = refused.kafka_message
    except JavaError as thrown:
        text = str(thrown.message)
    text = re.sub("(has different replication factor: ).*", r"\1", text.removeprefix("requirement failed: "))
    start, several, repeated = text.partition("duplicate entries: ")
    return start, sorted(repeated.split(",")) if several else text


def test_assignments_by_hand_are_read_as_the_tool_reads_them(topic_command: KafkaTopicCommand) -> None:
    draw = random.Random(34)
    texts = ["1:2,2:3,3:1", "", ",", ":", ",,", "::", ":,:", "1,:", "1:,2:", "1:2,", "2147483647", "2147483648", "-0:0"]
    texts += ["".join(draw.choices("0123:::,,", k=draw.randint(1, 9))) for _ in range(500)]
    texts += ["".join(draw.choices("12:,+- x٣𝟙\u00a0\t.", k=draw.randint(1, 6))) for _ in range(300)]
    lists = [[draw.sample(range(9), draw.choice([2, 2, 2, 3])) for _ in range(draw.randint(1, 5))] for _ in range(200)]
    texts += [",".join(":".join(map(str, replicas)) for replicas in replica_lists) for replica_lists in lists]
    read = 0
    for text in texts:
        ours = outcome(parse_replica_assignment, text)
        assert ours == outcome(topic_command.parse_replica_assignment, text), repr(text)
        read += isinstance(ours, dict)
    assert 150 < read < len(texts) - 300


def test_config_arguments_are_read_as_the_tool_reads_them(topic_command: KafkaTopicCommand) -> None:
    draw = random.Random(35)
    blanks = ["", "", " ", "\t", " \n", "\x1f", "\u00a0"]
    pieces = [blanks, ["preallocate", "flush.ms", "flush.ms"], blanks, ["=", "=", "=", "==", ""], blanks]
    pieces += [["true", "7", "x"], blanks, ["", "", "", "="], blanks]
    version = topic_command.classes.version
    read = 0

    def parsed_and_checked(arguments: list[str]) -> dict[str, str]:
        configs = parse_config_arguments(arguments)
        check_topic_configs(configs, version=version)
        return configs

    for _ in range(400):
        argument = "".join(draw.choice(piece) for piece in pieces)
        arguments = [argument, " flush.ms = 9"] if draw.random() < 0.3 else [argument]
        ours = outcome(parsed_and_checked, arguments)
        assert ours == outcome(topic_command.parse_configs, arguments), arguments
        read += isinstance(ours, dict)
    assert 30 < read < 370


def test_two_actions_are_refused_with_the_tools_text(topic_command: KafkaTopicCommand) -> None:
    arguments = [
        "--create",
        "--delete",
        "--topic",
        "t",
        "--bootstrap-server" if topic_command.is_java else "--zookeeper",
        "z",
    ]
    code, _, complained = topic_command.classes.run_tool(topic_command.name, arguments)
    assert code == 1
    assert refusal(check_actions, ["create", "delete"]) in complained.splitlines()
