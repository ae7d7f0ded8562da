"""No plan fills a disk beyond its headroom while both copies exist: what no order makes safe is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.planning.batches.schedule import schedule
from kafka_rebalance.planning.candidates import searched
from kafka_rebalance.planning.describe import described_candidate as described
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate, described_candidate
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.search.frame import FoundLists
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of, problem_of

# Brokers 1 and 2 are nearly full, 3 has room: nothing can come to 1 or 2 before something leaves them.
CAPACITY = {1: 1_100, 2: 1_100, 3: 10_000}
LISTS, SIZES = [[1], [2], [3], [3]], [950, 940, 100, 200]
EXCHANGE = {0: [2], 1: [1]}


def problem(**asked: Any) -> Problem:
    rows = partition_rows(LISTS)
    for row, size in zip(rows, SIZES, strict=True):
        row["size_bytes"] = size
    return problem_of(broker_rows([1, 2, 3], disk_capacity_bytes=CAPACITY), rows, tolerance=0.9, **asked)


def with_lists(lists: dict[int, list[int]]) -> DescribedCandidate:
    """Candidate `balanced`, as if its search had found these lists."""
    given = problem()
    found = searched(given, "balanced")
    assert isinstance(found, FoundLists)
    replicas = given.replicas.copy()
    for row, brokers in lists.items():
        replicas[row] = np.searchsorted(given.brokers, brokers)
    return described_candidate(given, "balanced", replace(found, replicas=replicas, unordered=replicas))


def test_an_order_that_empties_a_disk_first_is_found() -> None:
    plan = with_lists({0: [2], 1: [3], 2: [1]})
    assert [(move.topic_partition.partition, move.batch) for move in plan.candidate.moves] == [(1, 1), (0, 2), (2, 3)]
    assert (plan.candidate.summary["peak_disk_fraction"] or 0) <= 0.9


def test_a_plan_of_which_a_part_is_safe_is_partial() -> None:
    rows = partition_rows([[1], [2], [3], [3]])
    for row, size in zip(rows, [950, 940, 100, 200], strict=True):
        row["size_bytes"] = size
    given = problem_of(
        broker_rows([1, 2, 3, 4], disk_capacity_bytes={1: 1_100, 2: 1_100, 3: 10_000, 4: 10_000}), rows, tolerance=0.9
    )
    found = searched(given, "balanced")
    assert isinstance(found, FoundLists)
    replicas = given.replicas.copy()
    replicas[:, 0] = [1, 0, 3, 2]  # 1 and 2 exchange, and 4 gets something
    plan = described_candidate(given, "balanced", replace(found, replicas=replicas, unordered=replicas))
    assert [move.topic_partition.partition for move in plan.candidate.moves] == [2]
    assert plan.candidate.status == "partial"
    assert "2 lists stay as they are: while both copies exist, theirs would fill a disk beyond the 90 %" in (plan.note)
    assert "is_proven" not in plan.consequences


def test_a_plan_of_which_nothing_is_safe_is_infeasible_and_not_recommended() -> None:
    plan = with_lists(EXCHANGE)
    assert (plan.candidate.status, plan.candidate.moves) == ("infeasible", ())
    assert "The copies of 2 lists would fill disks beyond the 90 % of disk_headroom" in plan.note
    assert recommend(problem().settings, [plan]).candidate is None


def test_a_schedule_that_fills_a_disk_all_the_same_makes_the_plan_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by an error in the order of the moves: here it takes all disks for endless. The last guard looks by itself."""

    def heedless(problem: Problem, *rest: Any) -> Any:
        return schedule(replace(problem, disk_capacity=np.full(len(problem.brokers), 1e12)), *rest)

    monkeypatch.setattr(described, "schedule", heedless)
    plan = with_lists(EXCHANGE)
    assert (plan.candidate.status, plan.candidate.moves) == ("infeasible", ())
    assert "Copies of the plan would fill disks beyond the 90 % of disk_headroom" in plan.note
    assert "first that of broker 1" in plan.note
    assert recommend(problem().settings, [plan]).candidate is None


def test_nothing_is_left_out_of_a_given_plan() -> None:
    entries = [{"topic": "orders", "partition": number, "replicas": to} for number, to in {**EXCHANGE, 2: [3]}.items()]
    text = json.dumps({"version": 1, "partitions": entries})
    rows = partition_rows(LISTS)
    for row, size in zip(rows, SIZES, strict=True):
        row["size_bytes"] = size
    plan = plan_of(broker_rows([1, 2, 3], disk_capacity_bytes=CAPACITY), rows, "given", plan=text)
    assert (plan.candidate.status, plan.candidate.moves) == ("infeasible", ())
    assert "No order of the moves avoids that" in plan.note


def test_a_disk_that_was_full_before_excuses_no_other_disk() -> None:
    """Broker 3 is 99 % full and gives; broker 1 may not be filled beyond its own headroom because of that."""
    rows = partition_rows([[3], [3], [1], [2]])
    for row, size in zip(rows, [900, 90, 850, 860], strict=True):
        row["size_bytes"] = size
    given = problem_of(broker_rows([1, 2, 3], disk_capacity_bytes={1: 1_000, 2: 1_000, 3: 1_000}), rows, tolerance=0.9)
    found = searched(given, "balanced")
    assert isinstance(found, FoundLists)
    replicas = given.replicas.copy()
    replicas[2, 0], replicas[3, 0] = 1, 0  # 1 and 2 exchange, up to 171 % of a disk
    plan = described_candidate(given, "balanced", replace(found, replicas=replicas, unordered=replicas))
    assert plan.candidate.moves == ()
