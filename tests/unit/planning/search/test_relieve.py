"""Job `relieve`: only brokers above a limit give, and nothing else moves."""

from __future__ import annotations

import pytest

from kafka_rebalance.errors import PlanningError, SettingsError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.problem.arrays import METRICS
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of

DISK = METRICS.index("disk")
# Broker 1 at 90 %, 2 at 70 %, 3 at 40 %, 4 at 20 % of its disk.
LISTS = [[1]] * 18 + [[2]] * 14 + [[3]] * 8 + [[4]] * 4
BROKERS = broker_rows([1, 2, 3, 4], disk_capacity_bytes=dict.fromkeys([1, 2, 3, 4], 20_000))


@pytest.mark.parametrize("name", ["light", "balanced"])
def test_only_brokers_above_the_limit_give(name: str) -> None:
    plan = plan_of(BROKERS, partition_rows(LISTS), name, job="relieve", relieve_above=0.8, disk_headroom=0)
    assert {broker for move in plan.candidate.moves for broker in move.removed} == {1}
    assert plan.loads_after[0, DISK] <= 16_000
    assert plan.candidate.status == "ok", plan.note


def test_light_takes_no_more_than_brings_the_disk_below_the_limit_and_balanced_goes_on_to_the_band() -> None:
    asked = {"job": "relieve", "relieve_above": 0.8, "disk_headroom": 0}
    light, balanced = (plan_of(BROKERS, partition_rows(LISTS), name, **asked) for name in ("light", "balanced"))
    assert light.candidate.summary["moved_bytes"] == light.candidate.summary["moved_bytes_bound"] == 2000
    assert balanced.loads_after[0, DISK] <= 11_000 * 1.1 < light.loads_after[0, DISK]


def test_nobody_is_filled_above_the_limit_by_what_others_give() -> None:
    lists = [[1]] * 19 + [[2]] * 15 + [[3]] * 15
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys([1, 2, 3], 20_000))
    plan = plan_of(brokers, partition_rows(lists), "light", job="relieve", relieve_above=0.8, disk_headroom=0)
    assert plan.loads_after[1:, DISK].max() <= 16_000
    assert plan.candidate.status == "partial"
    assert "1 disks stay above relieve_above 80 %, the fullest of broker 1 at 85.0 %" in plan.note


def test_what_lies_on_the_disk_beside_the_replicas_counts() -> None:
    brokers = broker_rows([1, 2], disk_capacity_bytes={1: 20_000, 2: 20_000}, disk_used_bytes={1: 17_000, 2: 10_000})
    plan = plan_of(brokers, partition_rows([[1]] * 10 + [[2]] * 10), "light", job="relieve", relieve_above=0.8)
    assert plan.candidate.summary["moved_bytes"] == 1000


def test_no_disk_above_the_limit_means_no_moves() -> None:
    plan = plan_of(BROKERS, partition_rows(LISTS), job="relieve", relieve_above=0.95, disk_headroom=0)
    assert plan.candidate.moves == ()
    assert plan.candidate.status == "ok"


def test_the_limit_needs_capacities_and_its_own_job() -> None:
    some = broker_rows([1, 2], disk_capacity_bytes={1: 20_000})
    with pytest.raises(PlanningError, match=r"relieve_above 0\.8 .* known for only 1 of the 2 brokers"):
        plan_of(some, partition_rows([[1]]), job="relieve", relieve_above=0.8)
    with pytest.raises(SettingsError, match="'relieve_above' needs job 'relieve'"):
        Settings.from_mapping({"relieve_above": 0.8})
    with pytest.raises(SettingsError, match="relieve_above must be a number above 0 and below 1, not 80"):
        Settings.from_mapping({"job": "relieve", "relieve_above": 80})
