"""What executors give to a plan: the parts of a candidate, and the seconds that are computed from its tasks."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest

from bench.clusters import write_cluster
from bench.spark.executors import Cluster, Parts, executor_lines, part_lines, parts_of, seconds_on
from kafka_rebalance.model.settings import Settings


def test_a_cluster_is_named_by_size_scenario_and_racks() -> None:
    assert Cluster.named("L:skew") == Cluster("L", "skew", 6)
    assert Cluster.named("L:add:3") == Cluster("L", "add", 3)
    for wrong in ("L", "L:grow", "L:add:three", "L:add:3:4", "Q:add"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"^{wrong} is no cluster"):
            Cluster.named(wrong)


def test_one_description_runs_beside_another_search() -> None:
    tasks = [(4.0, 2.0), (1.0, 3.0)]
    assert seconds_on(tasks, 1) == 10.0
    assert seconds_on(tasks, 2) == 6.0  # the second is searched until 1 and described until 4
    assert seconds_on(tasks, 8) == 6.0  # the first candidate alone
    assert seconds_on([(4.0, 2.0), (1.0, 3.0), (1.0, 1.0)], 2) == 7.0  # descriptions wait for an executor


@pytest.mark.slow
def test_the_parts_of_a_candidate_are_all_of_its_time(tmp_path: Path) -> None:
    write_cluster(tmp_path / "S", "S", "add", 1)
    began = time.process_time()
    found = parts_of(tmp_path / "S", Settings())
    taken = time.process_time() - began
    assert list(found) == ["leaders_only", "light", "balanced", "optimal"]
    assert sum(sum(parts.task_seconds) for parts in found.values()) <= taken
    assert not found["leaders_only"].groups
    assert min(found["balanced"].spent.values()) > 0
    assert len(found["balanced"].groups) == 1, "S has lists of two replicas, so replicas may change their rack"


def test_racks_apart_save_what_the_longest_does_not_take() -> None:
    cluster = Cluster("L", "add", 3)
    spent = {"polish": 0.5, "solver": 0.0, "leaders": 3.0, "rest": 0.5, "description": 2.0}
    parts = Parts(spent, (1.0, 2.0, 1.0))
    assert parts.task_seconds == (8.0, 2.0)
    assert list(part_lines({cluster: {"balanced": parts}}))[-1] == (
        "| L add, 3 racks | 4.00 | 2.00 | 0.50 | – | 3.00 | 0.50 | 2.00 | 2.0 (20%) |"
    )
    lines = list(executor_lines({cluster: {"balanced": parts}}, {cluster: (12.0, 11.5)}))
    assert lines[-1] == "| L add, 3 racks | 10.0 | 10.0 | 10.0 | 10.0 | 10.0 | 12.0 | 11.5 |"
    assert list(executor_lines({cluster: {"balanced": parts}}, {}))[-1].endswith("| 10.0 | – | – |")
