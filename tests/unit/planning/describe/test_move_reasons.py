"""A reason for every move, the moves grouped for people, and no move without a gain."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.documents.proposals import RackLimit
from kafka_rebalance.model.candidate import Metric, Move
from kafka_rebalance.planning.bounds.targets import band, distance, leader_targets
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.problem.arrays import all_loads
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.frame import frame_of
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

FIGURES = re.compile(r"broker \d+ has (many times|\d+ %|< 1 %) of its share of [a-z ]+, broker \d+ (\d+ %|< 1 %): ")


def new_broker() -> tuple[Rows, Rows]:
    """Four brokers of which one is empty, sizes of all kinds."""
    sizes = [100_000 // (1 + number % 13) for number in range(60)]
    return broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 3], [3, 1]] * 20, size_bytes=sizes)


def test_a_reason_names_both_brokers_their_shares_and_what_goes() -> None:
    plan = plan_of(*new_broker())
    copying = [move for move in plan.candidate.moves if move.added]
    assert copying
    for move in copying:
        assert FIGURES.search(move.reason), move.reason
        giver, taker = (int(broker) for broker in re.findall(r"broker (\d+) (?:has )?\d", move.reason))
        assert giver in move.removed
        assert taker in move.added


def test_the_figures_of_a_reason_are_those_before_the_moves() -> None:
    plan = plan_of(broker_rows([1, 2]), partition_rows([[1]] * 4))
    assert {move.reason for move in plan.candidate.moves} <= {
        "broker 1 has 200 % of its share of replicas, broker 2 0 %: 1 replica goes",
        "broker 1 has 200 % of its share of bytes on disk, broker 2 0 %: 1000 B go",
    }


def test_a_move_between_brokers_that_were_even_says_what_it_makes_room_for() -> None:
    for seed in range(4):
        brokers, partitions = new_broker()
        for move in plan_of(brokers, partitions, seed=seed, tolerance=0.02).candidate.moves:
            high, low = (
                (int(m.group(1)), int(m.group(2)))
                if (m := re.search(r"has (\d+) % .* broker \d+ (\d+) %", move.reason))
                else (999, 0)
            )
            assert high > 102 or low < 98 or move.reason.startswith("makes "), move.reason


def test_lists_that_are_re_ordered_say_who_leads_too_much() -> None:
    plan = plan_of(broker_rows([1, 2]), partition_rows([[1, 2]] * 8), "leaders_only")
    assert {move.reason for move in plan.candidate.moves} == {
        "broker 1 has 200 % of its share of leaders, broker 2 0 %: 1 leader goes"
    }


def changed(plan: DescribedCandidate) -> list[tuple[Any, ...]]:
    """(broker, whether it gains, moves, bytes, load before, after, what both are told as parts of) of each change."""
    return [
        (change.broker, change.gains, change.moves, change.bytes, change.before, change.after, change.whole)
        for change in plan.changes
    ]


def test_changes_of_a_disk_are_told_as_parts_of_it() -> None:
    capacity = {1: 10_000, 2: 10_000}
    plan = plan_of(broker_rows([1, 2], disk_capacity_bytes=capacity), partition_rows([[1]] * 8))
    assert changed(plan) == [(1, False, 4, 4000, 8000, 4000, 10_000), (2, True, 4, 4000, 0, 4000, 10_000)]
    assert all(change.of_disk and change.metric is Metric.DISK for change in plan.changes)


def test_changes_of_disks_that_are_all_but_empty_are_told_as_parts_of_shares() -> None:
    capacity = {1: 10**9, 2: 10**9}
    plan = plan_of(broker_rows([1, 2], disk_capacity_bytes=capacity), partition_rows([[1]] * 8))
    assert changed(plan) == [(1, False, 4, 4000, 8000, 4000, 4000), (2, True, 4, 4000, 0, 4000, 4000)]
    assert not any(change.of_disk for change in plan.changes)


def test_changes_without_capacities_are_told_as_parts_of_shares_and_an_emptied_broker_has_none() -> None:
    plan = plan_of(broker_rows([1, 2, 3]), partition_rows([[1]] * 4 + [[2]] * 4), job="drain", drain=[1])
    assert changed(plan) == [(1, False, 4, 4000, 4000, 0, 0), (3, True, 4, 4000, 0, 4000, 4000)]


def test_changes_of_a_plan_that_copies_nothing_are_of_leaders() -> None:
    plan = plan_of(broker_rows([1, 2]), partition_rows([[1, 2]] * 8), "leaders_only")
    assert changed(plan) == [(1, False, 4, 0, 8, 4, 4), (2, True, 4, 0, 0, 4, 4)]
    assert {change.metric for change in plan.changes} == {Metric.LEADERS}


def test_changes_are_few_givers_and_takers_in_turn() -> None:
    brokers = broker_rows(range(1, 31))
    plan = plan_of(brokers, partition_rows([[1 + n % 20, 1 + (n + 7) % 20] for n in range(400)]))
    assert [change.gains for change in plan.changes] == [False, True] * 5


def undone(problem: Any, lists: Any, number: int, move: Move) -> Any:
    """The lists with one partition as it was."""
    back = lists.copy()
    back[number] = -1
    back[number, : len(move.before)] = np.searchsorted(problem.brokers, move.before)
    return back


@pytest.mark.parametrize(("seed", "asked"), [(1, {}), (2, {"tolerance": 0.05}), (3, {"drain": [2], "job": "drain"})])
def test_every_move_of_a_balanced_plan_gains_something(seed: int, asked: dict[str, Any]) -> None:
    rng = np.random.default_rng(seed)
    racks = {broker: "abc"[broker % 3] for broker in range(1, 10)}
    lists = [[[1, 2, 3], [2, 4, 3]][number] for number in rng.integers(0, 2, 90)]
    partitions = partition_rows(lists, size_bytes=(rng.lognormal(8, 1.5, 90)).astype(int).tolist())
    problem = problem_of(broker_rows(racks, racks), partitions, **asked)
    plan = plan_of(broker_rows(racks, racks), partitions, **asked)
    after = problem.replicas.copy()
    rows = {move.topic_partition.partition: move for move in plan.candidate.moves}
    for row, move in rows.items():
        after[row] = np.searchsorted(problem.brokers, move.after)
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), (problem.replicas >= 0).sum(axis=1))
    targets = np.hstack([frame.targets * frame.scale, leader_targets(problem, after)])
    edges = band(targets, problem.settings.tolerance)

    def off(now: Any) -> Any:
        loads = all_loads(problem, now, now[:, 0])
        unit = np.maximum(targets[problem.receivers].mean(axis=0), 1e-9)
        found = [
            distance(loads[:, [k]] / unit[k], edges.low[:, [k]] / unit[k], edges.high[:, [k]] / unit[k])
            for k in range(5)
        ]
        return np.array([part[problem.receivers].sum() for part in found])

    idle = []
    for row, move in rows.items():
        back = undone(problem, after, row, move)
        worse = (off(back) > off(after) + 1e-12).any()
        forced = problem.leaving[back[back >= 0]].any() and bool(set(move.removed) & set(problem.settings.drain))
        repairs = violations(frame.rule, back)[row] and not violations(frame.rule, after)[row]
        back_led, led = (TopicLeaders(problem, lists[:, 0]).excess for lists in (back, after))
        if not (worse or forced or repairs or back_led > led):
            idle.append(move)
    assert len(rows) > 50
    assert not idle, f"{len(idle)} of {len(rows)} moves gain nothing, first {idle[0]}"


def test_copies_between_racks_are_counted() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    plan = plan_of(broker_rows(racks, racks), partition_rows([[1, 3], [1, 3]]), "light", job="drain", drain=[1])
    moves = plan.candidate.moves
    assert {move.before[0] for move in moves} == {1}
    assert plan.candidate.summary["cross_rack_bytes"] == 0
    assert plan_of(broker_rows([1, 2]), partition_rows([[1]] * 4)).candidate.summary["cross_rack_bytes"] is None


def test_racks_that_cannot_be_even_are_told_with_what_they_carry() -> None:
    """Rack a has one broker and a replica of everything, rack b two brokers."""
    racks = {1: "a", 2: "b", 3: "b"}
    plan = plan_of(broker_rows(racks, racks), partition_rows([[1, 2], [1, 3]] * 6))
    assert [replace(limit, carried=round(limit.carried, 9)) for limit in plan.rack_limits] == [
        RackLimit("a", 1, 3, Metric.REPLICAS, 1.5),
        RackLimit("b", 2, 3, Metric.REPLICAS, 0.75),
    ]
    even = {1: "a", 2: "b", 3: "c"}
    assert plan_of(broker_rows(even, even), partition_rows([[1, 2], [1, 3]] * 6)).rack_limits == ()
