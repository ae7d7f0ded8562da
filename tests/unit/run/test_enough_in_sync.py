"""Which moves min.insync.replicas forbids, and whose value of it counts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.partition import MayNotLead, may_not_lead
from kafka_rebalance.run.checks.drift import PartitionThen
from kafka_rebalance.run.checks.in_sync import (
    check_leaders_may_lead,
    cut_below_min_isr,
    min_insync_now,
    out_of_isr_now,
    under_min_isr,
)
from support.kafka.small_clusters import move, partition, tp, view


def test_a_partition_below_min_isr_is_not_moved() -> None:
    moves = [move("t-0", [1, 2, 3], [2, 3, 4]), move("t-1", [1, 2, 3], [2, 3, 4])]
    current = view({"t-0": partition([1, 2, 3], [1]), "t-1": partition([1, 2, 3], [1, 2])})
    (finding,) = under_min_isr(moves, current, {tp("t-0"): 2, tp("t-1"): 2})
    assert finding.subject == "1 partition below min.insync.replicas"
    assert finding.problem == "t-0 lacks [2, 3]"
    assert "Bring those replicas back" in finding.remedy


def test_what_only_lacks_a_broker_that_is_to_be_emptied_is_moved_to_mend_it() -> None:
    moves = [move("t-0", [1, 9], [1, 2])]
    current = view({"t-0": partition([1, 9], [1])})
    assert list(under_min_isr(moves, current, {tp("t-0"): 2}, leaving={9})) == []
    assert list(under_min_isr(moves, current, {tp("t-0"): 2}, leaving={8}))


def test_a_min_isr_that_no_replica_count_meets_is_no_reason_to_wait() -> None:
    moves = [move("t-0", [1], [2])]
    assert list(under_min_isr(moves, view({"t-0": partition([1])}), {tp("t-0"): 2})) == []
    assert list(under_min_isr(moves, view({"t-0": partition([1, 2], [1])}), {})) == [], "nobody knows its minimum"


def test_a_list_that_is_cut_below_min_isr_is_refused_with_its_figures() -> None:
    moves = [
        move("t-0", [1, 2], [1]),
        move("t-1", [1, 2, 3], [1, 2]),
        move("t-2", [1], [2]),  # too short already, and not made shorter
        move("t-3", [1], [2, 3]),
    ]
    least = {tp(name): 2 for name in ("t-0", "t-1", "t-2")} | {tp("t-3"): 3}
    (finding,) = cut_below_min_isr(moves, least)
    assert finding.subject == "1 partition with fewer replicas than min.insync.replicas"
    assert finding.problem == "t-0 goes from 2 to 1, and min.insync.replicas is 2"
    assert "Lower min.insync.replicas of the topic" in finding.remedy
    assert list(cut_below_min_isr(moves, {})) == []


def test_the_min_isr_of_today_is_the_topics_own_or_the_highest_of_the_brokers_that_lead_or_will_hold_it() -> None:
    moves = [move("t-0", [1, 2], [2, 3]), move("u-0", [1, 2], [2]), move("v-0", [4], [5])]
    current = view({"t-0": partition([1, 2]), "u-0": partition([1, 2])})
    key = "min.insync.replicas"
    configs_now: dict[int, Any] = {1: {key: ("2", "x")}, 2: {key: ("1", "x")}, 3: {key: (None, "x")}}
    recorded = {tp("u-0"): 1, tp("v-0"): 7}
    found = min_insync_now(moves, current, {"t": {key: "3"}}, configs_now, recorded)
    assert found == {tp("t-0"): 3, tp("u-0"): 2, tp("v-0"): 7}


def test_partitions_that_lack_replicas_and_lists_that_are_too_short_are_counted() -> None:
    current = view({"t-0": partition([1, 2, 3], [1]), "t-1": partition([1, 2, 3], [1])})
    moves = [move("t-0", [1, 2, 3], [2, 3, 4]), move("t-1", [1, 2, 3], [1])]
    least = {tp("t-0"): 2, tp("t-1"): 2}
    (under,) = under_min_isr(moves, current, least)
    assert under.subject == "2 partitions below min.insync.replicas"
    both = [move("t-0", [1, 2], [1]), move("t-1", [1, 2, 3], [1])]
    (cut,) = cut_below_min_isr(both, least)
    assert cut.subject == "2 partitions with fewer replicas than min.insync.replicas"
    assert cut.problem.startswith("t-0 goes from 2 to 1")


# Before a write: no list begins with a replica that the run must not elect.


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
