"""Plans in which only some brokers receive replicas: `brokers_in`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.bounds.lp_bound import relaxed_bound
from kafka_rebalance.planning.bounds.targets import Bands, band
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.sharper_bound import with_sharper_bound
from kafka_rebalance.planning.problem.arrays import Problem, replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import frame_of
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of, problem_of

# Replicas on brokers 1 to 4: 21, 18, 9 and none. An even share is 12.
FOUR = broker_rows([1, 2, 3, 4])
LISTS = partition_rows([[1, 2], [1, 2], [1, 2], [1, 3], [1, 3], [2, 1], [2, 3], [1, 2]] * 3)
ZONES = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c", 7: "a"}


def who_receives(plan: DescribedCandidate) -> set[int]:
    return {broker for move in plan.candidate.moves for broker in move.added}


def targets_of(problem: Problem) -> list[float]:
    """[broker] The replicas that each would have if all were as even as the settings allow."""
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    targets: list[float] = (frame.targets * frame.scale)[:, 0].round(3).tolist()
    return targets


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
@pytest.mark.parametrize("asked", [{"brokers_in": [4]}, {"brokers_in": "new"}])
def test_only_the_named_or_the_empty_broker_receives_and_all_others_may_give(name: str, asked: dict[str, Any]) -> None:
    plan = plan_of(FOUR, LISTS, name, **asked)
    assert who_receives(plan) == {4}
    assert {broker for move in plan.candidate.moves for broker in move.removed} == {1, 2}
    assert plan.shortfall_after.is_met or name == "light"  # whose band is wider


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_swap_brings_a_broker_that_only_gives_a_replica(seed: int) -> None:
    # Sizes differ by orders of magnitude: swaps between the old brokers would make disks much more even.
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(10, 2, 40).astype(int).tolist()
    lists = [rng.choice([1, 2, 3, 4], size=2, replace=False).tolist() for _ in sizes]
    brokers, rows = broker_rows([1, 2, 3, 4, 5, 6]), partition_rows(lists, size_bytes=sizes)
    assert who_receives(plan_of(brokers, rows, tolerance=0.02)) - {5, 6}
    for asked in ({"brokers_in": [5, 6]}, {"brokers_in": "new"}):
        assert who_receives(plan_of(brokers, rows, tolerance=0.02, **asked)) == {5, 6}


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_brings_nothing_to_brokers_that_only_give(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = partition_rows(
        rng.integers(1, 4, (10, 1)).tolist(), size_bytes=rng.lognormal(10, 1, 10).astype(int).tolist()
    )
    assert who_receives(plan_of(FOUR, rows, "optimal", brokers_in=[4])) == {4}


def test_without_the_limit_the_same_cluster_also_fills_broker_3() -> None:
    assert who_receives(plan_of(FOUR, LISTS)) == {3, 4}


def test_a_broker_below_its_share_that_may_not_receive_keeps_what_it_has_and_the_others_share_the_rest() -> None:
    assert targets_of(problem_of(FOUR, LISTS, brokers_in=[4])) == [13, 13, 9, 13]
    assert targets_of(problem_of(FOUR, LISTS, brokers_in=[3])) == [16, 16, 16, 0]
    assert targets_of(problem_of(FOUR, LISTS, brokers_in=[3, 4])) == [12, 12, 12, 12]
    # Broker 3 is below the first level of 12, and broker 2 below the next one: 3 brokers share 39.
    rows = partition_rows([[1]] * 26 + [[2]] * 13 + [[3]] * 9)
    assert targets_of(problem_of(FOUR, rows, brokers_in=[4])) == [13, 13, 9, 13]


def test_within_a_rack_only_its_own_receivers_take() -> None:
    rows = partition_rows([[1, 2, 3], [1, 5, 3], [1, 2, 6]] * 4)
    problem = problem_of(broker_rows(ZONES, ZONES), rows, brokers_in=[4, 7])
    # Rack a has 12 replicas of which broker 1 holds all. Racks b and c have no receiver, so all there stays.
    assert targets_of(problem) == [4, 8, 8, 4, 4, 4, 4]
    plan = propose(problem, "balanced")
    assert who_receives(plan) == {4, 7}
    assert {broker for move in plan.candidate.moves for broker in move.removed} == {1}
    assert plan.shortfall_after.is_met


def test_leaders_may_go_to_brokers_that_receive_nothing_because_a_new_order_copies_nothing() -> None:
    rows = partition_rows([[1, 2], [1, 3], [1, 2], [1, 3], [1, 2], [1, 3]])
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, brokers_in=[4])
    assert who_receives(plan) <= {4}
    assert {move.after[0] for move in plan.candidate.moves} & {2, 3}


def test_the_bound_is_that_of_the_limited_problem() -> None:
    limited = problem_of(FOUR, LISTS, brokers_in=[3])
    plan = with_sharper_bound(limited, propose(limited, "balanced"))
    # Broker 3 has 9 replicas of 1,000 bytes. Its share is 16, within 10 %, and so 5.4 more at the least.
    assert plan.candidate.summary["moved_bytes_bound"] == pytest.approx(1000 * (16 * 0.9 - 9), abs=1)
    assert plan.candidate.summary["moved_bytes"] == 6000


def test_the_program_of_the_bound_lets_givers_gain_nothing() -> None:
    everyone, limited = problem_of(FOUR, LISTS), problem_of(FOUR, LISTS, brokers_in=[4])
    frame = frame_of(everyone, goal_of(everyone.settings, "balanced"), replication(everyone.replicas))
    even: Bands = band(frame.targets * frame.scale, 0.1)  # in which broker 3 would have to gain
    found = [relaxed_bound(problem, even, np.ones(len(LISTS), dtype=bool)) for problem in (everyone, limited)]
    assert found[0] is not None
    assert np.isfinite(found[0].reachable)
    assert found[1] is None or not np.isfinite(found[1].reachable)


def test_the_note_says_what_the_limit_costs_and_the_reasons_name_the_broker_that_would_need_it_more() -> None:
    plan = plan_of(FOUR, LISTS, brokers_in=[3])
    assert (
        "Only broker 3 may receive (brokers_in): with all brokers the bound within 10 % would be 12.3 KiB, and as it "
        "is, brokers end at best with 0 % to 133 % of the replicas they would have then"
    ) in plan.note
    copied = [move for move in plan.candidate.moves if move.added]
    assert copied
    for move in copied:
        assert move.reason.endswith("broker 4 has less of its share of replicas (0 %), but may not receive")
    same = plan_of(FOUR, LISTS, brokers_in=[3, 4])
    assert "may receive" not in same.note
    assert not any("may not receive" in move.reason for move in same.candidate.moves)


def test_with_pools_the_note_says_what_the_limit_costs_in_each() -> None:
    others = partition_rows([[5, 6], [6, 5]], topic="audit")
    pools = [{"topics": ["audit"], "brokers": [5, 6]}, {"topics": ["none-*"], "brokers": [7]}]
    brokers = broker_rows(range(1, 8))
    in_one = plan_of(brokers, LISTS + others, brokers_in=[3], broker_pools=pools).note
    cost = (
        "in the pool of all other topics: only broker 3 may receive (brokers_in): with all brokers the bound within "
        "10 % would be 12.3 kib, and as it is, brokers end at best with 0 % to 133 % of the replicas they would have "
        "then"
    )
    assert cost in in_one.lower()
    assert in_one.count("may receive") == 1, "the other pool is even as it is"
    in_none = plan_of(brokers, LISTS + others, brokers_in=[5], broker_pools=pools).note
    assert "in the pool of all other topics: no broker may receive (brokers_in): with all brokers" in in_none.lower()


def test_a_drained_broker_is_emptied_onto_the_receivers() -> None:
    rows = partition_rows([[1], [2], [3]] * 4)
    plan = plan_of(FOUR, rows, "light", job="drain", drain=[1], brokers_in=[3])
    assert who_receives(plan) == {3}
    assert plan.shortfall_after.undone == 0


def test_replicas_that_fit_no_receiver_make_the_candidate_infeasible() -> None:
    plan = plan_of(FOUR, partition_rows([[1, 4], [1, 4]]), "light", job="drain", drain=[1], brokers_in=[4])
    assert plan.candidate.status == "infeasible"
    assert "2 replicas find no place on the 1 brokers that may receive replicas" in plan.note


def test_a_list_that_no_receiver_can_mend_stays_as_broken_as_it_is_and_the_optimum_still_exists() -> None:
    zones = {1: "a", 2: "a", 3: "b", 4: "a"}
    rows = partition_rows([[1, 2]] + [[1, 3], [2, 3]] * 4)
    for name in ("balanced", "optimal"):
        plan = plan_of(broker_rows(zones, zones), rows, name, brokers_in=[4], tolerance=0.3)
        assert plan.candidate.status == "ok"
        assert who_receives(plan) == {4}
        assert plan.candidate.summary["rack_violations"] == 1


def test_a_given_plan_that_fills_another_broker_is_not_offered() -> None:
    text = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'
    plan = plan_of(FOUR, LISTS, "given", plan=text, brokers_in=[4])
    assert plan.candidate.status == "infeasible"
    assert "broker 3 would receive replicas, but brokers_in allows only others to" in plan.note
    assert plan_of(FOUR, LISTS, "given", plan=text.replace("[3,2]", "[4,2]"), brokers_in=[4]).candidate.status == "ok"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"brokers_in": [9]}, "brokers_in: broker 9 is not registered"),
        ({"brokers_in": "new", "brokers_out": [4]}, "brokers_in is new: no broker may receive replicas"),
        (
            {"brokers_in": "new", "job": "replace", "replace": {"1": 3}},
            "replace: the new broker 3 holds replicas already, and brokers_in lets only new brokers receive",
        ),
    ],
)
def test_a_limit_that_leaves_no_receiver_is_refused_with_what_to_change(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanningError) as refused:
        problem_of(FOUR, LISTS, **asked)
    assert words in str(refused.value)
    assert "Nothing was planned" in str(refused.value)


def test_a_receiver_that_the_table_says_is_to_be_emptied_is_refused() -> None:
    brokers = broker_rows([1, 2, 3, 4], state={4: "drain"})
    with pytest.raises(PlanningError, match=r"brokers_in: broker 4 is to be emptied or left alone by drain, the state"):
        problem_of(brokers, LISTS, brokers_in=[4])
