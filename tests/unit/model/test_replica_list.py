"""The hard rules of a replica list: which lists may be requested, and what is said of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_rebalance.model.replica_list import replica_list_problem


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
