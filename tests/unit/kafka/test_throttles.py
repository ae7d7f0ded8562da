"""Replication throttles as kafka-reassign-partitions writes them (KIP-73, KAFKA-10779)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.throttles import (
    FOLLOWER_REPLICAS,
    format_throttled_replicas,
    parse_throttled_replicas,
    split_entry,
    throttle_problem,
    throttled_replicas,
)

T0, T1 = ("topic1", 0), ("topic1", 1)


@pytest.mark.parametrize(
    ("current", "target", "leader", "follower"),
    [
        # the documented example: topic1-1 does not change and is in no list
        ({T0: [100, 101], T1: [100, 102]}, {T0: [101, 102]}, ["0:100", "0:101"], ["0:102"]),
        ({T0: [100, 101], T1: [100, 102]}, {T0: [101, 102], T1: [100, 102]}, ["0:100", "0:101"], ["0:102"]),
        # all replicas change
        ({T0: [1, 2]}, {T0: [3, 4]}, ["0:1", "0:2"], ["0:3", "0:4"]),
        # a higher replication factor: every existing replica may lead
        ({T0: [1, 2]}, {T0: [1, 2, 3]}, ["0:1", "0:2"], ["0:3"]),
        # shrinking and reordering copy nothing, the topic is there all the same
        ({T0: [1, 2, 3]}, {T0: [3, 2]}, [], []),
        ({T0: [1, 2]}, {T0: [2, 1]}, [], []),
        # partition number before position, as numbers and not as text
        (
            {("topic1", 10): [2, 1], ("topic1", 2): [3, 1]},
            {("topic1", 10): [2, 4], ("topic1", 2): [3, 4]},
            ["2:3", "2:1", "10:2", "10:1"],
            ["2:4", "10:4"],
        ),
    ],
)
def test_2_0_throttles_existing_replicas_as_leaders_and_gained_brokers_as_followers(
    current: Any, target: Any, leader: Any, follower: Any
) -> None:
    assert throttled_replicas(current, target) == {"topic1": {"leader": leader, "follower": follower}}


def test_2_6_lists_every_planned_partition_as_leader_and_sorts_as_text() -> None:
    current = {T0: [1, 2], ("topic1", 10): [12, 3], ("topic1", 9): [5, 4]}
    target = {T0: [2, 1], ("topic1", 10): [3, 7], ("topic1", 9): [5]}
    assert throttled_replicas(current, target, version="2.6.0") == {
        "topic1": {"leader": ["0:1", "0:2", "10:12", "10:3", "9:4", "9:5"], "follower": ["10:7"]}
    }
    assert throttled_replicas(current, target, version="3.9.2") == throttled_replicas(current, target, version="2.6")
    assert throttled_replicas(current, target, version="2.5.1") == {
        "topic1": {"leader": ["10:12", "10:3"], "follower": ["10:7"]}
    }


def test_each_topic_of_the_plan_has_its_own_lists() -> None:
    current = {("a", 0): [1], ("b", 0): [2], ("c", 0): [3]}
    assert throttled_replicas(current, {("a", 0): [2], ("b", 0): [2]}) == {
        "a": {"leader": ["0:1"], "follower": ["0:2"]},
        "b": {"leader": [], "follower": []},
    }


def test_a_partition_that_does_not_exist_is_refused_with_kafkas_message() -> None:
    with pytest.raises(KafkaRuleError) as refused:
        throttled_replicas({T0: [1]}, {T0: [2], ("topic1", 7): [2]})
    assert refused.value.kafka_message == "The proposed assignment contains non-existent partitions: topic1-7"


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ("", ()),
        ("*", ("*",)),
        (" * ", ("*",)),
        ("*,0:1", ("*",)),  # 2.0 looks at the first entry only
        ("0:100,0:101", ("0:100", "0:101")),
        (" 0:100 , 0:101 ", ("0:100", "0:101")),
        ("0:100,,0:101,", ("0:100", "0:101")),
        ("0:100,0:100", ("0:100",)),
    ],
)
def test_a_list_value_is_read_as_kafka_reads_it(value: str, entries: Any) -> None:
    assert parse_throttled_replicas(value) == entries


@pytest.mark.parametrize("value", ["0", "0:", ":1", "0:1:2", "a:1", "0:1,*", "0:-1", "0 1", "0:1;1:1", "٣:1"])
def test_a_list_value_that_brokers_cannot_load_is_refused_with_kafkas_message(value: str) -> None:
    with pytest.raises(KafkaRuleError) as refused:
        parse_throttled_replicas(value, FOLLOWER_REPLICAS)
    assert refused.value.kafka_message.startswith(f"Invalid value {value} for configuration {FOLLOWER_REPLICAS}: ")
    assert "must be the literal '*' or a list of replicas" in refused.value.kafka_message


LEADER_RATE, LEADER_LIST = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ("brokers/1", {LEADER_RATE: "1000000", "follower.replication.throttled.rate": None}),
        ("topics/a.b_c-d", {LEADER_LIST: "0:1,1:2"}),
        ("topics/t", {LEADER_LIST: "*", "follower.replication.throttled.replicas": ""}),
        ("topics/t", {LEADER_LIST: "0:1, 1:2"}),
    ],
)
def test_throttles_in_the_right_form_are_writable(entity: str, changes: Any) -> None:
    assert throttle_problem(entity, changes) is None


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ("brokers/1", {LEADER_LIST: "0:1"}),
        ("brokers/1", {"log.segment.bytes": None}),
        ("brokers/1", {LEADER_RATE: 1000}),
        ("brokers/1", {LEADER_RATE: "-1"}),
        ("brokers/1", {LEADER_RATE: "1e6"}),
        ("brokers/1", {LEADER_RATE: "9223372036854775808"}),
        ("brokers/<default>", {LEADER_RATE: "1"}),
        ("brokers/01", {LEADER_RATE: "1"}),
        ("brokers/1/x", {LEADER_RATE: "1"}),
        ("topics/t", {LEADER_RATE: "1"}),
        ("topics/t", {"retention.ms": "1"}),
        ("topics/t", {LEADER_LIST: "0-1"}),
        ("topics/t", {LEADER_LIST: "0:1,"}),
        ("topics/..", {LEADER_LIST: "*"}),
        ("users/u", {LEADER_RATE: "1"}),
        ("", {LEADER_RATE: "1"}),
    ],
)
def test_anything_but_a_throttle_in_the_right_form_is_refused(entity: str, changes: Any) -> None:
    assert throttle_problem(entity, changes)


REPLICAS = st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True)


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 9999)), unique=True))
def test_a_written_list_reads_back_the_same(pairs: Any) -> None:
    entries = tuple(f"{partition}:{broker}" for partition, broker in pairs)
    assert parse_throttled_replicas(format_throttled_replicas(entries)) == entries
    assert tuple(map(split_entry, entries)) == tuple(pairs)


@given(st.dictionaries(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 12)), st.tuples(REPLICAS, REPLICAS)))
def test_exactly_the_gained_replicas_are_followers_and_none_is_on_both_sides(plan: Any) -> None:
    current = {tp: before for tp, (before, _) in plan.items()}
    target = {tp: after for tp, (_, after) in plan.items()}
    for version in ("2.0", "2.6"):
        lists = throttled_replicas(current, target, version=version)
        gained = {(topic, f"{p}:{b}") for (topic, p), (before, after) in plan.items() for b in set(after) - set(before)}
        assert {(topic, entry) for topic, sides in lists.items() for entry in sides["follower"]} == gained
        for sides in lists.values():
            assert not set(sides["leader"]) & set(sides["follower"])
            assert len(set(sides["leader"])) == len(sides["leader"])
