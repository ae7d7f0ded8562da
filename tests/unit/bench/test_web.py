"""The run that the pages are measured with, and the lines that are written of it."""

from __future__ import annotations

import numpy as np

from bench.web.large_run import moved
from bench.web.looks import Look, table
from kafka_rebalance.planning.rules.rack_rule import rack_rule, violations
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def test_each_drawn_move_takes_one_replica_to_another_broker_of_its_rack() -> None:
    racks = {broker: f"rack-{broker % 3}" for broker in range(1, 10)}
    lists = [[1 + n % 9, 1 + (n + 1) % 9, 1 + (n + 2) % 9] for n in range(40)]
    problem = problem_of(broker_rows(list(racks), racks), partition_rows(lists))
    after = moved(problem, np.random.default_rng(1), 0.5)
    changed = (after != problem.replicas).sum(axis=1)
    assert sorted(set(changed.tolist())) == [0, 1]
    assert changed.sum() == 20
    assert not violations(rack_rule(problem), after).any()


def test_every_look_is_a_line_of_seconds_and_kilobytes() -> None:
    lines = list(table([Look("the page", 0.984, 69_400)], {"the CSV files": 2.41}))
    assert lines[3] == "| the page | 0.98 | 69 |"
    assert lines[-1] == "Written once, after the plan: the CSV files in 2.4 s."
