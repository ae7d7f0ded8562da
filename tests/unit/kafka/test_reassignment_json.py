"""kafka-reassign-partitions: its files as they are read, refused and written, and what --generate proposes."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.assignment import assign_replicas
from kafka_rebalance.kafka.reassignment_json import (
    check_executable,
    format_reassignment,
    generate,
    parse_log_dirs,
    parse_reassignment,
    parse_topics_to_move,
    reassignment_files,
)
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.small_clusters import move, tp


def plan(*entries: dict[str, Any], **top: Any) -> str:
    return json.dumps({"version": 1, "partitions": list(entries)} | top)


def entry(**changes: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "replicas": [1, 2]} | changes


def refusal(text: str) -> str:
    with pytest.raises(KafkaRuleError) as refused:
        parse_reassignment(text)
    return refused.value.kafka_message


def test_a_plan_is_read_in_its_order_with_what_it_does_not_know_ignored() -> None:
    text = plan(entry(topic="b", replicas=[2, 1], why="x"), entry(topic="a", partition=10), comment="x")
    assert list(parse_reassignment(text).items()) == [(("b", 0), (2, 1)), (("a", 10), (1, 2))]
    assert all(isinstance(partition, TopicPartition) for partition in parse_reassignment(text))


@pytest.mark.parametrize("version", [{}, {"version": 1}])
def test_the_version_may_be_left_out(version: dict[str, int]) -> None:
    assert parse_reassignment(json.dumps({"partitions": [entry()]} | version)) == {("t", 0): (1, 2)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The input string is not a valid JSON"),
        ("   ", "The input string is not a valid JSON"),
        ("{'version':1}", "The input string is not a valid JSON"),
        ('{"version":1,}', "The input string is not a valid JSON"),
        ('{"version":NaN}', "The input string is not a valid JSON"),
        ('{"version":-Infinity}', "The input string is not a valid JSON"),
        ('{"version":01}', "The input string is not a valid JSON"),
        ("1x", "The input string is not a valid JSON"),
        ('{"version":1,"partitions":[{"topic":"a\nb"}]}', "The input string is not a valid JSON"),
        ("[" * 100_000, "The input string is not a valid JSON"),
        ('{"version":2}', "Not supported version field value 2"),
        ('{"version":"1"}', 'Expected `Int` value, received "1"'),
        ('{"version":null}', "Expected `Int` value, received null"),
        ('{"version":true}', "Expected `Int` value, received true"),
        ('{"version":1e3}', "Expected `Int` value, received 1000.0"),
        ('{"version":1.0}', "Expected `Int` value, received 1.0"),
        ('{"version":2147483648}', "Expected `Int` value, received 2147483648"),
        ("null", "Expected JSON object, received null"),
        ("[1,2]", "Expected JSON object, received [1,2]"),
        ("{}", "Partition reassignment data file is empty"),
        ('{"partitions":[]}', "Partition reassignment data file is empty"),
        ('{"partitions":null}', "Expected JSON array, received null"),
        ('{"partitions":{"a":"\\u001f\\"\\\\é"}}', 'Expected JSON array, received {"a":"\\u001F\\"\\\\é"}'),
        ('{"partitions":[[]]}', "Expected JSON object, received []"),
        ('{"partitions":[{}]}', "No such field exists: `topic`"),
        ('{"partitions":[{"topic":"t"}]}', "No such field exists: `partition`"),
        ('{"partitions":[{"topic":"t","partition":0}]}', "No such field exists: `replicas`"),
        (plan(entry(topic=7)), "Expected `String` value, received 7"),
        (plan(entry(topic=None)), "Expected `String` value, received null"),
        (plan(entry(topic=1.5)), "Expected `String` value, received 1.5"),
        (plan(entry(topic=2**31)), "Expected `String` value, received 2147483648"),
        (plan(entry(partition="0")), 'Expected `Int` value, received "0"'),
        (plan(entry(partition=False)), "Expected `Int` value, received false"),
        (plan(entry(partition=-(2**31) - 1)), "Expected `Int` value, received -2147483649"),
        (plan(entry(replicas="1,2")), 'Expected JSON array, received "1,2"'),
        (plan(entry(replicas=[1, "2"])), 'Expected `Int` value, received "2"'),
        (plan(entry(replicas=[1, 2.0])), "Expected `Int` value, received 2.0"),
        (plan(entry(replicas=[1, [2, {}]])), "Expected `Int` value, received [2,{}]"),
        (plan(entry(log_dirs=None)), "Expected JSON array, received null"),
        (plan(entry(log_dirs=["any", 1])), "Expected `String` value, received 1"),
        (
            plan(entry(log_dirs=["any"])),
            "Size of replicas list Vector(1, 2) is different from size of log dirs list Vector(any) for partition t-0",
        ),
        (plan(entry(replicas=[])), "Partition replica list cannot be empty"),
        (
            plan(entry(), entry(partition=1), entry(), entry(topic="u"), entry(topic="u")),
            "Partition reassignment contains duplicate topic partitions: t-0,u-0",
        ),
        (
            plan(entry(replicas=[3, 1, 3, 1]), entry(partition=1, replicas=[2, 2]), entry(partition=2)),
            "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 3,1. "
            "t-1 contains multiple entries for 2",
        ),
    ],
)
def test_what_the_tool_refuses_is_refused_with_its_message(text: str, message: str) -> None:
    assert refusal(text) == message


def test_the_checks_come_in_the_tools_order() -> None:
    """Each entry as it is read, then: empty lists, partitions that come twice, brokers that come twice."""
    everything = [entry(replicas=[]), entry(replicas=[1, 1]), entry(partition=1, log_dirs=[])]
    assert refusal(plan(*everything)).startswith("Size of replicas list")
    assert refusal(plan(*everything[:2])) == "Partition replica list cannot be empty"
    assert refusal(plan(entry(), *everything[1:2])).endswith("duplicate topic partitions: t-0")
    assert refusal(plan(*everything[1:2])).endswith("t-0 contains multiple entries for 1")


def test_an_integer_of_thousands_of_digits_is_refused_with_all_of_them() -> None:
    digits = "9" * 10_000
    assert refusal('{"version":' + digits + "}") == f"Expected `Int` value, received {digits}"


def test_what_is_nested_too_deeply_to_be_shown_is_refused_all_the_same() -> None:
    assert refusal('{"partitions":{"a":' + "[" * 900 + "]" * 900 + "}}").startswith("Expected JSON array, received")


@pytest.mark.parametrize("name", ["\\ud800", "\ud800", "a\\udfffb"])
def test_half_a_surrogate_pair_is_refused(name: str) -> None:
    """Java lets it through; nothing could be written to ZooKeeper with it."""
    with pytest.raises(KafkaRuleError, match=r"not a valid JSON\. .*Nothing was written"):
        parse_reassignment('{"partitions":[{"topic":"' + name + '","partition":0,"replicas":[1]}]}')
    with pytest.raises(KafkaRuleError, match="not a valid JSON"):
        parse_topics_to_move('{"topics":[{"topic":"' + name + '"}]}')


def test_what_follows_the_first_value_is_not_looked_at() -> None:
    assert parse_reassignment(" \n" + plan(entry()) + "\nProposed by someone") == {("t", 0): (1, 2)}


def test_backslashes_that_escape_nothing_stand_for_themselves() -> None:
    text = r'{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["C:\data\kafka"]}]}'
    assert parse_log_dirs(text) == {("t", 0, 1): r"C:\data\kafka"}


def test_log_dirs_other_than_any_are_given_by_replica() -> None:
    text = plan(entry(log_dirs=["any", "/b"]), entry(partition=1), entry(partition=2, log_dirs=["/a", ""]))
    assert parse_log_dirs(text) == {("t", 0, 2): "/b", ("t", 2, 1): "/a", ("t", 2, 2): ""}
    assert parse_log_dirs("{}") == {}
    assert len(parse_reassignment(text)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "The input string is not a valid JSON"),
        ('{"version":3,"topics":[]}', "Not supported version field value 3"),
        ('{"topics":["foo1"]}', 'Expected JSON object, received "foo1"'),
        ('{"topics":"foo1"}', 'Expected JSON array, received "foo1"'),
        ('{"topics":[{"name":"foo1"}]}', "No such field exists: `topic`"),
        ('{"topics":[{"topic":1}]}', "Expected `String` value, received 1"),
    ],
)
def test_a_topics_file_that_the_tool_refuses_is_refused_with_its_message(text: str, message: str) -> None:
    with pytest.raises(KafkaRuleError) as refused:
        parse_topics_to_move(text)
    assert refused.value.kafka_message == message


def test_a_topics_file_may_be_empty_and_repeat_itself() -> None:
    assert parse_topics_to_move("{}") == ()
    assert parse_topics_to_move('{"topics":[{"topic":"b"},{"topic":"a","x":1},{"topic":"b"}]}') == ("b", "a", "b")


def test_a_plan_is_written_as_the_tool_writes_it() -> None:
    assignment = {TopicPartition("foo", 1): (5, 6), TopicPartition("bar", 0): [1]}
    assert format_reassignment(assignment) == (
        '{"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[5,6],"log_dirs":["any","any"]},'
        '{"topic":"bar","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    )
    assert format_reassignment(assignment, with_log_dirs=False) == (
        '{"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[5,6]},'
        '{"topic":"bar","partition":0,"replicas":[1]}]}'
    )


EXISTING = {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (2, 1)}


def test_partitions_that_do_not_exist_are_refused_before_brokers() -> None:
    with pytest.raises(KafkaRuleError) as refused:
        check_executable(
            {TopicPartition("t", 0): (1, 9), TopicPartition("t", 2): (1,), TopicPartition("u", 0): (1,)},
            EXISTING,
            [1, 2],
        )
    assert refused.value.kafka_message == (
        "The proposed assignment contains non-existent partitions: ListBuffer(t-2, u-0)"
    )


def test_a_broker_that_is_down_counts_as_one_that_does_not_exist() -> None:
    with pytest.raises(KafkaRuleError) as refused:
        check_executable({TopicPartition("t", 0): (9, 1), TopicPartition("t", 1): (2, 7, 9)}, EXISTING, [1, 2])
    assert refused.value.kafka_message == "The proposed assignment contains non-existent brokerIDs: 9,7"
    assert "Nothing was written" in str(refused.value)


def test_mixed_replication_factors_and_unchanged_entries_are_executable() -> None:
    check_executable({TopicPartition("t", 0): (1,), TopicPartition("t", 1): (2, 1)}, EXISTING, {1, 2, 3})


IDS = st.integers(0, 2**31 - 1)
TOPICS = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=20)
ASSIGNMENTS = st.dictionaries(
    st.builds(TopicPartition, TOPICS, IDS), st.lists(IDS, min_size=1, max_size=5, unique=True).map(tuple), min_size=1
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["version", "partitions", "topic", "partition", "replicas", "log_dirs", "topics", "x"])
DOCUMENTS = st.recursive(
    VALUES | st.sampled_from([0, 1, "t", "any", [1, 2]]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(ASSIGNMENTS, st.booleans())
def test_what_is_written_reads_back_the_same(assignment: dict[TopicPartition, tuple[int, ...]], log_dirs: bool) -> None:
    text = format_reassignment(assignment, with_log_dirs=log_dirs)
    assert list(parse_reassignment(text).items()) == list(assignment.items())
    assert parse_log_dirs(text) == {}


@given(DOCUMENTS.map(json.dumps) | st.text(st.characters(exclude_categories=()), max_size=200))
def test_no_text_makes_a_reader_raise_anything_but_its_own_error(text: str) -> None:
    for read in (parse_reassignment, parse_log_dirs, parse_topics_to_move):
        with contextlib.suppress(KafkaRuleError):
            read(text)


# --- what --generate proposes ---

# The documentation's example, as in the seed.
TOPICS_TO_MOVE = '{"topics": [{"topic": "foo1"},{"topic": "foo2"}],\n"version":1\n}'
CURRENT = """{"version":1,
"partitions":[{"topic":"foo1","partition":2,"replicas":[1,2]},
              {"topic":"foo1","partition":0,"replicas":[3,4]},
              {"topic":"foo2","partition":2,"replicas":[1,2]},
              {"topic":"foo2","partition":0,"replicas":[3,4]},
              {"topic":"foo1","partition":1,"replicas":[2,3]},
              {"topic":"foo2","partition":1,"replicas":[2,3]}]
}"""
LIVE = dict.fromkeys(range(1, 7))


def proposal(seed: int = 0, brokers: tuple[int, ...] = (5, 6)) -> dict[TopicPartition, tuple[int, ...]]:
    topics, existing = parse_topics_to_move(TOPICS_TO_MOVE), parse_reassignment(CURRENT)
    return generate(topics, existing, brokers, LIVE, random.Random(seed))


def test_reassignment_topics_to_move_file() -> None:
    """Seed 001, row 2: topics-to-move file, 2 topics, version 1."""
    assert parse_topics_to_move(TOPICS_TO_MOVE) == ("foo1", "foo2")


def test_reassignment_current_assignment_of_the_example() -> None:
    """Seed 001, row 4: current: foo1/foo2 p0 [3,4], p1 [2,3], p2 [1,2]."""
    assert parse_reassignment(CURRENT) == {
        (topic, partition): replicas
        for topic in ("foo1", "foo2")
        for partition, replicas in {0: (3, 4), 1: (2, 3), 2: (1, 2)}.items()
    }


def test_reassignment_partitions_may_come_in_any_order() -> None:
    """Seed 001, row 9: partitions are listed in arbitrary order."""
    assert list(parse_reassignment(CURRENT))[:3] == [("foo1", 2), ("foo1", 0), ("foo2", 2)]
    assert parse_reassignment(format_reassignment(dict(sorted(parse_reassignment(CURRENT).items())))) == (
        parse_reassignment(CURRENT)
    )


def test_reassignment_generate_proposes_the_listed_brokers_for_all_six() -> None:
    """Seed 001, row 5: proposed: all six on {5,6}; with two brokers and two replicas the leaders alternate."""
    for seed in range(20):
        proposed = proposal(seed)
        assert proposed.keys() == parse_reassignment(CURRENT).keys()
        assert {frozenset(replicas) for replicas in proposed.values()} == {frozenset({5, 6})}
        for topic in ("foo1", "foo2"):
            leaders = [proposed[TopicPartition(topic, partition)][0] for partition in range(3)]
            assert leaders in ([5, 6, 5], [6, 5, 6])


def test_generate_leaves_what_it_is_given_as_it_is() -> None:
    existing = parse_reassignment(CURRENT)
    generate(["foo1"], existing, [5, 6], LIVE, random.Random(0))
    assert existing == parse_reassignment(CURRENT)


def test_each_topic_is_assigned_anew_with_its_own_random_start_and_shift() -> None:
    rng = random.Random(7)
    brokers = (1, 2, 3, 4, 5, 6)
    expected = {topic: assign_replicas(brokers, 3, 2, rng=rng) for topic in ("foo1", "foo2")}
    assert proposal(7, brokers[::-1]) == {
        TopicPartition(topic, partition): replicas
        for topic, lists in expected.items()
        for partition, replicas in lists.items()
    }


def test_topics_that_do_not_exist_and_brokers_that_are_not_live_are_left_out_silently() -> None:
    existing = {TopicPartition("a", 0): (1, 2)}
    proposed = generate(["nowhere", "a"], existing, [9, 2, 1], LIVE, random.Random(0))
    assert proposed.keys() == {TopicPartition("a", 0)}
    assert set(proposed[TopicPartition("a", 0)]) == {1, 2}


def test_racks_are_respected_as_in_creation() -> None:
    existing = {TopicPartition("a", p): (1, 2) for p in range(12)}
    racks = {1: "r1", 2: "r1", 3: "r2", 4: "r2"}
    proposed = generate(["a"], existing, [1, 2, 3, 4], racks, random.Random(3))
    assert all({racks[broker] for broker in replicas} == {"r1", "r2"} for replicas in proposed.values())
    rackless = generate(["a"], existing, [1, 2, 3, 4], None, random.Random(3))
    assert any(len({racks[broker] for broker in replicas}) == 1 for replicas in rackless.values())


@pytest.mark.parametrize(
    ("topics", "brokers", "racks", "message"),
    [
        (["a"], [2, 1, 2, 1], LIVE, "Broker list contains duplicate entries: 2,1"),
        (["a", "b", "a"], [1, 2], LIVE, "List of topics to reassign contains duplicate entries: a"),
        (["a", "a"], [1, 1], LIVE, "Broker list contains duplicate entries: 1"),
        (["a"], [1, 7], LIVE, "Replication factor: 2 larger than available brokers: 1."),
        (
            ["a"],
            [1, 2],
            {1: "r", 2: None},
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
        ),
    ],
)
def test_what_generate_refuses_is_refused_with_its_message(
    topics: list[str], brokers: list[int], racks: dict[int, str | None], message: str
) -> None:
    with pytest.raises(KafkaRuleError) as refused:
        generate(topics, {TopicPartition("a", 0): (1, 2)}, brokers, racks, random.Random(0))
    assert refused.value.kafka_message == message


def test_the_replication_factor_is_that_of_the_lowest_partition_and_ids_are_counted() -> None:
    existing = {TopicPartition("a", 5): (1,), TopicPartition("a", 3): (1, 2)}
    proposed = generate(["a"], existing, [1, 2, 3], None, random.Random(0))
    assert {partition: len(replicas) for (_, partition), replicas in proposed.items()} == {0: 2, 1: 2}


# The files for Kafka's own tool.


MOVES = (move("orders-10", [1, 2], [4, 2], batch=1), move("orders-9", [2, 3, 1], [3, 2], batch=2))


def test_a_candidate_is_one_file_for_all_its_batches_and_one_for_the_way_back() -> None:
    files = reassignment_files("balanced", MOVES)
    assert list(files) == ["balanced.json", "balanced-rollback.json"]
    forth, back = (parse_reassignment(content.decode()) for content in files.values())
    assert forth == {tp("orders-9"): (3, 2), tp("orders-10"): (4, 2)}
    assert back == {tp("orders-9"): (2, 3, 1), tp("orders-10"): (1, 2)}
    assert list(forth) == list(back) == [tp("orders-9"), tp("orders-10")]


def test_log_directories_are_left_to_the_brokers_as_the_tool_writes_it() -> None:
    document = json.loads(reassignment_files("light", MOVES)["light.json"])
    assert document["version"] == 1
    assert {tuple(entry["log_dirs"]) for entry in document["partitions"]} == {("any", "any")}


def test_a_candidate_that_moves_nothing_has_no_file() -> None:
    assert reassignment_files("light", ()) == {}
