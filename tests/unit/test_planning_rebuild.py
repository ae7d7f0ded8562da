"""Taking back what gained nothing, above all on disks that may receive nothing."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_rebalance.planning.arrays import replication
from kafka_rebalance.planning.bounds import Bands
from kafka_rebalance.planning.frame import frame_of, spent
from kafka_rebalance.planning.jobs import goal_of
from kafka_rebalance.planning.placement import Placement
from kafka_rebalance.planning.rebuild import take_back
from kafka_rebalance.planning.trials import placement_of
from snapshots import broker_rows, partition_rows, problem_of


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
    placement, bands = moved_for_nothing(4_000, [[1]] * 3 + [[2]] + [[1]] + [[2]] * 3)
    slots, homes = np.array([3]), np.array([[0]])
    assert not placement.legal(slots, homes, home=True).any()
    # What took it goes home first, to a disk with room, and then all is as it was.
    take_back(placement, bands)
    assert (placement.replicas == placement.origin).all()
