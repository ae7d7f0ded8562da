"""What the loss of one broker does to network and disk of the others, against counting it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.proposals import AfterLoss, BrokerLoss
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.worst_case import broker_loss, next_leaders
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.leaders import ending
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

Lists = Sequence[Sequence[int]]
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
CAPACITY = {1: 10_000, 2: 20_000, 3: 10_000, 4: 30_000, 5: 40_000}


def problem(lists: Lists, capacity: Mapping[int, int | None] | None = None, **columns: Sequence[Any]) -> Problem:
    """Partitions of 1,000 bytes on brokers 1 to 5."""
    disks: dict[str, Any] = {"disk_capacity_bytes": capacity} if capacity else {}
    rates: dict[str, Any] = {"bytes_in_per_second": [100.0] * len(lists)}
    return problem_of(broker_rows(range(1, 6), RACKS, **disks), partition_rows(lists, **(rates | columns)))


def loss_now(found: Problem) -> AfterLoss:
    same = broker_loss(found, found.replicas, found.leader)
    assert same.before == same.after
    return same.before


def test_the_next_replica_in_sync_leads_and_sends_what_the_lost_broker_sent() -> None:
    lists = [[1, 3, 5]] * 3 + [[4, 2, 5]]
    in_sync = [[1, 3, 5], [1, 5], [1, 5], [2, 4, 5]]
    network = loss_now(problem(lists, isr=in_sync)).network
    # Each leader sends 300 a second: to two followers, and to one reader. The mean of five brokers is 240.
    assert network is not None
    assert (network.lost, network.broker, network.bytes_per_second, network.over_share) == (1, 5, 600, 2.5)
    assert network.network_bytes_per_second is None


def test_the_lost_replicas_are_shared_by_the_rest_of_the_rack_or_by_all_if_it_is_alone() -> None:
    found = loss_now(problem([[1, 3]] * 4 + [[2, 5]], CAPACITY)).disk
    # Broker 1 takes the 1,000 bytes of broker 2 and is half full. The loss of broker 1 or 3 fills a larger disk less.
    assert found is not None
    assert (found.lost, found.broker, found.used_bytes, found.capacity_bytes) == (2, 1, 5000, 10_000)
    alone = loss_now(problem([[5]] * 7 + [[1]], CAPACITY)).disk
    # Broker 5 is alone in its rack: 7,000 bytes go to brokers of 70,000 together, a tenth of each.
    assert alone is not None
    assert (alone.lost, alone.broker, alone.used_bytes) == (5, 1, 2000)


def test_what_is_not_known_is_none_and_never_a_figure() -> None:
    no_disk = loss_now(problem([[1, 3]], {**CAPACITY, 4: None}))
    assert no_disk.disk is None
    no_rates = loss_now(problem([[1, 3]], CAPACITY, bytes_in_per_second=[None]))
    assert no_rates.network is None
    assert loss_now(problem([[1], [2]])).network is None  # nobody takes over a single replica


def counted(found: Problem, lists: Lists, in_sync: Lists) -> tuple[float, float]:
    """(the highest multiple of the fair share, the fullest disk) over all losses, one partition after the other."""
    rates = [500.0 + 100 * number for number in range(len(lists))]
    sent = [rate * len(row) for rate, row in zip(rates, lists, strict=True)]
    assert found.rates.knows_in
    highest = fullest = 0.0
    for lost in range(1, 6):
        leads, holds = dict.fromkeys(range(1, 6), 0.0), dict.fromkeys(range(1, 6), 0)
        takes: set[int] = set()
        for row, alive, load in zip(lists, in_sync, sent, strict=True):
            leader = row[0]
            if leader == lost:
                leader = next((broker for broker in row if broker != lost and broker in alive), 0)
                takes.add(leader)
            leads[leader] = leads.get(leader, 0.0) + load
            for broker in row:
                holds[broker] += 1000
        here = [b for b in range(1, 6) if RACKS[b] == RACKS[lost] and b != lost] or [
            b for b in range(1, 6) if b != lost
        ]
        highest = max([highest, *(leads[broker] / (sum(sent) / 5) for broker in takes - {0})])
        room = sum(CAPACITY[broker] for broker in here)
        if holds[lost]:
            fullest = max([fullest, *(holds[b] / CAPACITY[b] + holds[lost] / room for b in here)])
    return highest, fullest


@pytest.mark.slow
@given(st.lists(st.permutations([1, 2, 3, 4, 5]), min_size=2, max_size=12), st.data())
@settings(max_examples=40, deadline=None)
def test_the_worst_losses_are_those_of_counting_them_out(orders: list[list[int]], data: st.DataObject) -> None:
    lists = [order[: data.draw(st.integers(1, 3))] for order in orders]
    in_sync = [[row[0], *(b for b in row[1:] if data.draw(st.booleans()))] for row in lists]
    rates = [500.0 + 100 * number for number in range(len(lists))]
    found = problem(lists, CAPACITY, isr=in_sync, bytes_in_per_second=rates)
    worst = loss_now(found)
    highest, fullest = counted(found, lists, in_sync)
    assert (worst.network.over_share if worst.network else 0.0) == pytest.approx(highest, abs=1e-5)
    assert worst.disk is not None
    assert worst.disk.used_share == pytest.approx(fullest, abs=1e-3)


def test_a_plan_that_spreads_leaders_makes_the_worst_loss_less_bad() -> None:
    lists = [[1, 3, 5]] * 8 + [[2, 4, 5]] * 2
    plan = propose(problem(lists, CAPACITY), "balanced")
    loss = plan.consequences["broker_loss"]
    assert isinstance(loss, BrokerLoss)
    assert loss.before.network is not None
    assert loss.after.network is not None
    assert loss.before.network.lost == 1
    assert loss.after.network.over_share < loss.before.network.over_share
    assert set(in_json(loss)) == {"before", "after"}


def test_a_list_that_stays_keeps_the_order_by_which_the_next_replica_leads() -> None:
    found = problem([[1, 3, 5], [2, 4, 5]])
    searched = found.replicas[:, [0, 2, 1]]
    goal = replace(goal_of(found.settings, "balanced"), elects=False)
    end = ending(found, searched, goal)
    assert next_leaders(found, end.lists, end.leaders).tolist() == [2, 3]  # brokers 3 and 4


def test_a_new_replica_takes_over_and_one_out_of_the_isr_does_not() -> None:
    found = problem([[1, 3, 5]], isr=[[1, 5]])
    lists = np.array([[0, 2, 3]])  # broker 4 is new, and 3 has stayed out of the ISR
    assert next_leaders(found, lists, lists[:, 0]).tolist() == [3]
