"""Which moves min.insync.replicas forbids, and whose value of it counts."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.run.checks.in_sync import cut_below_min_isr, min_insync_now, under_min_isr
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
    assert list(under_min_isr(moves, view({"t-0": partition([1])}), {})) == []


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


def test_a_partition_whose_minimum_nobody_knows_needs_one_replica() -> None:
    current = view({"t-0": partition([1, 2], [1])})
    assert list(under_min_isr([move("t-0", [1, 2], [2, 3])], current, {})) == []


def test_each_remedy_says_what_to_do() -> None:
    current = view({"t-0": partition([1, 2, 3], [1]), "t-1": partition([1, 2, 3], [1])})
    moves = [move("t-0", [1, 2, 3], [2, 3, 4]), move("t-1", [1, 2, 3], [1])]
    least = {tp("t-0"): 2, tp("t-1"): 2}
    (under,) = under_min_isr(moves, current, least)
    assert under.subject == "2 partitions below min.insync.replicas"
    both = [move("t-0", [1, 2], [1]), move("t-1", [1, 2, 3], [1])]
    (cut,) = cut_below_min_isr(both, least)
    assert cut.subject == "2 partitions with fewer replicas than min.insync.replicas"
    assert cut.problem.startswith("t-0 goes from 2 to 1")
