"""How even an assignment is, in a figure that always equals itself."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.evenness import scores
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def test_a_load_without_a_share_makes_the_spread_infinite_and_no_number_that_differs_from_itself() -> None:
    problem = problem_of(broker_rows([1, 2]), partition_rows([[1, 2]]), job="balance")
    loads = np.ones((2, 5))
    shares = np.array([[0.0] * 5, [1.0] * 5])
    found = scores(problem, loads, shares)
    assert all(np.isinf(one.cv) and np.isinf(one.max_over_mean) for one in found.values())
    assert found == scores(problem, loads, shares)
