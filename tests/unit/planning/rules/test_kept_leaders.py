"""Leaders that stay: a candidate that does no more than its job takes leadership from nobody who may keep it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.plans.small_snapshots import broker_rows, lists_after, partition_rows, plan_of

ZONES = {broker: "abc"[broker % 3] for broker in range(1, 13)}
TWELVE = broker_rows(ZONES, ZONES)
SHARING = [[1, 4, 7], [2, 5, 8], [3, 6, 9], [4, 7, 10], [5, 8, 11], [6, 9, 12]]
SHARING += [[7, 10, 1], [8, 11, 2], [9, 12, 3], [10, 1, 4], [11, 2, 5], [12, 3, 6]]


def test_a_replacement_takes_exactly_the_places_of_the_old_broker() -> None:
    partitions = partition_rows([[1, 2], [2, 1], [1, 3], [1]])
    plan = plan_of(broker_rows([0, 1, 2, 3]), partitions, "light", job="replace", replace={"2": 0})
    assert list(lists_after(plan, partitions).values()) == [(1, 0), (0, 1), (1, 3), (1,)]


@pytest.mark.parametrize(
    "asked",
    [
        {"job": "drain", "drain": [2]},
        {"job": "replication_factor", "replication_factor": 3},
        {"job": "replication_factor", "replication_factor": 1},
    ],
)
def test_what_does_no_more_than_its_job_leaves_leaders_where_they_are(asked: dict[str, Any]) -> None:
    partitions = partition_rows([[1, 2]] * 6 + [[3, 1]])
    plan = plan_of(broker_rows([1, 2, 3, 4]), partitions, "light", **asked)
    assert [held[0] for held in lists_after(plan, partitions).values()] == [1] * 6 + [3]
    assert plan.candidate.summary["leader_changes"] == 0


def test_a_leader_that_has_to_leave_is_followed_by_the_broker_that_leads_least() -> None:
    partitions = partition_rows([[1, 2]] * 3 + [[3, 4]] * 3)
    plan = plan_of(broker_rows([1, 2, 3, 4]), partitions, "light", job="drain", drain=[1])
    led = [held[0] for held in lists_after(plan, partitions).values()]
    assert led[3:] == [3, 3, 3]
    assert set(led[:3]) <= {2, 4}


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_repairs_of_racks_move_followers_where_that_costs_the_same(name: str) -> None:
    partitions = partition_rows(SHARING)
    plan = plan_of(TWELVE, partitions, name, job="repair_racks")
    after = lists_after(plan, partitions)
    assert all(len({ZONES[broker] for broker in held}) == 3 for held in after.values())
    assert plan.candidate.summary["moved_replicas"] == 24
    assert plan.candidate.summary["leader_changes"] == 0
    assert plan.consequences.get("is_proven", False) == (name == "optimal")


def test_a_balance_that_mends_racks_changes_no_more_leaders_than_balance_asks_for() -> None:
    rng = random.Random(5)
    zones = {broker: "abc"[broker % 3] for broker in range(30)}
    partitions = partition_rows([rng.sample(range(30), 3) for _ in range(100)])
    plan = plan_of(broker_rows(zones, zones), partitions, "light", job="repair_racks")
    assert plan.candidate.summary["rack_violations"] == 0
    assert plan.candidate.summary["leader_changes"] == 0


def test_a_first_replica_that_alone_may_mend_the_list_still_moves() -> None:
    partitions = partition_rows([[1, 4]])
    brokers = broker_rows([1, 2, 4, 5], ZONES)
    plan = plan_of(brokers, partitions, "light", job="repair_racks", brokers_out=[4])
    after = lists_after(plan, partitions)["orders", 0]
    assert 4 in after
    assert {ZONES[broker] for broker in after} > {ZONES[4]}
