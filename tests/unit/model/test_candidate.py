"""Moves, candidates and their digest, and which replica lists may be requested."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.model.candidate import Candidate, brokers_touched, candidate_digest
from kafka_rebalance.model.partition import TopicPartition, is_uneven_over, replica_list_problem
from support.kafka.small_clusters import DIGEST, move, partition, tp


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
    ("replicas", "problem"),
    [
        ([], "the replica list is empty"),
        (["1", 2, None], "broker ids must be non-negative integers, not '1', None"),
        ([True, 2], "broker ids must be non-negative integers, not True"),
        ([1.0], "broker ids must be non-negative integers, not 1.0"),
        ([-1, 2, -3], "broker ids must be non-negative integers, not -1, -3"),
        ([3, 1, 3, 1, 2], "broker 1, 3 is listed more than once"),
        ([2, 2, 2], "broker 2 is listed more than once"),
        ([7, 1, 8], "broker 7, 8 is not registered"),
    ],
)
def test_a_list_that_harms_the_cluster_is_told_with_what_is_wrong(replicas: Sequence[object], problem: str) -> None:
    assert replica_list_problem(replicas, {0, 1, 2, 3}) == problem


@pytest.mark.parametrize("replicas", [[0], [1, 2, 3], (3, 0)])
def test_a_list_of_distinct_registered_brokers_has_no_problem(replicas: Sequence[object]) -> None:
    assert replica_list_problem(replicas, {0, 1, 2, 3}) is None


def test_brokers_are_not_compared_where_nobody_says_which_are_registered() -> None:
    assert replica_list_problem([7, 8]) is None
    assert replica_list_problem([7, 8], ()) == "broker 7, 8 is not registered"


RACKS = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: None, 7: None}


@pytest.mark.parametrize(
    ("replicas", "is_uneven"),
    [
        ([], False),
        ([1, 4], False),
        ([1, 2, 4, 6], False),  # one more than another rack
        ([1, 2, 4], True),  # no replica on those without a rack, which count as one
        ([1, 2, 3, 4, 5, 6, 7], False),  # three of a, but the others have no broker for one more
        ([1, 2, 3, 4, 6], True),
        ([9, 1, 4, 6], False),  # a broker that may not hold it counts in no rack
    ],
)
def test_a_list_is_uneven_where_another_rack_has_two_less_and_a_broker(replicas: list[int], is_uneven: bool) -> None:
    assert is_uneven_over(RACKS, replicas) is is_uneven


def test_racks_that_hold_nothing_of_an_empty_list_are_even() -> None:
    assert not is_uneven_over({}, [])
    assert not is_uneven_over({1: "a"}, [])
