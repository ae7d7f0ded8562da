"""Partitions that no broker can hold within its share, and what moves can still do beside them."""

from __future__ import annotations

import pytest

from kafka_rebalance.planning.evenness import HotSpot, hot_spots
from kafka_rebalance.planning.planner import can_be_more_even
from kafka_rebalance.planning.problem.arrays import Problem
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

LIMIT = 0.2
BROKERS = broker_rows([1, 2, 3, 4])


def held(
    lists: list[list[int]],
    sizes: list[int],
    brokers: list[dict[str, object]] = BROKERS,
    read: list[float] | None = None,
) -> Problem:
    rows = partition_rows(lists, size_bytes=sizes, bytes_out_per_second=read or [None] * len(lists))
    return problem_of(brokers, rows)


def helps(problem: Problem, metric: str = "disk") -> bool:
    return can_be_more_even(problem, [metric], LIMIT)[metric].can_help


def spots(problem: Problem, metric: str = "disk") -> tuple[HotSpot, ...]:
    return hot_spots(problem, [metric], LIMIT)[metric]


def test_one_partition_that_is_more_than_any_brokers_share_cannot_be_moved_into_balance() -> None:
    problem = held([[1], [2], [3], [4]], [1000, 100, 100, 100])
    assert not helps(problem)
    assert spots(problem) == (HotSpot("orders", 0, 3.08),)


def test_what_lies_beside_the_hot_spot_can_still_be_moved_off() -> None:
    problem = held([[1], [1], [1], [2], [3], [4]], [1000, 200, 200, 100, 100, 100])
    assert helps(problem)
    assert [spot.partition for spot in spots(problem)] == [0]


def test_a_hot_spot_hides_no_other_broker_that_is_far_off() -> None:
    sizes = [1000, *[50] * 20, 50, *[50] * 6]
    assert helps(held([[1], *[[2]] * 20, [3], *[[4]] * 6], sizes))


def test_two_hot_spots_on_one_broker_can_be_parted() -> None:
    assert helps(held([[1], [1], [2], [3], [4]], [1000, 1000, 50, 50, 50]))


def test_a_partition_that_is_read_more_than_any_brokers_share_is_a_hot_spot_of_leaders() -> None:
    lists = [[1, 2], [2, 3], [3, 4], [4, 1]]
    problem = held(lists, [100] * 4, read=[7.0, 1.0, 1.0, 1.0])
    assert not helps(problem, "leader_bytes_out")
    assert spots(problem, "leader_bytes_out") == (HotSpot("orders", 0, 2.8),)


def test_an_ordinary_imbalance_has_no_hot_spot_and_can_be_mended() -> None:
    problem = held([[1]] * 6 + [[2]] * 2, [100] * 8)
    assert (helps(problem), spots(problem)) == (True, ())


def test_what_the_racks_force_cannot_be_mended() -> None:
    """Two replicas in two racks, one of them with a single broker: it holds a copy of everything."""
    brokers = broker_rows([1, 2, 3], racks={1: "a", 2: "a", 3: "b"})
    problem = held([[1, 3], [2, 3]] * 6, [100] * 12, brokers)
    assert (helps(problem), spots(problem)) == (False, ())


def test_fewer_partitions_than_brokers_leave_some_without_a_leader_whatever_is_moved() -> None:
    problem = held([[1, 2], [3, 4], [5, 6]], [1, 1, 1], broker_rows(range(1, 11)))
    assert not helps(problem, "leaders")


@pytest.mark.parametrize("metric", ["disk", "replicas", "leaders"])
def test_a_balanced_cluster_has_nothing_to_mend(metric: str) -> None:
    assert not helps(held([[1, 2], [2, 3], [3, 4], [4, 1]], [100] * 4), metric)
