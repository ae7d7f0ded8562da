"""What no move of replicas can mend, and what moves can still do beside it."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.planning.evenness.hot_spots import HotSpot, reach
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

LIMIT = 0.2
BROKERS = broker_rows([1, 2, 3, 4])


def rows(lists: list[list[int]], sizes: list[int]) -> list[dict[str, object]]:
    made = partition_rows(lists)
    return [{**row, "size_bytes": size} for row, size in zip(made, sizes, strict=True)]


def disk(lists: list[list[int]], sizes: list[int], brokers: list[dict[str, object]] = BROKERS) -> Any:
    return reach(problem_of(brokers, rows(lists, sizes)), ["disk"], LIMIT)["disk"]


def test_one_partition_that_is_more_than_any_brokers_share_cannot_be_moved_into_balance() -> None:
    found = disk([[1], [2], [3], [4]], [1000, 100, 100, 100])
    assert found.can_help is False
    assert found.hot_spots == (HotSpot("orders", 0, 3.08),)


def test_what_lies_beside_the_hot_spot_can_still_be_moved_off() -> None:
    found = disk([[1], [1], [1], [2], [3], [4]], [1000, 200, 200, 100, 100, 100])
    assert found.can_help is True
    assert [spot.partition for spot in found.hot_spots] == [0]


def test_the_other_brokers_are_judged_among_themselves() -> None:
    assert disk([[1], *[[2]] * 6, [3], [4]], [10_000, *[100] * 6, 100, 100]).can_help is True


def test_two_hot_spots_on_one_broker_can_be_parted() -> None:
    assert disk([[1], [1], [2], [3], [4]], [1000, 1000, 50, 50, 50]).can_help is True


def test_an_ordinary_imbalance_has_no_hot_spot_and_can_be_mended() -> None:
    found = disk([[1]] * 6 + [[2]] * 2, [100] * 8)
    assert (found.can_help, found.hot_spots) == (True, ())


def test_what_the_racks_force_cannot_be_mended() -> None:
    """Two replicas in two racks, one of them with a single broker: it holds a copy of everything."""
    brokers = broker_rows([1, 2, 3], racks={1: "a", 2: "a", 3: "b"})
    lists = [[1, 3], [2, 3]] * 6
    found = disk(lists, [100] * 12, brokers)
    assert (found.can_help, found.hot_spots) == (False, ())


def test_fewer_partitions_than_brokers_leave_some_without_a_leader_whatever_is_moved() -> None:
    problem = problem_of(broker_rows(range(1, 11)), rows([[1, 2], [3, 4], [5, 6]], [1, 1, 1]))
    assert reach(problem, ["leaders"], LIMIT)["leaders"].can_help is False


@pytest.mark.parametrize("metric", ["disk", "replicas", "leaders"])
def test_a_balanced_cluster_has_nothing_to_mend(metric: str) -> None:
    problem = problem_of(BROKERS, rows([[1, 2], [2, 3], [3, 4], [4, 1]], [100] * 4))
    assert reach(problem, [metric], LIMIT)[metric].can_help is False
