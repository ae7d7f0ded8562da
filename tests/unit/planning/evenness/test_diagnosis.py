"""Why a plan is proposed: what is off in the snapshot, and which disk is full first."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafka_rebalance.documents.snapshot import FullestLogDir
from kafka_rebalance.planning.evenness import fullest_log_dir, outlook
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of, with_growth

DISKS = dict.fromkeys((1, 2, 3), 10000)


def test_brokers_beyond_the_tolerance_are_counted_and_the_highest_named() -> None:
    found = in_json(outlook(problem_of(broker_rows([1, 2, 3]), partition_rows([[1, 2], [1, 2], [1, 2]]))))
    disk = next(one for one in found["off"] if one["metric"] == "disk")
    assert (disk["above"], disk["below"]) == (2, 1)
    assert disk["highest"] == {"broker": 1, "share": 1.5}
    assert disk["lowest"] == {"broker": 3, "share": 0.0}
    assert found["tolerance"] == 0.1
    assert (found["fullest_disk"], found["first_full"], found["leaving"]) == (None, None, None)


def test_replicas_outside_their_pool_are_counted_with_their_brokers() -> None:
    pool = {"broker_pools": [{"topics": ["pay*"], "brokers": [1, 2]}]}
    rows = partition_rows([[1, 3], [3, 2]], topic="payments") + partition_rows([[4, 3], [1, 4]], topic="orders")
    found = outlook(problem_of(broker_rows([1, 2, 3, 4]), rows, **pool))
    assert in_json(found)["strays"] == {"replicas": 3, "brokers": [1, 3]}
    at_home = partition_rows([[1, 2]], topic="payments") + partition_rows([[4, 3]], topic="orders")
    assert outlook(problem_of(broker_rows([1, 2, 3, 4]), at_home, **pool)).strays is None
    assert outlook(problem_of(broker_rows([1, 2, 3, 4]), rows)).strays is None


def test_the_disk_that_is_full_first_is_the_one_that_its_growth_fills_not_the_fullest() -> None:
    rows = partition_rows([[1, 2], [3]], size_bytes=[8_000, 4_000])
    problem = problem_of(broker_rows([1, 2, 3], disk_capacity_bytes=DISKS), rows)
    assert in_json(outlook(problem))["first_full"] is None
    found = in_json(outlook(with_growth(problem, np.array([100.0, 1_000.0]))))
    assert found["fullest_disk"] == {"broker": 1, "used_bytes": 8_000, "capacity_bytes": 10_000}
    assert found["first_full"] == {"broker": 3, "days": 6.0, "growth_bytes_per_day": 1_000}
    assert in_json(outlook(with_growth(problem, np.array([-5.0, 0.0]))))["first_full"] is None


def test_what_is_to_be_emptied_and_racks_that_share_a_fate_are_told() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    rows = broker_rows([1, 2, 3, 4], racks | {4: "b"})
    problem = problem_of(rows, partition_rows([[1, 2], [2, 3]]), job="drain", drain=[3])
    assert in_json(outlook(problem))["leaving"] == {"brokers": [3], "replicas": 1, "bytes": 1_000, "leaders": 0}
    shared = problem_of(broker_rows([1, 2, 3], racks), partition_rows([[1, 2], [2, 3]]))
    assert in_json(outlook(shared))["rack_violations"] == 1


def test_the_fullest_log_dir_is_found_among_brokers_that_stay_and_tell_the_sizes_of_several() -> None:
    def dirs(*usable: int | None) -> list[dict[str, Any]]:
        total = [None if left is None else 1_000 for left in usable]
        return [
            {"path": f"/data{number}", "total_bytes": of, "usable_bytes": left}
            for number, (of, left) in enumerate(zip(total, usable, strict=True), 1)
        ]

    several = {1: dirs(400, 90), 2: dirs(0), 3: dirs(0, 500), 4: dirs(None, None)}
    rows = partition_rows([[1], [3], [4]], log_dirs=[["/data1"], ["/data2"], ["/data1"]])
    problem = problem_of(broker_rows([1, 2, 3, 4], log_dirs=several), rows, job="drain", drain=[3])
    assert fullest_log_dir(problem) == FullestLogDir(1, "/data2", 910, 1_000)
    assert fullest_log_dir(problem_of(broker_rows([1, 2], log_dirs={1: dirs(0), 2: dirs(0)}), rows[:1])) is None
