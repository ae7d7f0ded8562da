"""Plans and topics files, held against the readers of kafka-reassign-partitions of each version."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.reassignment_json import (
    format_reassignment,
    parse_log_dirs,
    parse_reassignment,
    parse_topics_to_move,
)
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.java.kafka_classes import JavaError, KafkaClasses

CASES = 1000  # for each version
NOT_JSON, EMPTY = "The input string is not a valid JSON", "Partition reassignment data file is empty"
LATER = (EMPTY, "Partition reassignment list cannot be empty")
ODD_VALUES = [
    None, True, 0, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 10**30, 1.0, 0.1, 1e7, 1.5e-5, -1e300, "", "0",
    "é\t\x1f\\\"", "\U0001f600", [], [1], ["1"], {}, {"a": [1.25, "x", None, {"b": 1}]},
]  # fmt: skip
BROKEN = [
    "", " ", "x", "{", "}", "nul", '{"version":1', '{"version":1,}', "{version:1}", "{'version':1}", '{"version":NaN}',
    '{"version":01}', '{"version":.5}', '{"version":1.}', '{"version":+1}', '{"version":1e}', '["a\tb"]', '["\\x"]',
    '["\\u12"]', "// a\n{}", "[1 2]", "[,1]", '{"a":1 "b":2}', "\ufeff{}", "[" * 30,
]  # fmt: skip
SOUND = [
    '{"version":1,"version":1}', '{"partitions":[],"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
    '\t\r\n {"partitions":[{"topic":"\\u0074\\/","partition":-0,"replicas":[-1,1]}]} and more', '{"version":1e0}',
    '{"version":1.0}', '{"version":-0}', '{"version":9223372036854775808}', '{"version":1E400}',
    '{"a":"\\uD83D\\uDE00"}',
]  # fmt: skip


class Tool:
    """What the tool of a version reads from a text. 3.9's is in Java."""

    def __init__(self, classes: KafkaClasses) -> None:
        self._classes = classes
        self._is_java = classes.version == "3.9.2"
        name = "org.apache.kafka.tools.reassign." if self._is_java else "kafka.admin."
        self._command: Any = name + "ReassignPartitionsCommand"
        if not self._is_java:
            self._command = classes.companion(self._command)

    def read_plan(self, text: str) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """{partition: replicas} and {replica: log directory} of a sound plan. Raises JavaError."""
        if self._classes.version == "2.0.1":
            parsed = self._classes.call(self._command, "parsePartitionReassignmentData", text)
            try:
                self._classes.call(self._command, "parseAndValidate", None, text)
            except JavaError as error:
                # It goes on to ZooKeeper, of which there is none here, when the text is sound.
                if error.java_class != "java.lang.NullPointerException":
                    raise
            return self._lists(parsed._1().toMap(self._conforms())), self._log_dirs(parsed._2())
        parsed = self._classes.call(self._command, "parseExecuteAssignmentArgs", text)
        if not self._is_java:
            return self._lists(parsed._1()), self._log_dirs(parsed._2())
        lists, log_dirs = parsed.getKey(), parsed.getValue()
        return (
            {partition.toString(): tuple(lists[partition]) for partition in lists},
            {replica.toString(): log_dirs[replica] for replica in log_dirs},
        )

    def read_topics(self, text: str) -> list[str]:
        parsed = self._classes.call(self._command, "parseTopicsData", text)
        return list(parsed) if self._is_java else self._classes.values_of(parsed)

    def write(self, assignment: dict[TopicPartition, tuple[int, ...]]) -> str:
        partitions = {self._classes.topic_partition(*key): list(replicas) for key, replicas in assignment.items()}
        if not self._is_java:
            nothing = self._classes.map({})
            return str(self._command.formatAsReassignmentJson(self._classes.map(partitions), nothing))
        lists, nothing = self._classes.jvm.java.util.HashMap(), self._classes.jvm.java.util.HashMap()
        for partition, replicas in partitions.items():
            lists.put(partition, self._classes.java(replicas))
        return str(self._classes.call(self._command, "formatAsReassignmentJson", lists, nothing))

    def _conforms(self) -> Any:
        return getattr(self._classes.companion("scala.Predef"), "$conforms")()

    def _lists(self, scala_map: Any) -> dict[str, tuple[int, ...]]:
        return self._classes.replica_lists(scala_map)

    def _log_dirs(self, scala_map: Any) -> dict[str, str]:
        lines = scala_map.mkString("\n").split("\n")
        return dict(line.split(" -> ", 1) for line in lines if line)


@pytest.fixture
def tool(kafka_classes: KafkaClasses) -> Tool:
    return Tool(kafka_classes)


def read_plan(text: str) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    lists, log_dirs = parse_reassignment(text), parse_log_dirs(text)
    return (
        {str(partition): replicas for partition, replicas in lists.items()},
        {"-".join(map(str, replica)): log_dir for replica, log_dir in log_dirs.items()},
    )


def random_plan(rng: random.Random) -> str:
    """A plan that is sound half of the time; else with something missing, odd, empty or repeated."""

    def maybe(value: Any) -> Any:
        return rng.choice(ODD_VALUES) if rng.random() < 0.015 else value

    def entry() -> Any:
        replicas = [maybe(rng.randrange(1, 60)) for _ in range(rng.choice((0, 1, 2, 2, 3, 3, 3, 4)))]
        fields = {
            "topic": maybe(rng.choice(("t", "u", "a.b", "_x-1"))),
            "partition": maybe(rng.randrange(6)),
            "replicas": maybe(replicas),
        }
        if rng.random() < 0.3:
            fields["log_dirs"] = maybe(
                [maybe(rng.choice(("any", "/a"))) for _ in range(len(replicas) - rng.randrange(2))]
            )
        if rng.random() < 0.02:
            del fields[rng.choice(sorted(fields))]
        return maybe(fields)

    document: dict[str, Any] = {"version": maybe(1), "partitions": maybe([entry() for _ in range(rng.randrange(4))])}
    if rng.random() < 0.1:
        del document[rng.choice(sorted(document))]
    text = json.dumps(maybe(document), ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.05:
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(("\\", "\\n", '"', "}", ",", "NaN", "\x07", " ")) + text[place + 1 :]
    return text


def texts(seed: int, kind: str, draw: Callable[[random.Random], str]) -> list[str]:
    rng = random.Random(seed)
    return [*BROKEN, *(text.replace("partitions", kind) for text in SOUND), *(draw(rng) for _ in range(CASES))]


def outcome(read: Callable[[str], Any], text: str) -> tuple[Any, str | None]:
    """(what is read, None) or (None, the message)."""
    try:
        return read(text), None
    except JavaError as error:
        return None, str(error.message)
    except KafkaRuleError as error:
        return None, error.kafka_message


def parts(message: str) -> list[str]:
    """A message without the order of what it lists, which Kafka leaves to a hash map."""
    return sorted(re.findall(r"[^\s,]+", message.replace(". ", " ")))


def without_marks(message: str) -> str:
    """3.9 writes `JSON array` value for a list inside a list, and JSON array for any other."""
    return message.replace("`", "").replace(" value,", ",")


def same_message(version: str, ours: str, theirs: str) -> bool:
    """Whether it is 2.0's message, or what later versions made of it."""
    if version == "2.0.1":
        return parts(ours) == parts(theirs)
    if ours == NOT_JSON:
        return True  # later versions have Jackson's own words for that
    ours = ours.replace(*LATER).replace("received Infinity", 'received "Infinity"')
    if version == "2.8.2":
        return parts(ours.replace("Vector(", "List(")) == parts(theirs)
    ours = re.sub(r"Vector\((.*?)\)", r"[\1]", ours).replace("`Int`", "`Integer`")
    return parts(without_marks(ours)) == parts(without_marks(theirs))


def compare(version: str, text: str, ours: Callable[[str], Any], theirs: Callable[[str], Any]) -> bool:
    """Fails unless both read the same or refuse it with the same message. Gives whether they read it."""
    value, refused = outcome(ours, text)
    expected, message = outcome(theirs, text)
    if version != "2.0.1" and message is not None and (" at [Source" in message or message == NOT_JSON):
        # Only 2.0 tries again with doubled backslashes.
        assert refused == NOT_JSON or "\\" in text, (text, refused, message)
        return False
    assert value == expected, (text, refused, message)
    assert refused is None or same_message(version, refused, str(message)), (text, refused, message)
    return refused is None


def test_thousands_of_plans_are_read_or_refused_alike(kafka_classes: KafkaClasses, tool: Tool) -> None:
    plans = texts(1, "partitions", random_plan)
    accepted = sum(compare(kafka_classes.version, text, read_plan, tool.read_plan) for text in plans)
    assert CASES / 5 < accepted < CASES * 4 / 5


def random_topics(rng: random.Random) -> str:
    names = [rng.choice(("foo1", "foo2", "a.b", "é")) for _ in range(rng.randrange(4))]
    entries = [{"topic": name} if rng.random() < 0.95 else rng.choice(ODD_VALUES) for name in names]
    document = {
        "topics": entries if rng.random() < 0.95 else rng.choice(ODD_VALUES),
        "version": rng.choice((1, 1, 1, 2)),
    }
    return json.dumps(document)


def test_thousands_of_topics_files_are_read_or_refused_alike(kafka_classes: KafkaClasses, tool: Tool) -> None:
    def read(text: str) -> list[str]:
        return list(parse_topics_to_move(text))

    files = texts(2, "topics", random_topics)
    accepted = sum(compare(kafka_classes.version, text, read, tool.read_topics) for text in files)
    assert CASES / 5 < accepted < CASES * 4 / 5


def test_what_is_written_is_the_tools_own_text_and_read_by_it(tool: Tool) -> None:
    rng = random.Random(3)
    for _ in range(100):
        keys = {TopicPartition(rng.choice(("t", "u", "a.b")), rng.randrange(50)) for _ in range(rng.randrange(1, 6))}
        assignment = {key: tuple(rng.sample(range(1000), rng.randrange(1, 5))) for key in sorted(keys)}
        text = format_reassignment(assignment)
        theirs = tool.write(assignment)
        assert len(text) == len(theirs)
        in_order = {
            TopicPartition(entry["topic"], entry["partition"]): entry["replicas"]
            for entry in json.loads(theirs)["partitions"]
        }
        assert format_reassignment(in_order) == theirs
        for written in (text, format_reassignment(assignment, with_log_dirs=False)):
            assert tool.read_plan(written) == read_plan(written)
