"""Fewer bytes for the same balance: exchanges of what moves anyway, and taking back and rebuilding."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_rebalance.planning.bounds.targets import Bands, band, distance
from kafka_rebalance.planning.problem.arrays import replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import frame_of, placement_of, search_bands
from kafka_rebalance.planning.search.greedy import Effort, greedy, polish
from kafka_rebalance.planning.search.placement import Placement, spent
from kafka_rebalance.planning.search.trials import rebuilt, take_back
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def moved_for_nothing(capacity: int, after: list[list[int]], **columns: object) -> tuple[Placement, Bands]:
    """Four replicas of 1,000 bytes on each of two brokers, then `after`; bands that any of it is within."""
    disks = {1: capacity, 2: 100_000}
    brokers = broker_rows([1, 2], disk_capacity_bytes=disks, **columns)  # type: ignore[arg-type]
    rows = partition_rows([[1]] * 4 + [[2]] * 4)
    for number, row in enumerate(rows):
        row |= {"topic": f"topic-{number}", "partition": 0}  # which crowd nothing
    problem = problem_of(brokers, rows)
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    now = np.searchsorted(problem.brokers, np.array(after))
    nothing_pinned = np.zeros(now.shape, dtype=bool)
    placement = placement_of(frame, now, problem.replicas, nothing_pinned, spent(problem, now))
    return placement, Bands(np.zeros_like(placement.loads), np.full_like(placement.loads, np.inf))


@pytest.mark.parametrize("capacity", [100_000, 4_000], ids=["with room", "that is full"])
def test_a_replica_goes_home_to_a_disk(capacity: int) -> None:
    """It lies there already: a plan without its move needs no room."""
    placement, bands = moved_for_nothing(capacity, [[1]] * 3 + [[2]] * 5)
    take_back(placement, bands)
    assert (placement.replicas == placement.origin).all()
    assert placement.budget.bytes == 0


def test_a_replica_goes_home_to_a_log_dir_that_would_not_take_it_anew() -> None:
    full = [{"path": path, "total_bytes": 2_000, "usable_bytes": 100} for path in ("/a", "/b")]
    placement, bands = moved_for_nothing(100_000, [[1]] * 3 + [[2]] * 5, log_dirs={1: full})
    take_back(placement, bands)
    assert (placement.replicas == placement.origin).all()


def test_a_replica_stays_away_where_another_took_its_room() -> None:
    placement, _ = moved_for_nothing(4_000, [[1]] * 3 + [[2]] + [[1]] + [[2]] * 3)
    assert not placement.legal(np.array([3]), np.array([[0]]), home=True).any()


@pytest.mark.slow
def test_searching_a_part_anew_leaves_no_disk_beyond_its_limit() -> None:
    """Bands far wider than the disks' limits, so that only the limits keep replicas away."""
    rng = np.random.default_rng(2)
    ids, lean = list(range(1, 15)), np.array([4.0] * 3 + [1.0] * 11)
    lists = [(rng.choice(14, 2, replace=False, p=lean / lean.sum()) + 1).tolist() for _ in range(400)]
    rows = partition_rows(lists, size_bytes=(rng.lognormal(7, 1.2, 400) + 1).astype(int).tolist())
    mean = 2 * sum(row["size_bytes"] for row in rows) / len(ids)
    capacity = {broker: int(mean * rng.uniform(0.9, 1.12) / 0.8) for broker in ids}
    problem = problem_of(broker_rows(ids, disk_capacity_bytes=capacity), rows, tolerance=0.2)
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    lists_now, pinned = problem.replicas, np.zeros(problem.replicas.shape, dtype=bool)
    placement = placement_of(frame, lists_now, lists_now, pinned, spent(problem, lists_now))
    bands, effort = band(frame.targets, 0.2), Effort(rebuilds=12, rebuilt=0.25)
    rng = np.random.default_rng(2)
    greedy(placement, search_bands(frame, placement, 0.01), problem.receivers, effort, rng)
    polish(placement, bands, problem.receivers, effort, rng)
    take_back(placement, bands)
    assert not placement.too_full
    assert not rebuilt(placement, bands, problem.receivers, effort, rng, 0).too_full


def searched(
    after: list[list[int]], before: list[list[int]], racks: dict[int, str], tolerance: float
) -> tuple[Placement, Bands]:
    """Replicas of 1,000 bytes, one topic each, that were at `before` and are at `after`."""
    rows = partition_rows(before)
    rng = np.random.default_rng(5)
    for number, row in enumerate(rows):
        row |= {"topic": f"topic-{number:03}", "partition": 0, "size_bytes": int(rng.integers(500, 1500))}
    problem = problem_of(
        broker_rows(sorted({b for row in before + after for b in row}), racks), rows, tolerance=tolerance
    )
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    now = np.searchsorted(problem.brokers, np.array(after))
    placement = placement_of(frame, now, problem.replicas, np.zeros(now.shape, dtype=bool), spent(problem, now))
    return placement, band(frame.targets, tolerance)


def test_what_moves_anyway_goes_elsewhere_before_anything_else_moves() -> None:
    before = [[1]] * 7 + [[2]] * 4 + [[3]] * 1
    after = [[2]] * 3 + [[1]] * 4 + [[2]] * 4 + [[3]] * 1  # 2 has three too many, 3 misses three
    placement, bands = searched(after, before, {}, 0.2)
    copied = placement.budget.bytes
    polish(placement, bands, placement.receivers, Effort(), np.random.default_rng(0))
    assert distance(placement.loads, bands.low, bands.high).max() < 1e-9
    assert placement.budget.bytes <= copied


def test_rebuilding_leaves_no_rack_worse() -> None:
    """Where every rack holds one replica of everything, each is judged for itself."""
    racks = {broker: f"rack-{broker % 2}" for broker in range(12)}
    rng = np.random.default_rng(1)
    before = [
        [int(2 * a), int(2 * b + 1)] for a, b in zip(rng.binomial(5, 0.3, 150), rng.binomial(5, 0.3, 150), strict=True)
    ]
    before += [[broker, (broker + 1) % 12] for broker in range(12)]
    placement, bands = searched(before, before, racks, 0.05)
    assert placement.tight
    givers, effort = placement.receivers, Effort(rebuilds=4)
    greedy(placement, bands, givers, effort, np.random.default_rng(0))
    polish(placement, bands, givers, effort, np.random.default_rng(0))
    found = rebuilt(placement, bands, givers, effort, np.random.default_rng(0), 0)

    def bytes_of(some: Placement) -> list[int]:
        away = some.replicas != some.origin
        return [int((some.sizes[:, None] * (away & mask[some.replicas])).sum()) for mask, _ in some.groups]

    assert distance(found.loads, bands.low, bands.high).max() < 1e-9
    assert all(now <= then for now, then in zip(bytes_of(found), bytes_of(placement), strict=True))
    assert found.budget.bytes == sum(bytes_of(found)) < placement.budget.bytes
