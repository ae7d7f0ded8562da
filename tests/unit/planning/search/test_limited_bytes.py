"""A limit on bytes that is too small for the tolerance: whom the bytes go to, and how many runs are still needed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.problem.arrays import DISK
from kafka_rebalance.planning.recommendation import recommend
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of

RACKS = {broker: "ab"[broker % 2] for broker in range(1, 21)}
BROKERS = broker_rows(range(1, 21), RACKS)
EMPTY = range(16, 20)  # rows of the brokers 17 to 20


def uneven_partitions(count: int = 800) -> Rows:
    """One replica on brokers 1 to 16 in each rack; a few partitions are a hundred times as large as most."""
    drawn = random.Random(5)
    lists = [[drawn.randrange(1, 17, 2), drawn.randrange(2, 17, 2)] for _ in range(count)]
    sizes = [int(1000 * drawn.lognormvariate(0, 1.5)) for _ in range(count)]
    return partition_rows(lists, size_bytes=sizes)


def disks(plan: DescribedCandidate) -> Any:
    """[broker] bytes over the mean, in the end."""
    loads = plan.loads_after[:, DISK]
    return loads / loads.mean()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.03, 0.08])
@pytest.mark.parametrize("name", ["light", "balanced"])
def test_new_empty_brokers_share_what_the_limit_allows(name: str, share: float) -> None:
    partitions = uneven_partitions()
    limit = int(share * sum(2 * row["size_bytes"] for row in partitions))
    plan = plan_of(BROKERS, partitions, name, max_bytes=limit)
    filled = disks(plan)[EMPTY]
    evenly = share * len(BROKERS) / len(EMPTY)
    assert plan.candidate.status == "partial"
    assert plan.candidate.summary["moved_bytes"] <= limit
    assert filled.min() >= 0.9 * evenly, "none is left for a later run"
    assert "max_bytes" in plan.note


def test_the_fullest_brokers_give_first() -> None:
    lists = [[1]] * 200 + [[2]] * 140 + [[3]] * 120 + [[4]] * 80 + [[5]] * 60
    plan = plan_of(broker_rows([1, 2, 3, 4, 5]), partition_rows(lists), max_bytes=45_000)
    assert np.rint(disks(plan) * 120).tolist() == [155, 140, 120, 93, 92]


@pytest.mark.parametrize("relieve_above", [None, 0.5])
def test_job_relieve_takes_from_the_fullest_of_every_rack(relieve_above: float | None) -> None:
    """Brokers 1 and 2 hold everything of their racks; the bytes reach for half of what is to leave them."""
    racks = {broker: "ab"[broker % 2] for broker in range(1, 9)}
    brokers = broker_rows(range(1, 9), racks, disk_capacity_bytes=dict.fromkeys(racks, 200_000))
    asked: dict[str, Any] = {"relieve_above": relieve_above} if relieve_above else {}
    plan = plan_of(brokers, partition_rows([[1, 2]] * 160), job="relieve", max_bytes=100_000, **asked)
    left = plan.loads_after[:2, DISK] / 1000
    assert plan.candidate.summary["moved_bytes"] == 100_000
    assert left.sum() == 220
    assert abs(left[0] - left[1]) <= 10


@pytest.mark.slow
def test_a_limit_that_is_enough_changes_no_plan() -> None:
    partitions = uneven_partitions(60)
    free = plan_of(BROKERS, partitions)
    enough = plan_of(BROKERS, partitions, max_bytes=10**9)
    assert enough.candidate.moves == free.candidate.moves
    assert enough.consequences["further_runs"] is None


@pytest.mark.long
def test_the_runs_that_are_still_needed_are_as_many_as_it_takes() -> None:
    partitions = uneven_partitions()
    limit = int(0.03 * sum(2 * row["size_bytes"] for row in partitions))
    estimates = []
    for _ in range(20):
        plans = [plan_of(BROKERS, partitions, name, max_bytes=limit) for name in ("light", "balanced")]
        found = recommend(Settings.from_mapping({"max_bytes": limit}), plans)
        plan = next(one for one in plans if one.candidate.name == found.candidate)
        more = in_json(plan.consequences["further_runs"])
        if more is None:
            break
        estimates.append(more["runs"])
        after = lists_after(plan, partitions)
        partitions = [row | {"replicas": list(after[row["topic"], row["partition"]])} for row in partitions]
    assert plan.shortfall_after.is_met
    assert len(estimates) >= 4
    assert abs(estimates[0] - len(estimates)) <= 1, "it is an estimate"
    assert estimates == sorted(estimates, reverse=True)
