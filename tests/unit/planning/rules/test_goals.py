"""Each kind of job on clusters small enough to check by eye."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.recommendation import front, ranking
from support.plans.small_snapshots import broker_rows, lists_after, partition_rows, plan_of, problem_of

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


def held(lists: dict[tuple[str, int], tuple[int, ...]]) -> Counter[int]:
    return Counter(broker for replicas in lists.values() for broker in replicas)


def test_a_balanced_cluster_gets_no_moves() -> None:
    brokers, partitions = broker_rows([1, 2, 3]), partition_rows([[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    plans = [plan_of(brokers, partitions, name) for name in ("leaders_only", "light", "balanced")]
    assert [plan.candidate.moves for plan in plans] == [(), (), ()]
    assert [plan.candidate.status for plan in plans] == ["ok", "ok", "ok"]


def test_one_broker_that_leads_all_gives_leaders_without_copying() -> None:
    brokers, partitions = broker_rows([1, 2, 3]), partition_rows([[1, 2, 3]] * 6)
    plan = plan_of(brokers, partitions, "leaders_only")
    after = lists_after(plan, partitions)
    assert Counter(replicas[0] for replicas in after.values()) == {1: 2, 2: 2, 3: 2}
    assert plan.candidate.summary["moved_bytes"] == 0
    assert plan.candidate.summary["leader_changes"] == 4
    assert plan.scores_before["leaders"].max_over_mean == 3
    assert plan.scores_after["leaders"].max_over_mean == 1


def test_an_empty_broker_gets_its_share_and_nothing_else_moves() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2], [2, 3], [3, 1]] * 8)
    plan = plan_of(brokers, partitions, tolerance=0.02)
    assert held(lists_after(plan, partitions)) == {1: 12, 2: 12, 3: 12, 4: 12}
    assert plan.candidate.summary["moved_replicas"] == 12
    assert all(move.added == (4,) for move in plan.candidate.moves if move.added)
    assert plan.candidate.summary["moved_bytes_bound"] <= 12 * 1000


def test_light_moves_fewer_bytes_than_balanced() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2], [2, 3], [3, 1]] * 8)
    light, balanced = (plan_of(brokers, partitions, name) for name in ("light", "balanced"))
    assert 0 < light.candidate.summary["moved_bytes"] < balanced.candidate.summary["moved_bytes"]


def test_a_broken_rack_rule_is_repaired_and_said_so() -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4, 5, 6], RACKS), partition_rows([[1, 4, 2], [2, 3, 4], [5, 6, 1]])
    plan = plan_of(brokers, partitions, "light", job="repair_racks")
    assert [move.topic_partition.partition for move in plan.candidate.moves] == [0]
    (move,) = plan.candidate.moves
    assert {RACKS[broker] for broker in move.after} == {"a", "b", "c"}
    assert move.reason == "spreads the replicas over more racks"
    assert plan.candidate.summary["rack_violations"] == 0


def test_a_drained_broker_is_emptied_and_light_moves_nothing_else() -> None:
    brokers = broker_rows([1, 2, 3, 4, 5, 6], RACKS)
    partitions = partition_rows([[1, 2, 3], [4, 5, 6], [1, 5, 6], [2, 3, 4]])
    plan = plan_of(brokers, partitions, "light", job="drain", drain=[1])
    assert {tuple(move.topic_partition)[1]: move.added for move in plan.candidate.moves} == {0: (4,), 2: (4,)}
    assert held(lists_after(plan, partitions))[1] == 0
    assert {move.reason for move in plan.candidate.moves} == {"empties broker 1"}


def test_balanced_drains_and_balances_where_light_drains_only() -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4]), partition_rows([[1, 2]] * 12)
    light, balanced = (plan_of(brokers, partitions, name, job="drain", drain=[1]) for name in ("light", "balanced"))
    assert all(1 in move.before for move in light.candidate.moves)
    assert light.candidate.summary["moved_bytes"] == 12_000
    assert held(lists_after(light, partitions))[2] == 12
    after = held(lists_after(balanced, partitions))
    assert after[1] == 0
    assert max(after.values()) <= 9


def test_a_broker_whose_state_is_drain_is_emptied() -> None:
    brokers = broker_rows([1, 2, 3, 4], state={4: "drain"})
    partitions = partition_rows([[1, 4], [4, 2], [2, 3]])
    assert held(lists_after(plan_of(brokers, partitions), partitions))[4] == 0


def test_the_settings_win_over_the_state_in_the_table() -> None:
    brokers = broker_rows([1, 2, 3, 4], state={4: "drain"})
    partitions = partition_rows([[1, 4], [4, 2], [2, 3]])
    after = held(lists_after(plan_of(brokers, partitions, "light", job="drain", drain=[3]), partitions))
    assert after[3] == 0
    assert after[4] >= 2


def test_a_replaced_brokers_replicas_go_to_exactly_the_new_one_in_the_same_place() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2], [2, 1], [2, 3], [3, 1]])
    plan = plan_of(brokers, partitions, "light", job="replace", replace={"1": 4})
    after = [replicas for _, replicas in sorted(lists_after(plan, partitions).items())]
    assert [set(replicas) for replicas in after] == [{4, 2}, {2, 4}, {2, 3}, {3, 4}]
    assert {move.reason for move in plan.candidate.moves} == {"broker 4 takes the place of broker 1"}


def test_balance_after_a_replacement_leaves_the_replaced_replicas_on_the_new_broker() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2], [1, 3], [1, 2], [1, 3], [1, 2], [2, 3]])
    plan = plan_of(brokers, partitions, "balanced", job="replace", replace={"1": 4})
    after = lists_after(plan, partitions)
    assert all(4 in after["orders", number] for number in range(5))
    assert held(after)[1] == 0


def test_a_dead_broker_that_is_named_is_replaced_although_the_table_lacks_it() -> None:
    plan = plan_of(broker_rows([2, 3]), partition_rows([[1, 2]]), "light", job="replace", replace={"1": 3})
    assert [move.after for move in plan.candidate.moves] == [(3, 2)]


@pytest.mark.parametrize(("new", "problem"), [(2, "already"), (5, "rack rule")])
def test_a_replacement_that_cannot_hold_the_replicas_is_refused(new: int, problem: str) -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4, 5, 6], RACKS), partition_rows([[1, 2, 3]])
    with pytest.raises(PlanningError, match=problem):
        problem_of(brokers, partitions, job="replace", replace={"1": new})


def test_a_higher_replication_factor_adds_on_racks_that_have_none() -> None:
    brokers = broker_rows([1, 2, 3, 4, 5, 6], RACKS)
    partitions = partition_rows([[1, 2], [2, 3], [3, 1], [4, 5]])
    plan = plan_of(brokers, partitions, "light", job="replication_factor", replication_factor=3)
    for move in plan.candidate.moves:
        assert len({RACKS[broker] for broker in move.after}) == 3
        assert move.reason == "replication factor 2 to 3"
        assert set(move.before) < set(move.after)
    assert len(plan.candidate.moves) == 4
    assert plan.candidate.summary["moved_bytes"] == 4000


def test_a_lower_replication_factor_keeps_the_racks_and_copies_nothing() -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4], RACKS), partition_rows([[1, 4, 2], [1, 2, 3]])
    plan = plan_of(brokers, partitions, "light", job="replication_factor", replication_factor=2)
    for move in plan.candidate.moves:
        assert len({RACKS[broker] for broker in move.after}) == 2
        assert set(move.after) < set(move.before)
    assert [len(replicas) for replicas in lists_after(plan, partitions).values()] == [2, 2]
    assert plan.candidate.summary["moved_bytes"] == 0


def test_relief_takes_only_from_brokers_above_the_band() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2]] * 6 + [[1, 3]] * 6 + [[2, 3]] * 2)
    plan = plan_of(brokers, partitions, job="relieve", tolerance=0.3)
    assert plan.candidate.moves
    assert {broker for move in plan.candidate.moves for broker in move.removed} == {1}


def test_job_leaders_copies_nothing_in_any_candidate() -> None:
    brokers, partitions = broker_rows([1, 2, 3, 4]), partition_rows([[1, 2]] * 8)
    for name in ("leaders_only", "light", "balanced"):
        assert plan_of(brokers, partitions, name, job="leaders").candidate.summary["moved_replicas"] == 0


def test_excluded_and_unselected_partitions_stay_but_count_as_load() -> None:
    brokers = broker_rows([1, 2, 3])
    stays = partition_rows([[1], [1]], topic="kept", size=6000, excluded=[True, True])
    unselected = partition_rows([[2]] * 2, topic="__internal", size=6000)
    moves = partition_rows([[1]] * 12, topic="orders", size=1000)
    plan = plan_of(brokers, stays + unselected + moves, topics_out=["__*"])
    assert {move.topic_partition.topic for move in plan.candidate.moves} == {"orders"}
    # 12,000 bytes are pinned to brokers 1 and 2 each; were they not counted, each broker would get four of the twelve.
    after = held(lists_after(plan, moves))
    assert after[3] >= 6
    assert after[2] <= 3


def test_brokers_that_are_out_keep_what_they_have_and_receive_nothing() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2]] * 12)
    plan = plan_of(brokers, partitions, brokers_out=[2, 4])
    after = lists_after(plan, partitions)
    assert held(after)[2] == 12
    assert held(after)[4] == 0
    assert held(after)[3] == 6


def test_bigger_disks_carry_more_where_capacities_are_known() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 10**6, 2: 10**6, 3: 2 * 10**6})
    partitions = partition_rows([[1], [2]] * 40)
    plan = plan_of(brokers, partitions, tolerance=0.05)
    assert held(lists_after(plan, partitions))[3] == pytest.approx(40, abs=2)
    assert plan.scores_after["disk"].max_over_mean == pytest.approx(1, abs=0.051)


def test_sizes_that_are_zero_or_unknown_are_planned_by_count_and_said() -> None:
    brokers = broker_rows([1, 2])
    partitions = [row | {"size_bytes": None} for row in partition_rows([[1]] * 6)]
    plan = plan_of(brokers, partitions)
    assert held(lists_after(plan, partitions)) == {1: 3, 2: 3}
    assert "6 partitions of unknown size" in plan.note
    assert "bytes_in" not in plan.scores_after


def test_a_plan_that_another_betters_is_not_on_the_front() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2], [2, 3], [3, 1]] * 8)
    light, balanced = (plan_of(brokers, partitions, name) for name in ("light", "balanced"))
    wasteful = replace(
        balanced,
        candidate=replace(balanced.candidate, summary={**balanced.candidate.summary, "moved_bytes": 10**9}),
    )
    assert front([light, balanced]) == (light, balanced)
    assert front([light, balanced, wasteful]) == (light, balanced)


def test_what_differs_most_is_offered_first_and_what_changes_nothing_last() -> None:
    brokers = broker_rows([1, 2, 3, 4])
    partitions = partition_rows([[1, 2], [2, 3], [3, 1]] * 8)
    light, balanced = (plan_of(brokers, partitions, name) for name in ("light", "balanced"))

    def like(plan: DescribedCandidate, name: str, moved_bytes: int) -> DescribedCandidate:
        summary = {**plan.candidate.summary, "moved_bytes": moved_bytes}
        return replace(plan, candidate=replace(plan.candidate, name=name, summary=summary))

    most = int(balanced.candidate.summary["moved_bytes"] or 0)
    twin, idle = like(balanced, "optimal", most - 1), like(light, "leaders_only", 0)
    idle = replace(idle, candidate=replace(idle.candidate, moves=()))
    assert ranking([idle, light, balanced], "balanced") == ("balanced", "light", "leaders_only")
    assert ranking([idle, light, twin, balanced], "balanced")[1] == "light"
    given = like(balanced, "given", most)
    assert ranking([idle, light, balanced, given], "balanced")[:3] == ("balanced", "given", "light")
    assert ranking([idle, light, balanced], None)[-1] == "leaders_only"
    assert ranking([idle], None) == ("leaders_only",)
