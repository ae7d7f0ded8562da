"""How many brokers to add, by the growth of the partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kafka_rebalance.documents.proposals import FurtherBrokers
from kafka_rebalance.planning.evenness import further_brokers, further_brokers_of_pools
from kafka_rebalance.planning.problem.arrays import Problem
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of, with_growth


def growing(lists: list[list[int]], racks: dict[int, str] | None, by_day: float) -> Problem:
    """Three brokers with disks of 10,000 bytes; each list holds 4,000 bytes and grows by so many a day."""
    brokers = broker_rows([1, 2, 3], racks, disk_capacity_bytes=dict.fromkeys((1, 2, 3), 10_000))
    problem = problem_of(brokers, partition_rows(lists, size_bytes=[4_000] * len(lists)))
    return with_growth(problem, np.full(len(lists), by_day))


def test_brokers_are_added_until_what_has_grown_fits_beside_the_headroom() -> None:
    # 24,000 bytes now, and 100 a day: 27,000, 33,000 and 42,000 bytes on disks that take 9,000 each.
    problem = growing([[1, 2], [2, 3], [3, 1]], None, 100 / 6)
    assert further_brokers(problem) == FurtherBrokers(10_000, 0.9, (30, 90, 180), (0, 1, 2))


def test_a_rack_that_holds_everything_needs_its_own_brokers() -> None:
    problem = growing([[1, 2, 3], [1, 2, 3]], dict(zip((1, 2, 3), "abc", strict=True)), 50 / 6)
    found = further_brokers(problem)  # 24,000 bytes now: 8,000 a rack, and 9,500 after ninety days
    assert found is not None
    assert found.brokers == (0, 3, 3)


def test_a_broker_that_is_emptied_gives_no_room_but_what_it_holds_stays() -> None:
    problem = growing([[1, 2], [2, 3], [3, 1]], None, 100 / 6)
    found = further_brokers(replace(problem, leaving=np.array([False, False, True])))
    assert found is not None
    assert found.brokers == (1, 2, 3)


@pytest.mark.parametrize("unknown", ["growth", "a disk", "it shrinks"])
def test_nothing_is_said_where_growth_or_a_disk_is_unknown(unknown: str) -> None:
    problem = growing([[1, 2], [2, 3]], None, -5.0 if unknown == "it shrinks" else 5.0)
    if unknown == "growth":
        problem = with_growth(problem, np.zeros(len(problem.partition)))
    if unknown == "a disk":
        problem = replace(problem, disk_capacity=np.array([10_000.0, np.nan, 10_000.0]))
    assert further_brokers(problem) is None


def in_pools(stray: bool = False) -> Problem:
    """Brokers 1 and 2 hold topic `paid`, which grows. Brokers 3 and 4 hold the rest, which shrinks."""
    brokers = broker_rows([1, 2, 3, 4], disk_capacity_bytes=dict.fromkeys((1, 2, 3, 4), 10_000))
    paid = partition_rows([[1, 2], [1, 3 if stray else 2]], topic="paid", size_bytes=[4_000] * 2)
    rest = partition_rows([[3, 4]], size_bytes=[9_000])
    pools = [{"topics": ["paid"], "brokers": [1, 2]}]
    problem = problem_of(brokers, [*paid, *rest], broker_pools=pools)
    grows = [25.0 if problem.topics[topic] == "paid" else -1.0 for topic in problem.topic]
    return with_growth(problem, np.array(grows))


@pytest.mark.parametrize("stray", [False, True])
def test_each_pool_is_told_its_own_brokers_and_a_stray_counts_in_its_pool(stray: bool) -> None:
    problem = in_pools(stray)
    assert further_brokers(problem) is None
    # 16,000 bytes now, and 100 a day: 19,000, 25,000 and 34,000 bytes on two disks that take 9,000 each.
    assert further_brokers_of_pools(problem) == (FurtherBrokers(10_000, 0.9, (30, 90, 180), (1, 1, 2), pool="paid"),)


def test_without_pools_no_pool_is_told_anything() -> None:
    assert further_brokers_of_pools(growing([[1, 2], [2, 3], [3, 1]], None, 100 / 6)) == ()


def test_an_unknown_disk_hides_only_its_own_pool() -> None:
    problem = in_pools()
    known = replace(problem, disk_capacity=np.array([10_000.0, 10_000.0, np.nan, 10_000.0]))
    assert [found.pool for found in further_brokers_of_pools(known)] == ["paid"]
    assert not further_brokers_of_pools(replace(problem, disk_capacity=np.array([np.nan, 1e4, 1e4, 1e4])))
