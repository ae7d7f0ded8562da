"""With `more_replicas_than_racks` of the policy, replicas are spread over the racks as evenly as these allow."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.problem.arrays import replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import frame_of
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

ZONES = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}
SIX = broker_rows(ZONES, ZONES)
SHARED: dict[str, Any] = {"more_replicas_than_racks": True}


def held_by_racks(plan: DescribedCandidate, rows: Rows, racks: dict[int, str]) -> set[tuple[int, ...]]:
    """How many replicas of a partition the racks hold, the most first; the set of all partitions."""
    counts = [Counter(racks[broker] for broker in replicas) for replicas in lists_after(plan, rows).values()]
    return {tuple(sorted(count.values(), reverse=True)) for count in counts}


@pytest.mark.parametrize(("factor", "held"), [(3, (2, 1)), (4, (2, 2)), (5, (3, 2)), (6, (3, 3))])
@pytest.mark.parametrize("name", ["light", "balanced"])
def test_two_zones_hold_as_many_replicas_each_or_one_more(name: str, factor: int, held: tuple[int, int]) -> None:
    rows = partition_rows([[1, 4], [2, 5], [3, 6], [4, 1], [5, 2], [6, 3]] * 3)
    asked: dict[str, Any] = {"job": "replication_factor", "replication_factor": factor}
    plan = plan_of(SIX, rows, name, **asked, **SHARED)
    assert plan.candidate.status == "ok"
    assert held_by_racks(plan, rows, ZONES) == {held}
    assert plan.candidate.summary["rack_violations"] == 0


def test_without_the_key_a_factor_above_the_racks_is_refused_and_the_key_is_named() -> None:
    rows = partition_rows([[1, 4]])
    with pytest.raises(
        PlanningError, match=r"Replication factor 3 is larger than the 2 racks .* more_replicas_than_ra"
    ):
        problem_of(SIX, rows, job="replication_factor", replication_factor=3)


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_three_replicas_in_one_zone_and_one_in_the_other_are_repaired_with_the_key_alone(name: str) -> None:
    rows = partition_rows([[1, 2, 3, 4], [4, 5, 6, 1], [1, 2, 4, 5]] * 2)
    plan = plan_of(SIX, rows, name, job="repair_racks", **SHARED)
    assert held_by_racks(plan, rows, ZONES) == {(2, 2)}
    if name == "light":
        assert {move.reason for move in plan.candidate.moves} == {"spreads the replicas over more racks"}
        assert len(plan.candidate.moves) == 4
        assert not plan_of(SIX, rows, name, job="repair_racks").candidate.moves


@pytest.mark.parametrize("name", ["balanced", "optimal"])
def test_a_balance_keeps_lists_as_even_as_they_are(name: str) -> None:
    rows = partition_rows([[1, 2, 4, 5]] * 4 + [[1, 4, 5]] * 4, size_bytes=[700, 300, 200, 100] * 2)
    plan = plan_of(SIX, rows, name, tolerance=0.3, **SHARED)
    assert plan.candidate.moves
    assert held_by_racks(plan, rows, ZONES) == {(2, 2), (2, 1)}


def test_a_zone_with_too_few_brokers_holds_one_on_each_and_the_other_holds_the_rest() -> None:
    zones = {1: "a", 4: "b", 5: "b", 6: "b"}
    rows = partition_rows([[1, 4], [4, 1], [5, 1]])
    plan = plan_of(broker_rows(zones, zones), rows, "light", job="replication_factor", replication_factor=4, **SHARED)
    assert held_by_racks(plan, rows, zones) == {(3, 1)}
    assert plan.candidate.summary["rack_violations"] == 0


@pytest.mark.parametrize("name", ["light", "balanced"])
def test_one_of_three_zones_can_be_drained_with_three_replicas(name: str) -> None:
    zones = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    rows = partition_rows([[1, 3, 5], [2, 4, 5], [3, 1, 5], [4, 2, 5]] * 2)
    asked: dict[str, Any] = {"job": "drain", "drain": [5]}
    with pytest.raises(PlanningError, match="Emptying broker 5 leaves 2 racks"):
        problem_of(broker_rows(zones, zones), rows, **asked)
    plan = plan_of(broker_rows(zones, zones), rows, name, **asked, **SHARED)
    assert held_by_racks(plan, rows, zones) == {(2, 1)}
    assert not any(5 in replicas for replicas in lists_after(plan, rows).values())


def test_fewer_replicas_than_racks_stay_on_racks_of_their_own() -> None:
    rows = partition_rows([[1, 2, 4]] + [[1, 4]] * 12)
    plan = plan_of(SIX, rows, **SHARED)
    assert plan.candidate.moves
    assert held_by_racks(plan, rows, ZONES) == {(2, 1), (1, 1)}


def test_a_smaller_factor_leaves_the_lists_even() -> None:
    rows = partition_rows([[1, 2, 3, 4, 5], [4, 5, 6, 1, 2]])
    plan = plan_of(SIX, rows, "light", job="replication_factor", replication_factor=4, **SHARED)
    assert held_by_racks(plan, rows, ZONES) == {(2, 2)}
    assert plan.candidate.summary["moved_bytes"] == 0


def test_a_given_plan_that_fills_one_zone_counts_as_broken() -> None:
    text = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,3,4]}]}'
    plan = plan_of(SIX, partition_rows([[1, 4]] * 3), "given", plan=text, **SHARED)
    assert "1 partitions that keep the rack rule now would break it" in plan.note


def targets_of(racks: dict[int, str], rows: Rows, **asked: Any) -> list[float]:
    """[broker] The replicas that each would have if all were as even as the racks allow."""
    problem = problem_of(broker_rows(racks, racks), rows, **asked)
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    targets: list[float] = (frame.targets * frame.scale)[:, 0].round(3).tolist()
    return targets


def test_a_small_rack_must_hold_its_part_of_each_partition() -> None:
    zones = {1: "a", 2: "a", 3: "b", 4: "b", 5: "b", 6: "b"}
    rows = partition_rows([[1, 2, 3, 4], [1, 2, 5, 6]] * 6)
    # Two of each partition's four replicas belong to rack a, which has two brokers. Else one would be enough.
    assert targets_of(zones, rows, **SHARED) == [12, 12, 6, 6, 6, 6]
    assert targets_of(zones, rows) == [8] * 6


def test_a_large_rack_may_hold_no_more_than_its_part() -> None:
    zones = {**dict.fromkeys(range(1, 7), "a"), 7: "b", 8: "b", 9: "c", 10: "c"}
    rows = partition_rows([[1, 2, 7, 8, 9], [3, 4, 7, 9, 10]] * 6)
    # Rack a has six of ten brokers, but no more than two of each partition's five replicas.
    assert targets_of(zones, rows, **SHARED) == [4] * 6 + [9] * 4
    assert targets_of(zones, rows) == [6] * 10
