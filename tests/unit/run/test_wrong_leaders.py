"""Before a write: no list begins with a replica that the run must not elect."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.partition import MayNotLead, may_not_lead
from kafka_rebalance.run.checks.drift import PartitionThen
from kafka_rebalance.run.checks.in_sync import check_leaders_may_lead, out_of_isr_now
from support.kafka.small_clusters import move, partition, tp, view

THEN = {tp("t-0"): PartitionThen((4, 1, 2), leader=1), tp("t-1"): PartitionThen((4, 1, 2), leader=4)}


def test_a_plan_that_elects_a_broker_of_brokers_out_is_refused_before_the_first_write() -> None:
    moves = [move("t-0", [4, 1, 2], [4, 1, 3])]
    with pytest.raises(SettingsError, match=r"makes broker 4 leader of t-0, but brokers_out .*Do not trust"):
        check_leaders_may_lead(moves, THEN, {4})
    check_leaders_may_lead(moves, THEN, {2})
    check_leaders_may_lead([move("t-0", [4, 1, 2], [1, 4, 3])], THEN, {4})


@pytest.mark.parametrize("leader", [4, None, 9])
def test_a_broker_that_leads_in_the_snapshot_goes_on_leading(leader: int | None) -> None:
    then = {tp("t-1"): PartitionThen((4, 1, 2), leader=leader)}
    check_leaders_may_lead([move("t-1", [4, 1, 2], [4, 1, 3])], then, {4})


def test_a_next_leader_that_is_out_of_the_isr_now_is_found_with_what_to_do() -> None:
    now: dict[str, Any] = {
        "t-0": partition([1, 2, 3], [1, 2], 1),  # 3 becomes the first
        "t-1": partition([1, 2, 3], [1, 2], 1),  # 3 stays a follower
        "t-2": partition([1, 2, 3], [1, 2], 3),  # 3 leads, whatever the ISR says
        "t-3": partition([3, 1, 2], [1, 2], 1),  # its move is done
    }
    moves = [
        move("t-0", [1, 2, 3], [3, 1, 2]),
        move("t-1", [1, 2, 3], [2, 1, 3]),
        move("t-2", [1, 2, 3], [3, 1, 2]),
        move("t-3", [1, 2, 3], [3, 1, 2]),
        move("t-4", [1, 2, 3], [3, 1, 2]),  # gone
    ]
    (found,) = out_of_isr_now(moves, view(now))
    assert found.subject == "1 partition whose next leader is out of the ISR"
    assert "t-0 (broker 3)" in found.problem
    assert "clear this task" in found.remedy
    assert not list(out_of_isr_now(moves[1:], view(now)))
    now["t-1"] = partition([1, 2, 3], [1, 3], 1)
    (both,) = out_of_isr_now(moves[1::-1], view(now))
    assert both.subject == "2 partitions whose next leader is out of the ISR"
    assert both.problem == "t-0 (broker 3), t-1 (broker 2)"


def test_the_rule_for_every_small_list() -> None:
    for after, leader, isr, closed in product([(1, 2), (2, 1), (3, 1)], [1, 2], [None, {1}, {1, 2}], [(), (1,), (3,)]):
        why = may_not_lead((1, 2), after, leader, isr, closed)
        first = after[0]
        if first == leader:
            assert why is None
        elif first in closed:
            assert why is MayNotLead.CLOSED
        else:
            lags = isr is not None and first != 3 and first not in isr
            assert (why is MayNotLead.OUT_OF_ISR) is lags
