"""Whether a move helps a broker that is off by less than the heaviest replica of the cluster."""

from __future__ import annotations

import pytest

from kafka_rebalance.planning.evenness import hot_spots
from kafka_rebalance.planning.planner import can_be_more_even
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

LIMIT = 0.2
LIGHTER = [40, *[10] * 10], [10] * 10, [10] * 6  # on brokers 1 to 3, of which each should hold 100
HEAVY_ALONE = [65, 65], [85], [85]


@pytest.mark.parametrize(("sizes", "possible"), [(LIGHTER, True), (HEAVY_ALONE, False)])
def test_lighter_replicas_help_a_broker_that_the_heaviest_would_excuse(
    sizes: tuple[list[int], ...], possible: bool
) -> None:
    held = [(broker, size) for broker, some in enumerate(sizes, 1) for size in some]
    rows = partition_rows([[broker] for broker, _ in held], size_bytes=[size for _, size in held])
    problem = problem_of(broker_rows([1, 2, 3]), rows)
    assert not hot_spots(problem, ["disk"], LIMIT)["disk"]
    assert can_be_more_even(problem, ["disk"], LIMIT)["disk"].can_help is possible


def test_leaders_of_lighter_partitions_help_too() -> None:
    lists = [[1, 2]] * 7 + [[2, 1]] * 3
    problem = problem_of(broker_rows([1, 2]), partition_rows(lists))
    found = can_be_more_even(problem, ["leaders", "disk"], LIMIT)
    assert found["leaders"].can_help
    assert not found["disk"].can_help


def test_what_racks_force_is_told_apart_from_what_moves_could_mend() -> None:
    """Each partition has a replica in each rack, so the two brokers of rack c carry a third of everything."""
    racks = dict(zip(range(1, 9), "aaabbbcc", strict=True))
    lists = [[1 + n % 3, 4 + n % 3, 7 + (n >= 66)] for n in range(120)]
    problem = problem_of(broker_rows(list(racks), racks), partition_rows(lists))
    found = can_be_more_even(problem, ["disk"], LIMIT)["disk"]
    assert not found.can_help
    assert found.forced == pytest.approx(1 / 3)  # a sixth instead of an eighth
    assert found.furthest == pytest.approx(0.1)  # 66 or 54 of 60


def test_brokers_of_a_pool_are_not_held_to_the_load_of_another() -> None:
    pools = [{"topics": ["pay*"], "brokers": [1, 2, 3]}]
    rows = [*partition_rows([[1], [2], [3]] * 6, topic="payments"), *partition_rows([[4], [5], [6]])]
    problem = problem_of(broker_rows(list(range(1, 7))), rows, broker_pools=pools)
    found = can_be_more_even(problem, ["disk"], LIMIT)["disk"]
    assert not found.can_help
    assert (found.furthest, found.forced) == pytest.approx((0.0, 0.0))
