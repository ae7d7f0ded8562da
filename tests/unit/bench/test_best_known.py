"""The fewest bytes known: by trying all lists of a cluster that has few."""

from __future__ import annotations

from itertools import product

import numpy as np

from bench.best_known import Known, best_known
from bench.scoring import METRICS, Cluster, reachable

SIZES = np.array([5.0, 3.0, 2.0, 2.0, 1.0, 1.0])


def cluster_of(lists: list[int]) -> Cluster:
    """Partitions of one replica each, of topics of their own, on three brokers of one rack."""
    rows, brokers = len(lists), 3
    return Cluster(
        brokers={1 + number: number for number in range(brokers)},
        racks=np.zeros(brokers, dtype=np.int64),
        staying=np.ones(brokers, dtype=bool),
        capacity=dict.fromkeys(METRICS, np.ones(brokers)),
        rows={(f"topic-{row}", 0): row for row in range(rows)},
        topic=np.arange(rows),
        replicas=np.array(lists)[:, None],
        size_bytes=SIZES,
        bytes_in=np.ones(rows),
        bytes_out=np.ones(rows),
    )


def known(lists: list[int], plan: list[int], tolerance: float, nodes: int = 1_000) -> Known | None:
    return best_known(cluster_of(lists), np.array(plan)[:, None], tolerance, nodes)


def test_the_best_known_bytes_are_the_fewest_of_all_lists_within_the_tolerance() -> None:
    cluster = cluster_of([0, 0, 0, 0, 1, 1])
    share = reachable(cluster, "disk")
    fewest = min(
        SIZES[np.array(lists) != cluster.replicas[:, 0]].sum()
        for lists in product(range(3), repeat=len(SIZES))
        if (np.abs(np.bincount(lists, SIZES, minlength=3) / share - 1) <= 0.5).all()
        and (np.abs(np.bincount(lists, minlength=3) / 2 - 1) <= 0.5).all()
    )
    found = known([0, 0, 0, 0, 1, 1], [0, 1, 2, 2, 1, 1], 0.5)
    assert found is not None
    assert found.fewest == fewest
    assert fewest * 0.998 - 1 <= found.least <= fewest


def test_a_plan_outside_the_tolerance_is_compared_with_lists_that_end_as_even() -> None:
    assert known([0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1], 0.001) == Known(0, 0), "nothing is as even"
    found = known([0, 0, 0, 0, 1, 1], [0, 1, 2, 2, 2, 1], 0.001)  # disks 5, 4 and 5
    assert found is not None
    assert found.fewest == 8
    assert found.least >= 7
