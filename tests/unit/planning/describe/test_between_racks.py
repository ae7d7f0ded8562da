"""What goes between racks, counted again by plain sums over partitions, replicas and racks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafka_rebalance.documents.proposals import BetweenRacks, RackTraffic
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of

RACKS = {broker: "abc"[broker % 3] for broker in range(9)}
CLIENTS = 1 / 3  # of all clients are in a rack with as many brokers


def clusters(seed: int, **columns: Any) -> Rows:
    """Replicas anywhere, so that some racks have none of a partition and some have two."""
    rng = random.Random(seed)
    lists = [rng.sample(range(9), rng.choice([1, 2, 3])) for _ in range(90)]
    comes_in, goes_out = ([rng.randint(0, 1000) * 1.0 for _ in lists] for _ in range(2))
    rates = {"bytes_in_per_second": comes_in, "bytes_out_per_second": goes_out}
    return partition_rows(lists, **(rates | columns))


def traffic(rows: Rows, lists: dict[tuple[str, int], tuple[int, ...]], leaders: dict[int, int]) -> RackTraffic:
    replication = producers = consumers = nearest = 0.0
    for row in rows:
        replicas, leader = lists["orders", row["partition"]], leaders[row["partition"]]
        comes_in, goes_out = row["bytes_in_per_second"], row["bytes_out_per_second"]
        replication += comes_in * sum(RACKS[broker] != RACKS[leader] for broker in replicas)
        producers += comes_in * (1 - CLIENTS)
        consumers += goes_out * (1 - CLIENTS)
        nearest += goes_out * (1 - CLIENTS * len({RACKS[broker] for broker in replicas}))
    return RackTraffic(round(replication), round(producers), round(consumers), round(nearest))


def told(plan: DescribedCandidate) -> BetweenRacks:
    racks = plan.consequences["between_racks"]
    assert isinstance(racks, BetweenRacks)
    return racks


@pytest.mark.parametrize("seed", range(4))
def test_a_second_is_told_as_a_plain_sum_counts_it(seed: int) -> None:
    rows = clusters(seed)
    plan = plan_of(broker_rows(RACKS, RACKS), rows)
    before = {("orders", row["partition"]): tuple(row["replicas"]) for row in rows}
    first = {partition: replicas[0] for (_, partition), replicas in before.items()}
    moves = {move.topic_partition.partition: move.after[0] for move in plan.candidate.moves}
    racks = told(plan)
    assert racks.before == traffic(rows, before, first)
    assert racks.after == traffic(rows, lists_after(plan, rows), first | moves)
    own = [move for move in plan.candidate.moves if move.added and move.before[0] not in move.after]
    assert racks.leaders_copied == len(own)


def test_without_rates_nothing_is_told_of_a_second_and_without_racks_nothing_at_all() -> None:
    rows = clusters(1)
    unknown = [{**row, "bytes_in_per_second": None, "bytes_out_per_second": None} for row in rows]
    racks = told(plan_of(broker_rows(RACKS, RACKS), unknown))
    assert (racks.before, racks.after) == (None, None)
    unread = [{**row, "bytes_out_per_second": None} for row in rows]
    before = told(plan_of(broker_rows(RACKS, RACKS), unread)).before
    assert before is not None
    assert (before.consumers, before.nearest_consumers) == (None, None)
    for names in ({}, dict.fromkeys(RACKS, "a"), RACKS | {4: None}):
        settings = {"rackless_brokers": "one_rack"}
        assert plan_of(broker_rows(RACKS, names), rows, **settings).consequences["between_racks"] is None


def test_chance_takes_a_leader_as_often_as_its_broker_leads_a_byte() -> None:
    """Broker 0 leads half of its bytes. It is emptied, so all of them go, within its rack."""
    racks = {0: "a", 1: "a", 2: "b", 3: "c"}
    rows = partition_rows([[0, 2, 3], [2, 0, 3]] * 4)
    plan = plan_of(broker_rows(racks, racks), rows, "light", job="drain", drain=[0])
    assert plan.candidate.summary["moved_bytes"] == 8000
    assert told(plan).copied_by_chance == plan.candidate.summary["cross_rack_bytes"] == 4000
    assert told(plan).leaders_copied == 4
