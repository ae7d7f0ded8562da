"""How many brokers to add, by the growth of the partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kafka_rebalance.documents.proposals.proposals import FurtherBrokers
from kafka_rebalance.planning.evenness.further_brokers import further_brokers
from kafka_rebalance.planning.problem.arrays import Problem
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def growing(lists: list[list[int]], racks: dict[int, str] | None, by_day: float) -> Problem:
    """Three brokers with disks of 10,000 bytes; each list holds 4,000 bytes and grows by so many a day."""
    brokers = broker_rows([1, 2, 3], racks, disk_capacity_bytes=dict.fromkeys((1, 2, 3), 10_000))
    problem = problem_of(brokers, partition_rows(lists, size_bytes=[4_000] * len(lists)))
    return replace(problem, growth_bytes_per_day=np.full(len(lists), by_day))


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
        problem = replace(problem, growth_bytes_per_day=None)
    if unknown == "a disk":
        problem = replace(problem, disk_capacity=np.array([10_000.0, np.nan, 10_000.0]))
    assert further_brokers(problem) is None
