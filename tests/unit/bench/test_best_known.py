"""The fewest bytes known: by trying all lists of a cluster that has few."""

from __future__ import annotations

from itertools import product

import numpy as np

from bench.best_known import best_known
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


def test_the_best_known_bytes_are_the_fewest_of_all_lists_within_the_tolerance() -> None:
    cluster = cluster_of([0, 0, 0, 0, 1, 1])
    share = reachable(cluster, "disk")
    fewest = min(
        SIZES[np.array(lists) != cluster.replicas[:, 0]].sum()
        for lists in product(range(3), repeat=len(SIZES))
        if (np.abs(np.bincount(lists, SIZES, minlength=3) / share - 1) <= 0.5).all()
        and (np.abs(np.bincount(lists, minlength=3) / 2 - 1) <= 0.5).all()
    )
    assert best_known(cluster, cluster.replicas, 0.5, nodes=1_000) == fewest


def test_a_plan_within_the_tolerance_is_known_itself() -> None:
    cluster = cluster_of([0, 0, 1, 1, 2, 2])
    assert best_known(cluster, cluster.replicas, 0.9, nodes=0) == 0


def test_nothing_is_known_where_no_lists_are_within_the_tolerance() -> None:
    cluster = cluster_of([0, 0, 0, 0, 1, 1])
    assert best_known(cluster, cluster.replicas, 0.001, nodes=1_000) is None
