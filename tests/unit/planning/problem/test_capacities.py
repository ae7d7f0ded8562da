"""Brokers of different sizes: each carries its share of what is there, not the mean."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.planning.problem.arrays import METRICS, known_of_all
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of, problem_of

SIZES = {1: 1, 2: 2, 3: 4}  # how many times as large as the smallest
LISTS = [[1 + number % 3] for number in range(210)]


def test_brokers_of_one_two_and_four_times_the_size_are_filled_to_the_same_share_of_their_disks() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={broker: 100_000 * size for broker, size in SIZES.items()})
    plan = plan_of(brokers, partition_rows(LISTS, size_bytes=[500 + number for number in range(210)]), tolerance=0.02)
    disk = plan.loads_after[:, METRICS.index("disk")]
    assert disk / disk.sum() == pytest.approx([1 / 7, 2 / 7, 4 / 7], rel=0.021)
    replicas = plan.loads_after[:, METRICS.index("replicas")]
    assert replicas / replicas.sum() == pytest.approx([1 / 7, 2 / 7, 4 / 7], rel=0.05)
    assert "disk" not in plan.note
    assert "replicas" not in plan.note


def test_bytes_in_follow_the_network_that_receives_and_leaders_the_one_that_sends() -> None:
    brokers = broker_rows(
        [1, 2, 3],
        nic_in_bytes_per_second={1: 400.0, 2: 200.0, 3: 100.0},
        nic_out_bytes_per_second={broker: 100.0 * size for broker, size in SIZES.items()},
    )
    lists = [[1 + number % 3, 1 + (number + 1) % 3, 1 + (number + 2) % 3] for number in range(210)]
    rates: dict[str, Any] = {"bytes_in_per_second": [1.0] * 210, "bytes_out_per_second": [3.0] * 210}
    plan = plan_of(brokers, partition_rows(lists, **rates), "leaders_only", tolerance=0.02)
    for metric in ("leaders", "leader_bytes_out"):
        loads = plan.loads_after[:, METRICS.index(metric)]
        assert loads / loads.sum() == pytest.approx([1 / 7, 2 / 7, 4 / 7], rel=0.021)
    single = partition_rows(LISTS, bytes_in_per_second=[1.0 + number % 2 * 9 for number in range(210)], size=0)
    loads = plan_of(brokers, single, tolerance=0.05).loads_after[:, METRICS.index("bytes_in")]
    assert loads[0] > loads[1] > loads[2]


def test_an_empty_broker_of_twice_the_size_gets_twice_the_share() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 10**6, 2: 10**6, 3: 2 * 10**6})
    plan = plan_of(brokers, partition_rows([[1], [2]] * 60), tolerance=0.02)
    assert plan.loads_after[:, METRICS.index("replicas")].tolist() == pytest.approx([30, 30, 60], abs=2)
    assert {broker for move in plan.candidate.moves for broker in move.added} == {3}


def test_capacities_that_are_known_of_some_brokers_only_make_no_shares_and_that_is_said() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 10**6, 2: 10**5}, nic_out_bytes_per_second={3: 1.0})
    plan = plan_of(brokers, partition_rows([[1]] * 30))
    assert plan.loads_after[:, METRICS.index("replicas")].tolist() == pytest.approx([10, 10, 10], abs=1)
    assert (
        "he size of the disk (disk_bytes in broker_capacities) is known for 2 of 3 brokers only (unknown: broker "
        "3): disks and replicas are planned as equal shares"
    ) in plan.note
    assert "(nic_out_bytes_per_second in broker_capacities) is known for 1 of 3" in plan.note
    assert plan.candidate.summary["peak_disk_fraction"] == 0.1  # of broker 2
    nothing = plan_of(broker_rows([1, 2, 3]), partition_rows([[1]] * 30))
    assert "known" not in nothing.note


def test_the_capacity_of_a_broker_that_leaves_does_not_matter() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 10**6, 2: 10**6})
    problem = problem_of(brokers, partition_rows([[1], [3]]), job="drain", drain=[3])
    assert problem.disk_capacity[:2].tolist() == [10**6, 10**6]
    assert known_of_all(problem, problem.disk_capacity) is not None


def test_leaders_are_equal_on_unequal_disks_as_far_as_a_broker_holds_replicas() -> None:
    """Whose disk is larger need not send faster; and who holds four replicas cannot lead twelve partitions."""
    disks = {1: 400_000, 2: 4_000_000, 3: 4_000_000, 4: 4_000_000, 5: 4_000_000}
    brokers = broker_rows([1, 2, 3, 4, 5], disk_capacity_bytes=disks)
    lists = [[1 + (number + more) % 5 for more in range(3)] for number in range(60)]
    rows = [row | {"topic": f"topic-{row['partition']:02}", "partition": 0} for row in partition_rows(lists)]
    plan = plan_of(brokers, rows, tolerance=0.1)
    held, led = (plan.loads_after[:, METRICS.index(metric)] for metric in ("replicas", "leaders"))
    assert led[0] == held[0] < 6
    assert led[1:] == pytest.approx([14, 14, 14, 14], abs=1.5)
    assert plan.shortfall_after.is_met


def test_who_holds_the_only_replica_leads_it_whatever_leaders_should_be() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 100_000, 2: 200_000, 3: 400_000})
    plan = plan_of(brokers, partition_rows(LISTS), tolerance=0.05)
    assert "leaders" not in plan.note
    assert plan.candidate.status == "ok"
