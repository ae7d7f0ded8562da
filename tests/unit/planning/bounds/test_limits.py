"""Limits, batches, bounds and disk space."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.planning.bounds.lp_bound import makespan_bound, moved_bytes_bound
from kafka_rebalance.planning.bounds.targets import water_filled
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of


@pytest.mark.parametrize(
    ("limit", "value", "figure"),
    [
        ("max_bytes", 5500, "moved_bytes"),
        ("max_leader_changes", 3, "leader_changes"),
    ],
)
def test_a_limit_stops_the_plan_short_and_is_named_with_its_figures(limit: str, value: int, figure: str) -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 1]] * 12)
    free = plan_of(brokers, partitions)
    plan = plan_of(brokers, partitions, **dict[str, Any]({limit: value}))
    assert free.candidate.summary[figure] > value
    assert 0 < plan.candidate.summary[figure] <= value
    assert plan.candidate.status == "partial"
    assert f"{limit} {value:,}" in plan.note


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 1]] * 12)
    free, limited = plan_of(brokers, partitions), plan_of(brokers, partitions, max_bytes=10**9)
    assert limited.candidate.moves == free.candidate.moves
    assert limited.candidate.status == free.candidate.status == "ok"


@pytest.mark.parametrize("limits", [{"max_bytes": 1999}, {"max_leader_changes": 0}])
def test_a_drain_that_does_not_fit_the_limits_is_infeasible_with_figures(limits: dict[str, int]) -> None:
    brokers, partitions = broker_rows([1, 2, 3]), partition_rows([[1, 2], [1, 3]])
    plan = plan_of(brokers, partitions, "light", job="drain", drain=[1], **limits)
    assert plan.candidate.status == "infeasible"
    assert plan.candidate.moves == ()
    (limit,) = limits
    assert f"against {limit} {limits[limit]:,}" in plan.note


def test_no_broker_sends_or_receives_more_copies_in_a_batch_than_allowed() -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 3], [3, 1]] * 10)
    plan = plan_of(brokers, partitions, copies_per_broker=2, tolerance=0.02)
    for batch in plan.candidate.batches:
        assert max(Counter(broker for move in batch.moves for broker in move.added).values(), default=0) <= 2
    assert len(plan.candidate.batches) >= 7  # broker 4 receives 15 replicas, two at a time


def test_batches_are_even_so_that_barriers_cost_little() -> None:
    brokers = broker_rows(range(1, 11))
    sizes = [10_000 // (1 + number % 17) for number in range(300)]
    partitions = partition_rows([[1 + number % 8, 1 + (number + 3) % 8] for number in range(300)], size_bytes=sizes)
    plan = plan_of(
        brokers,
        partitions,
        tolerance=0.02,
        copies_per_broker=100,
        partitions_per_batch=20,
        throttle_bytes_per_second=10,
    )
    assert len([batch for batch in plan.candidate.batches if any(move.added for move in batch.moves)]) >= 3
    figures = plan.candidate.summary
    assert figures["makespan_bound_seconds"] <= figures["makespan_seconds"] <= 1.3 * figures["makespan_bound_seconds"]


def test_rack_repairs_run_first_and_pure_reordering_last() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
    lists = [[1, 2, 3]] * 20 + [[1, 4, 2]]
    plan = plan_of(
        broker_rows(racks, racks), partition_rows(lists), tolerance=0.02, partitions_per_batch=3, copies_per_broker=2
    )
    repairs = [move.batch for move in plan.candidate.moves if "more racks" in move.reason]
    copying = [move.batch for move in plan.candidate.moves if move.added]
    reordering = [move.batch for move in plan.candidate.moves if not move.added]
    assert repairs == [1]
    assert not reordering or max(copying) < min(reordering)


def test_peak_disk_counts_both_copies_while_they_exist() -> None:
    brokers = broker_rows([1, 2], disk_capacity_bytes={1: 10_000, 2: 10_000})
    plan = plan_of(brokers, partition_rows([[1]] * 4), copies_per_broker=1)
    assert plan.candidate.summary["peak_disk_fraction"] == 0.4
    full = broker_rows([1, 2], disk_capacity_bytes={1: 10_000, 2: 10_000}, disk_used_bytes={1: 5_000, 2: 0})
    assert plan_of(full, partition_rows([[1]] * 4)).candidate.summary["peak_disk_fraction"] == 0.5


def test_no_broker_is_filled_beyond_its_headroom() -> None:
    used = {1: 4_000, 2: 8_000, 3: 8_500}
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys(used, 10_000), disk_used_bytes=used)
    plan = plan_of(brokers, partition_rows([[1]] * 4), disk_headroom=0.1)
    added = Counter(broker for move in plan.candidate.moves for broker in move.added)
    assert added[2] <= 1
    assert added[3] == 0
    assert plan.candidate.summary["peak_disk_fraction"] <= 0.9


def test_water_filled_bands_make_what_is_over_equal_what_is_under() -> None:
    load, target = np.array([0.0, 1.5, 1.2, 1.3]), np.ones(4)
    low, high = water_filled(load, target, np.ones(4, dtype=bool), np.ones(4, dtype=bool), 0.1, 0.0)
    assert low[0] == pytest.approx(0.9)
    assert np.maximum(0, load - high).sum() == pytest.approx(np.maximum(0, low - load).sum())
    assert high[0] <= 1.1


def test_the_bound_counts_what_must_leave_or_arrive_whichever_is_more() -> None:
    load, stays = np.array([0.0, 150.0, 150.0]), np.ones(3, dtype=bool)
    bands = np.full(3, 90.0), np.full(3, 110.0)
    assert moved_bytes_bound(load, bands, stays, 0.0, same_factor=True) == 90
    assert moved_bytes_bound(load, bands, stays, 30.0, same_factor=True) == 110
    assert moved_bytes_bound(np.array([90.0, 150.0, 150.0]), bands, stays, 0.0, same_factor=False) == 0


def test_no_order_of_copies_beats_the_busiest_broker() -> None:
    assert makespan_bound(np.array([100.0, 0.0]), np.array([40.0, 250.0]), 10) == 25
