"""Moves, candidates, their digest, and the hard rules of a replica list."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.model.candidate import Candidate, brokers_touched, candidate_digest
from kafka_rebalance.model.connection import BrokerCapacity, ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import TopicPartition, replica_list_problem
from support.kafka.small_clusters import DIGEST, move, partition, tp
from support.plans.rack_rule import rack_rule_problem


@pytest.mark.parametrize(
    ("before", "after", "added", "removed", "leader"),
    [
        ([1, 2], [2, 3], (3,), (1,), True),
        ([1, 2], [2, 1], (), (), True),
        ([1, 2], [1, 3], (3,), (2,), False),
        ([1], [1, 2, 3], (2, 3), (), False),
        ([1, 2, 3], [1], (), (2, 3), False),
        ([], [1], (1,), (), True),  # a partition that an empty list has destroyed
    ],
)
def test_what_a_move_adds_removes_and_copies(before: Any, after: Any, added: Any, removed: Any, leader: bool) -> None:
    one = move("t-0", before, after, size=100)
    assert (one.added, one.removed, one.changes_leader) == (added, removed, leader)
    assert one.bytes_to_copy == 100 * len(added)


def test_a_move_that_only_reorders_replicas_copies_nothing() -> None:
    assert move("t-0", [1, 2, 3], [3, 1, 2]).bytes_to_copy == 0


def test_a_partition_is_named_by_topic_and_number_and_equals_a_plain_tuple() -> None:
    assert str(tp("my-topic-3")) == "my-topic-3"
    assert TopicPartition("t", 1) == ("t", 1)
    assert {("t", 1): "x"}[TopicPartition("t", 1)] == "x"


def test_a_partition_without_state_has_no_leader_and_nobody_in_sync() -> None:
    bare = dataclasses.replace(partition([1, 2]), state=None)
    assert (bare.leader, bare.isr) == (-1, ())


def test_batches_come_in_the_order_of_their_numbers_with_moves_in_the_order_given() -> None:
    moves = (
        move("t-3", [1], [2], batch=2),
        move("t-0", [1], [2], batch=10),
        move("t-1", [1], [2], batch=2),
        move("t-2", [1], [2], batch=1),
    )
    batches = Candidate("light", DIGEST, "ok", moves).batches
    assert [(batch.number, [str(m.topic_partition) for m in batch.moves]) for batch in batches] == [
        (1, ["t-2"]),
        (2, ["t-3", "t-1"]),
        (10, ["t-0"]),
    ]
    assert {batch.candidate_digest for batch in batches} == {DIGEST}


def test_a_candidate_without_moves_has_no_batches() -> None:
    assert Candidate("light", DIGEST, "ok", ()).batches == ()


MOVES = [move("t-0", [1, 2], [2, 3], batch=1), move("t-1", [1, 2], [2, 1], batch=2)]
BASE = candidate_digest("light", "snapshot", {"seed": 0}, MOVES)


@pytest.mark.parametrize(
    "other",
    [
        ("balanced", "snapshot", {"seed": 0}, MOVES),
        ("light", "another", {"seed": 0}, MOVES),
        ("light", "snapshot", {"seed": 1}, MOVES),
        ("light", "snapshot", {"seed": 0}, MOVES[:1]),
        ("light", "snapshot", {"seed": 0}, [move("t-0", [2, 1], [2, 3], batch=1), MOVES[1]]),
        ("light", "snapshot", {"seed": 0}, [move("t-0", [1, 2], [3, 2], batch=1), MOVES[1]]),
        ("light", "snapshot", {"seed": 0}, [move("t-0", [1, 2], [2, 3], batch=2), MOVES[1]]),
        ("light", "snapshot", {"seed": 0}, [move("u-0", [1, 2], [2, 3], batch=1), MOVES[1]]),
    ],
)
def test_whatever_would_run_differently_has_another_digest(other: Any) -> None:
    assert candidate_digest(*other) != BASE


@given(st.permutations(MOVES))
def test_the_order_of_the_moves_does_not_change_the_digest(moves: Any) -> None:
    assert candidate_digest("light", "snapshot", {"seed": 0}, moves) == BASE


def test_brokers_touched_are_those_before_and_after() -> None:
    assert brokers_touched(MOVES) == {1, 2, 3}


@pytest.mark.parametrize(
    ("replicas", "registered", "problem"),
    [
        ([1, 2], None, None),
        ([1, 2], {1, 2, 3}, None),
        ([0], None, None),
        ([], None, "the replica list is empty"),
        ([1, 1], None, "broker 1 is listed more than once"),
        ([3, 1, 3, 1], None, "broker 1, 3 is listed more than once"),
        (["1", 2], None, "broker ids must be non-negative integers, not '1'"),
        ([1.0], None, "broker ids must be non-negative integers, not 1.0"),
        ([True], None, "broker ids must be non-negative integers, not True"),
        ([None, [1]], None, "broker ids must be non-negative integers, not None, [1]"),
        ([-1], None, "broker ids must be non-negative integers, not -1"),
        ([1, 7], {1, 2}, "broker 7 is not registered"),
        ([1], set(), "broker 1 is not registered"),
    ],
)
def test_lists_that_must_not_reach_kafka(replicas: Any, registered: Any, problem: str | None) -> None:
    assert replica_list_problem(replicas, registered) == problem


RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}


@pytest.mark.parametrize(
    ("replicas", "racks", "problem"),
    [
        ([1], RACKS, None),
        ([1, 3], RACKS, None),
        ([1, 3, 5], RACKS, None),
        ([1, 2, 3, 5], RACKS, None),  # more replicas than racks: every rack holds one
        ([1, 2], RACKS, "2 replicas use 1 of 2 possible racks (a holds 2)"),
        ([1, 2, 3], RACKS, "3 replicas use 2 of 3 possible racks (a holds 2)"),
        ([1, 2, 3, 4], RACKS, "4 replicas use 2 of 3 possible racks (a holds 2, b holds 2)"),
        ([1, 2], RACKS | {9: None}, "2 replicas use 1 of 2 possible racks (a holds 2)"),
        ([1, 9], RACKS | {9: None}, None),  # brokers without a rack count as one rack
        ([8, 9], RACKS | {8: None, 9: None}, "2 replicas use 1 of 2 possible racks (no rack holds 2)"),
        ([1, 2], dict.fromkeys(RACKS), None),  # no broker has one: no rule
        ([1, 2], {}, None),
        ([1, 2], {1: "a", 2: "a"}, None),  # one rack only
        ([1, 9], RACKS, "2 replicas use 1 of 2 possible racks"),  # 9 is not registered, so its rack is unknown
    ],
)
def test_the_rack_rule(replicas: Any, racks: Any, problem: str | None) -> None:
    assert rack_rule_problem(replicas, racks) == problem


def test_secrets_do_not_show_in_a_repr() -> None:
    connection = ClusterConnection(
        "prod",
        ZooKeeperConnection("zk:2181/kafka", {"password": "hunter2"}, {"keyfile_password": "hunter2"}),
        KafkaConnection("b1:9092", {"sasl.password": "hunter2"}),
        capacities={1: BrokerCapacity(disk_bytes=5)},
    )
    assert "hunter2" not in repr(connection)
    assert "zk:2181/kafka" in repr(connection)
