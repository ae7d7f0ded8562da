"""The steps of the planner's whole job: what counts for which step, and how they grow."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench.clusters import SIZES, write_cluster
from bench.spark import whole_steps
from bench.spark.whole_job import STEPS, Submitted, Whole, _peaks, by_process, by_step
from bench.spark.whole_steps import Clock, steps_of
from kafka_rebalance.model.settings import Settings


def test_a_part_of_a_step_counts_for_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(whole_steps.time, "process_time", lambda: now)
    clock = Clock()

    def pass_by(seconds: float) -> None:
        nonlocal now
        now += seconds

    with clock.step("whole"):
        pass_by(1.0)
        with clock.step("part"):
            pass_by(2.0)
            clock.timed("part of the part", pass_by)(4.0)
        pass_by(8.0)
    assert dict(clock.spent) == {"whole": 9.0, "part": 2.0, "part of the part": 4.0}


def test_every_step_of_a_plan_has_a_line(tmp_path: Path) -> None:
    write_cluster(tmp_path / "S", "S", "add", 1)
    began = time.process_time()
    found = steps_of(tmp_path / "S", tmp_path, Settings(candidates=("leaders_only", "light")))
    taken = time.process_time() - began
    assert (
        {"read", "search of light", "batches: filled", "digest", "bounds", "write"} < found["steps"].keys() < set(STEPS)
    )
    assert sum(found["steps"].values()) <= taken
    assert found["moves"] > found["batches"] > 0


def test_the_exponent_compares_the_two_largest_sizes() -> None:
    assert SIZES["2xXL"].partitions == 2 * SIZES["XL"].partitions
    rows = [
        Whole(size, {"read": read, "write": 0.01}, replicas, 10, 2, 2**20)
        for size, read, replicas in (("L", 9.0, 450_000), ("XL", 3.0, 1_000_000), ("2xXL", 12.0, 2_000_000))
    ]
    lines = list(by_step(rows))
    assert "| read | 9.00 | 3.00 | 12.00 | 2.00 |" in lines
    assert "| write | 0.01 | 0.01 | 0.01 |  |" in lines
    small = Whole("S", {"read": 1.0, "search of optimal": 1.0}, 1_500, 10, 2, 2**20)
    assert "| search of optimal | 1.00 | – |  |" in list(by_step([small, rows[0]]))


def test_the_critical_path_is_the_driver_and_the_longest_candidate() -> None:
    taken = {"read": 1.0, "light": {"search": 2.0, "outcome": 3.0}, "balanced": {"search": 4.0, "outcome": 5.0}}
    row = Submitted("L", taken, 2**20, 2**21, 2**22, 60.0)
    assert (row.critical_seconds, row.executor_seconds) == (10.0, 14.0)
    assert list(by_process([row]))[-1] == "| L add | 10.0 | 14.0 | 1 | 2 | 4 | 60 |"


def test_the_peak_of_a_process_is_that_of_its_memory() -> None:
    ((_, peak), *_) = _peaks(os.getpid())
    assert peak > 2**20
