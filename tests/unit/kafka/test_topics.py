"""The rules of kafka-topics: names, actions, assignments by hand, creation, expansion and deletion."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.topics import (
    ACTIONS,
    BY_NAME,
    INTERNAL_TOPICS,
    KafkasOwn,
    check_actions,
    check_added_replicas,
    check_assigned_brokers,
    check_assignment,
    check_deletable,
    check_more_partitions,
    check_new_topic,
    check_topic_name,
    parse_replica_assignment,
)
from support.kafka.refusals import message_of

# Actions


@pytest.mark.parametrize("action", ["create", "alter", "list", "describe", "delete"])
def test_topics_each_of_five_actions_stands_alone(action: str) -> None:
    """Seed 004, row 1: five actions."""
    assert check_actions([action]) == action
    assert action in ACTIONS


@pytest.mark.parametrize("actions", [[], ["create", "delete"], ACTIONS, ["created"], ["create", "created"]])
def test_topics_exactly_one_action_is_asked_for(actions: Any) -> None:
    """Seed 004, row 1: exactly one of them, else the usage error."""
    assert message_of(check_actions, actions) == (
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
    )


# Names


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "_", "-", "a" * 249, "__consumer_offsets"])
def test_a_legal_name_is_taken(name: Any) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("", "Topic name is illegal, it can't be empty"),
        (".", 'Topic name cannot be "." or ".."'),
        ("..", 'Topic name cannot be "." or ".."'),
        (
            "a" * 250,
            "Topic name is illegal, it can't be longer than 249 characters, topic name: " + "a" * 250,
        ),
        (
            "\U0001f600" * 125,  # 250 characters to Java
            "Topic name is illegal, it can't be longer than 249 characters, topic name: " + "\U0001f600" * 125,
        ),
        *(
            (
                name,
                f'Topic name "{name}" is illegal, it contains a character other than ASCII alphanumerics, '
                "'.', '_' and '-'",
            )
            for name in ["a b", " a", "a\n", "ä", "a/b", "a:b", "a,b", "\u0660", "a\x00", "\ud800"]
        ),
    ],
)
def test_an_illegal_name_is_refused_with_kafkas_text(name: Any, refused: Any) -> None:
    assert message_of(check_topic_name, name) == refused
    # before anything else is looked at
    assert message_of(check_new_topic, name, {}, {"x": "y"}, existing=[name]) == refused


def test_a_name_that_exists_is_not_taken_for_a_collision() -> None:
    assert message_of(check_topic_name, "a.b", existing=["a_b", "a.b"]) == "Topic 'a.b' already exists."
    assert message_of(check_topic_name, "orders", existing=("orders",)) == "Topic 'orders' already exists."


def test_names_that_differ_by_dots_and_underscores_alone_collide() -> None:
    refused = message_of(check_topic_name, "a.b_c", existing=["a_b_c", "x", "a.b.c", "a.b-c", "ab_c"])
    assert refused == "Topic 'a.b_c' collides with existing topics: a.b.c, a_b_c"
    check_topic_name("abc", existing=["a.c", "a_c", "abcd"])


@given(st.text(max_size=260) | st.text("aZ09._-", max_size=260))
def test_a_name_is_taken_where_every_character_is_legal_and_no_other(name: Any) -> None:
    legal = name not in (".", "..") and re.fullmatch("[a-zA-Z0-9._-]{1,249}", name)
    with nullcontext() if legal else pytest.raises(KafkaRuleError):
        check_topic_name(name)


# Assignments by hand


def test_topics_manual_assignment_gives_the_lists_directly() -> None:
    """Seed 004, row 6: `--replica-assignment 1:2,2:3,3:1`."""
    assert parse_replica_assignment("1:2,2:3,3:1") == {0: (1, 2), 1: (2, 3), 2: (3, 1)}


def test_topics_first_broker_of_a_manual_list_is_its_leader() -> None:
    """Seed 004, row 8: the first of the assigned replicas becomes leader: the order is kept as it was written."""
    assert [replicas[0] for replicas in parse_replica_assignment("3:1:2,1:2:3").values()] == [3, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", {0: (7,)}),
        (" 1 : 2 , 2:\t3 ", {0: (1, 2), 1: (2, 3)}),
        ("+1:02,-3:0", {0: (1, 2), 1: (-3, 0)}),
        ("1:2,2:3,,", {0: (1, 2), 1: (2, 3)}),  # empty parts at the end are dropped
        ("1:2:", {0: (1, 2)}),
        (",", {}),
        (":", {0: ()}),
        ("\u0661:2", {0: (1, 2)}),  # Java reads the digits of every script
    ],
)
def test_an_assignment_by_hand_is_split_and_read_as_java_does(text: str, expected: Any) -> None:
    assert parse_replica_assignment(text) == expected


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("1:2,2:2", "Partition replica lists may not contain duplicate entries: 2"),
        ("3:1:3:1", "Partition replica lists may not contain duplicate entries: 1,3"),
        ("1:01", "Partition replica lists may not contain duplicate entries: 1"),
        ("1:2,3", "Partition 1 has different replication factor: 3"),
        ("1,2,3:4", "Partition 2 has different replication factor: 3, 4"),
        ("", 'For input string: ""'),
        ("1:2,,3:4", 'For input string: ""'),
        (":1", 'For input string: ""'),
        ("1;2", 'For input string: "1;2"'),
        ("1: x ", 'For input string: "x"'),
        ("1.0", 'For input string: "1.0"'),
        ("1_0", 'For input string: "1_0"'),
        ("2147483648", 'For input string: "2147483648"'),
        ("9" * 5000, 'For input string: "' + "9" * 5000 + '"'),
        ("\u00a01", 'For input string: "\u00a01"'),
        ("\U0001d7d9", 'For input string: "\U0001d7d9"'),  # a digit of two UTF-16 units is none to Java
    ],
)
def test_an_assignment_by_hand_is_refused_with_the_tools_text(text: Any, refused: Any) -> None:
    assert message_of(parse_replica_assignment, text) == refused


@given(st.text(alphabet="0123456789:, +-x\t", max_size=30))
def test_any_assignment_by_hand_is_read_or_refused_by_rule(text: Any) -> None:
    try:
        assignment = parse_replica_assignment(text)
    except KafkaRuleError:
        return
    assert list(assignment) == list(range(len(assignment)))
    assert all(len(set(replicas)) == len(replicas) == len(assignment[0]) for replicas in assignment.values())


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.permutations(range(n)), min_size=1, max_size=9)))
def test_an_assignment_by_hand_reads_back_as_it_was_written(lists: Any) -> None:
    text = ",".join(":".join(map(str, replicas)) for replicas in lists)
    assert parse_replica_assignment(text) == dict(enumerate(map(tuple, lists)))


@pytest.mark.parametrize(
    ("assignment", "refused"),
    [
        ({}, "All partitions should have the same number of replicas"),
        ({0: [1, 2], 1: [2]}, "All partitions should have the same number of replicas"),
        ({1: [1, 1], 0: [2, 3]}, "Duplicate replica assignment found: Map(0 -> List(2, 3), 1 -> List(1, 1))"),
        ({0: [1], 2: [2]}, "partitions should be a consecutive 0-based integer sequence"),
        ({1: [1], 2: [2]}, "partitions should be a consecutive 0-based integer sequence"),
        ({-1: [1], 0: [2]}, "partitions should be a consecutive 0-based integer sequence"),
        ({0: [], 1: []}, "Cannot have replication factor of 0 for partition id 0."),
    ],
)
def test_an_assignment_is_refused_in_kafkas_order(assignment: Any, refused: str) -> None:
    assert message_of(check_assignment, assignment) == refused
    assert message_of(check_new_topic, "t", assignment, {"x": "y"}, existing=[]) == refused


def test_brokers_that_do_not_exist_are_refused_although_the_tool_forgets_to() -> None:
    check_assigned_brokers({0: [1, 2], 1: [2, 3]}, [3, 2, 1])
    refused = message_of(check_assigned_brokers, {1: [2, 9], 0: [1, 2], 2: [8]}, {3, 2, 1})
    assert refused == (
        "Some brokers specified for partition id 1 are not available. Specified brokers: 2, 9, "
        "available brokers: 1, 2, 3."
    )


# Creation


def test_a_topic_that_keeps_all_rules_is_taken() -> None:
    check_new_topic("orders", {0: [1, 2], 1: [2, 1]}, {"retention.ms": "1000"}, existing=["payments"])
    check_new_topic("orders", {0: [1]}, {"compression.type": "zstd"}, existing=[], version="2.8.2")


def test_configs_of_a_new_topic_are_checked_last_and_for_its_version() -> None:
    with pytest.raises(KafkaRuleError, match="String must be one of"):
        check_new_topic("orders", {0: [1]}, {"compression.type": "zstd"}, existing=[])
    assert message_of(check_new_topic, "o", {0: [1]}, {"x": "y"}, existing=["o"]) == "Topic 'o' already exists."


# Expansion


@pytest.mark.parametrize(
    ("topic", "existing", "total", "refused"),
    [
        ("__consumer_offsets", {}, 9, "The number of partitions for the offsets topic cannot be changed."),
        (
            "__transaction_state",
            {0: [1]},
            9,
            "The number of partitions for the internal topic __transaction_state cannot be changed.",
        ),
        ("t", {}, 9, "The topic t does not exist"),
        (
            "t",
            {1: [1]},
            9,
            "Unexpected existing replica assignment for topic 't', partition id 0 is missing. "
            "Assignment: Map(1 -> List(1))",
        ),
        (
            "t",
            {0: [1], 2: [1]},
            2,
            "The number of partitions for a topic can only be increased. Topic t currently has 2 partitions, "
            "2 would not be an increase.",
        ),
        ("t", {0: [1], 2: [1]}, 3, "partitions should be a consecutive 0-based integer sequence"),
    ],
)
def test_an_expansion_is_refused_in_kafkas_order(topic: str, existing: Any, total: int, refused: str) -> None:
    assert message_of(check_more_partitions, topic, existing, total) == refused


def test_a_topic_may_grow() -> None:
    check_more_partitions("t", {1: [2], 0: [1]}, 3)


@pytest.mark.parametrize(
    ("added", "refused"),
    [
        ({3: [], 2: [1, 1]}, "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2."),
        ({2: [], 3: [1, 1]}, "Cannot have replication factor of 0 for partition id 2."),
        (
            {2: [1, 2], 3: [1, 7]},
            "Some brokers specified for partition id 3 are not available. Specified brokers: 1, 7, "
            "available brokers: 1, 2, 3.",
        ),
        (
            {2: [1], 3: [1, 2], 4: [3, 2, 1]},
            "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [2, 4] have "
            "replication factors [1, 3], respectively.",
        ),
        ({3: [1, 2]}, "partitions should be a consecutive 0-based integer sequence"),
        (
            {},
            "The number of partitions for a topic can only be increased. Topic t currently has 2 partitions, "
            "2 would not be an increase.",
        ),
    ],
)
def test_partitions_added_by_hand_are_refused_in_kafkas_order(added: Any, refused: str) -> None:
    assert message_of(check_added_replicas, "t", {0: [1, 2], 1: [2, 1]}, added, {3, 1, 2}) == refused


def test_partitions_added_by_hand_that_fit_are_taken() -> None:
    check_added_replicas("t", {0: [1, 2]}, {1: [3, 1], 2: [2, 3]}, [1, 2, 3])


# Deletion


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_internal_topics_are_not_deleted(topic: Any) -> None:
    assert message_of(check_deletable, topic) == (
        f"Topic {topic} is a kafka internal topic and is not allowed to be marked for deletion."
    )


def test_other_topics_may_be_deleted() -> None:
    check_deletable("__consumer_offsets2")


# What the brokers say of their own topics


def test_a_topic_that_the_brokers_call_internal_is_as_those_known_by_name() -> None:
    told = KafkasOwn(frozenset({"__of_a_later_kafka"}))
    assert told.holds_back("__of_a_later_kafka")
    assert message_of(check_deletable, "__of_a_later_kafka", told) == (
        "Topic __of_a_later_kafka is a kafka internal topic and is not allowed to be marked for deletion."
    )
    assert message_of(check_more_partitions, "__of_a_later_kafka", {0: [1]}, 2, told) == (
        "The number of partitions for the internal topic __of_a_later_kafka cannot be changed."
    )
    assert {name for name in (*INTERNAL_TOPICS, "orders") if told.holds_back(name)} == INTERNAL_TOPICS
    check_deletable("__of_a_later_kafka")


def test_the_topic_of_remote_segments_keeps_its_partitions_though_kafka_calls_it_ordinary() -> None:
    assert message_of(check_more_partitions, "__remote_log_metadata", {0: [1]}, 2) == (
        "The number of partitions for the internal topic __remote_log_metadata cannot be changed."
    )
    assert BY_NAME.holds_back("__remote_log_metadata")
    check_deletable("__remote_log_metadata")  # as Kafka: the house rules hold it back


def test_the_topic_of_the_lock_is_held_back_and_none_that_merely_looks_so() -> None:
    assert BY_NAME.holds_back("__kafka_rebalance")
    assert not BY_NAME.holds_back("__orders")
