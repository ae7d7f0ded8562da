"""The hard rules of a replica list: which lists may be requested, and what is said of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_rebalance.model.partition import is_uneven_over, replica_list_problem


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
