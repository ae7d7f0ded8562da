"""Which candidate is recommended: the cheapest that does the job within the tolerance that was asked for."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents.proposals import Why
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.recommendation import ranking, recommend
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of

FOUR = broker_rows([1, 2, 3, 4])
EMPTY_FOURTH = partition_rows([[1, 2], [2, 3], [3, 1]] * 8)


def proposed(folder: Path, brokers: Rows, partitions: Rows, **settings: Any) -> dict[str, Any]:
    """proposals.json, as the planner's command writes it."""
    write_snapshot(folder, brokers, partitions)
    run(folder, folder, Settings.from_mapping(settings))
    content: dict[str, Any] = json.loads((folder / "proposals.json").read_text())
    return content


def candidate(proposals: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in proposals["candidates"] if one["name"] == name)
    return found


def like(plan: DescribedCandidate, name: str = "light", **summary: int) -> DescribedCandidate:
    made = replace(plan.candidate, name=name, summary={**plan.candidate.summary, **summary})
    return replace(plan, candidate=made)


def test_light_misses_the_tolerance_that_was_asked_for_and_is_not_recommended_for_being_cheaper(tmp_path: Path) -> None:
    """`light` leaves two brokers at 0.75 and 1.25 of their share, for a fifth of the bytes."""
    lists = partition_rows([[1]] * 130 + [[2]] * 118 + [[3]] * 82 + [[4]] * 70)
    found = proposed(tmp_path, FOUR, lists, candidates=["light", "balanced"])
    light, balanced = (candidate(found, name) for name in ("light", "balanced"))
    assert light["status"] == balanced["status"] == "ok"
    assert light["moved_bytes"] < balanced["moved_bytes"]
    assert found["recommended"] == "balanced"
    said = found["recommendation"]
    assert (said["why"], said["tolerance"], said["more_even"]) == (Why.CHEAPEST, 0.1, None)
    assert said["furthest"]["before"] == 0.3
    assert said["furthest"]["after"] <= 0.1
    assert said["cheaper"]["candidate"] == "light"
    assert said["cheaper"]["bytes"] == light["moved_bytes"]
    assert 0.1 < said["cheaper"]["furthest"] <= 0.25


def test_of_those_within_the_tolerance_the_fewest_bytes_win_then_the_fewest_new_leaders() -> None:
    balanced = plan_of(FOUR, EMPTY_FOURTH)
    assert balanced.shortfall_after.is_met_exactly
    most = int(balanced.candidate.summary["moved_bytes"] or 0)
    leaders = int(balanced.candidate.summary["leader_changes"] or 0)
    for other, chosen in (
        (like(balanced, moved_bytes=most - 1), "light"),
        (like(balanced, leader_changes=leaders - 1), "light"),
        (like(balanced), "balanced"),
        (like(balanced, moved_bytes=most + 1, leader_changes=0), "balanced"),
        (like(balanced, "as_kafka", moved_bytes=1), "balanced"),
    ):
        assert recommend(Settings(), [other, balanced]).candidate == chosen


def test_one_replica_beyond_the_tolerance_is_none_where_a_single_move_would_mend_it() -> None:
    """Of 12 replicas on a broker one is 8 %: no plan could be within 5 % if 12 did not divide evenly."""
    light, balanced = (plan_of(FOUR, EMPTY_FOURTH, name, tolerance=0.05) for name in ("light", "balanced"))
    assert not light.shortfall_after.is_met
    assert balanced.shortfall_after.is_met
    assert [plan.shortfall_after.is_met_exactly for plan in (light, balanced)] == [False, True]
    settings = Settings.from_mapping({"tolerance": 0.05})
    assert recommend(settings, [light, balanced]).candidate == "balanced"
    assert recommend(settings, [light]).candidate == "light"


@pytest.mark.slow
def test_fewest_bytes_preferred_takes_light_and_never_what_only_reorders(tmp_path: Path) -> None:
    brokers = broker_rows([1, 2, 3, 4, 5, 6])
    found = proposed(tmp_path, brokers, partition_rows([[1, 2], [2, 3], [3, 4], [1, 4]] * 60), prefer="fewest_bytes")
    assert candidate(found, "leaders_only")["moved_bytes"] == 0
    assert found["recommended"] == "light"
    assert found["recommendation"]["why"] == Why.FEWEST_BYTES


@pytest.mark.slow
def test_new_empty_brokers_are_filled_as_far_as_the_limit_goes(tmp_path: Path) -> None:
    brokers = broker_rows(range(1, 21))
    lists = [[1 + number % 8, 9 + number % 8] for number in range(1600)]
    found = proposed(tmp_path, brokers, partition_rows(lists), max_bytes=160_000)
    assert found["recommended"] in ("light", "balanced")
    assert found["recommendation"]["why"] == Why.NEAREST
    assert 100_000 < candidate(found, found["recommended"])["moved_bytes"] <= 160_000


def test_a_lower_factor_is_never_answered_by_reordered_lists(tmp_path: Path) -> None:
    lists = partition_rows([[1, 2, 3], [2, 3, 1], [1, 3, 2]] * 20)
    found = proposed(
        tmp_path, broker_rows([1, 2, 3]), lists, job="replication_factor", replication_factor=1, tolerance=0.05
    )
    assert found["recommended"] in ("light", "balanced")


def test_a_job_that_cannot_be_done_recommends_nobody_and_says_so(tmp_path: Path) -> None:
    """What must leave broker 1 is more than the limit: re-ordering its lists empties nothing."""
    lists = partition_rows([[1, 2], [1, 3], [1, 4]] * 20)
    found = proposed(tmp_path, FOUR, lists, job="drain", drain=[1], max_bytes=1000)
    assert {one["name"]: one["status"] for one in found["candidates"]} == {
        "leaders_only": "partial",
        "light": "infeasible",
        "balanced": "infeasible",
        "optimal": "infeasible",
    }
    assert found["recommended"] is None
    assert found["recommendation"]["why"] == Why.NOT_POSSIBLE


def test_a_drain_is_recommended_alone_and_evening_out_the_rest_is_a_further_candidate(tmp_path: Path) -> None:
    lists = partition_rows([[1, 2], [2, 3], [3, 1]] * 20 + [[5, 2]] * 6)
    found = proposed(tmp_path, broker_rows([1, 2, 3, 4, 5]), lists, job="drain", drain=[5])
    assert (found["recommended"], found["recommendation"]["why"]) == ("light", Why.JOB_ALONE)
    light, more_even = candidate(found, "light"), found["recommendation"]["more_even"]
    assert light["moved_bytes"] == sum(row["size_bytes"] for row in lists if 5 in row["replicas"])
    assert light["leader_changes"] == sum(row["replicas"][0] == 5 for row in lists)
    assert more_even["candidate"] in ("balanced", "optimal")


def test_a_plan_that_does_the_job_comes_before_those_that_do_not() -> None:
    doing = plan_of(FOUR, EMPTY_FOURTH)
    doing = like(doing, moved_bytes=doing.copied_bytes + 1)
    leaders = plan_of(FOUR, EMPTY_FOURTH, "leaders_only")
    not_doing = replace(leaders, shortfall_after=replace(leaders.shortfall_after, undone=1))
    assert ranking([not_doing, doing], None) == (doing.candidate.name, "leaders_only")


def test_racks_that_are_repaired_come_before_how_even_brokers_are() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    brokers, lists = broker_rows([1, 2, 3, 4], racks), partition_rows([[1, 3]] + [[1, 2], [3, 4], [2, 1], [4, 3]] * 6)
    plans = [plan_of(brokers, lists, name) for name in ("leaders_only", "light", "balanced")]
    assert [plan.shortfall_before.rack_violations for plan in plans] == [1, 1, 1]
    assert plans[1].shortfall_after.rack_violations == plans[2].shortfall_after.rack_violations == 0
    assert recommend(Settings(), plans).candidate in ("light", "balanced")


def test_where_none_is_within_the_tolerance_the_nearest_is_recommended() -> None:
    balanced = plan_of(FOUR, EMPTY_FOURTH)
    met = balanced.shortfall_after
    far, near = (replace(balanced, shortfall_after=replace(met, excess=excess)) for excess in (0.2, 0.1))
    found = recommend(Settings(), [like(far, moved_bytes=1), near])
    assert (found.candidate, found.why) == ("balanced", Why.NEAREST)
    left = replace(near, shortfall_after=replace(met, undone=2))
    assert recommend(Settings(), [like(far), left]).candidate == "light"
    nowhere = replace(balanced, shortfall_after=balanced.shortfall_before)
    assert recommend(Settings(), [nowhere]).why is Why.NOTHING_NEARER


def test_copies_that_bring_nothing_nearer_than_leaders_alone_are_not_recommended() -> None:
    """As on a cluster whose disks are all full: hardly a replica may move, but leaders may."""
    balanced = plan_of(FOUR, EMPTY_FOURTH)
    copies = replace(balanced, shortfall_after=replace(balanced.shortfall_after, excess=0.2, furthest=0.401))
    leaders = plan_of(FOUR, partition_rows([[1, 2], [1, 3], [1, 4]] * 8), "leaders_only")
    assert leaders.copied_bytes == 0

    def reached(furthest: float, excess: float = 0.1) -> DescribedCandidate:
        before = replace(leaders.shortfall_before, excess=0.5, furthest=0.6)
        return replace(
            leaders, shortfall_before=before, shortfall_after=replace(before, excess=excess, furthest=furthest)
        )

    assert recommend(Settings(), [reached(0.4), copies]).candidate == "leaders_only"
    assert recommend(Settings(), [reached(0.4)]).candidate == "leaders_only"
    assert recommend(Settings(), [reached(0.6)]).why is Why.NOTHING_NEARER, "the worst broker gains nothing"
    assert recommend(Settings(), [reached(0.4, excess=0.3), copies]).candidate == "balanced"
    assert recommend(Settings(job="repair_racks"), [reached(0.4)]).candidate is None, "that job asks for no evenness"


@pytest.mark.parametrize(("job", "why"), [("replication_factor", Why.JOB_ALONE), ("balance", Why.NEAREST)])
def test_a_job_that_does_not_ask_for_evenness_is_not_answered_by_a_dearer_plan_whose_worst_broker_is_further_off(
    job: str, why: Why
) -> None:
    """`balanced` has more brokers within the tolerance. Only the job `balance` pays for that."""
    plan = plan_of(FOUR, EMPTY_FOURTH)
    balanced = replace(plan, shortfall_after=replace(plan.shortfall_after, excess=0.1, furthest=0.18))
    light = like(replace(plan, shortfall_after=replace(plan.shortfall_after, excess=0.2, furthest=0.15)))
    settings = Settings.from_mapping({"job": job} | ({"replication_factor": 3} if job == "replication_factor" else {}))
    found = recommend(settings, [light, balanced])
    assert (found.candidate, found.why) == ("balanced", why), "of equal bytes and leaders it is the more even one"
    dearer = like(light, moved_bytes=light.copied_bytes + 1)
    assert recommend(settings, [dearer, balanced]).candidate == "balanced"
    undone = replace(light, shortfall_after=replace(light.shortfall_after, undone=1))
    assert recommend(settings, [undone, balanced]).candidate == "balanced"


def test_a_higher_factor_takes_of_equal_bytes_the_candidate_with_fewer_new_leaders(tmp_path: Path) -> None:
    """No candidate is within the tolerance: the partitions differ too much in size. `light` leaves leaders alone."""
    drawn = random.Random(0)
    lists = [[drawn.choice((1, 1, 2, 3, 3, 4))] for _ in range(30)]
    sizes = [int(drawn.paretovariate(0.9) * 1000) for _ in lists]
    rows = partition_rows(lists, size_bytes=sizes, bytes_in_per_second=[size / 100 for size in sizes])
    found = proposed(tmp_path, FOUR, rows, job="replication_factor", replication_factor=4)
    light, balanced = (candidate(found, name) for name in ("light", "balanced"))
    assert (found["recommended"], found["recommendation"]["why"]) == ("light", Why.JOB_ALONE)
    assert balanced["moved_bytes"] == light["moved_bytes"]
    assert light["leader_changes"] < balanced["leader_changes"]


def test_an_even_cluster_has_nothing_to_recommend(tmp_path: Path) -> None:
    found = proposed(tmp_path, broker_rows([1, 2, 3]), partition_rows([[1, 2], [2, 3], [3, 1]]))
    assert found["recommended"] is None
    assert found["recommendation"]["why"] == Why.NOTHING_CHANGES


def test_reordered_lists_are_recommended_where_they_are_all_that_is_needed(tmp_path: Path) -> None:
    found = proposed(tmp_path, broker_rows([1, 2, 3]), partition_rows([[1, 2], [1, 3], [2, 3]] * 8), job="leaders")
    assert found["recommended"] == "leaders_only"
    assert found["recommendation"]["why"] == Why.CHEAPEST


def test_relieve_is_held_to_what_it_brings_disks_below() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys((1, 2, 3), 30_000))
    lists = partition_rows([[1]] * 27 + [[2]] * 10 + [[3]] * 2)
    plans = [plan_of(brokers, lists, name, job="relieve", relieve_above=0.8) for name in ("light", "balanced")]
    assert [plan.shortfall_before.undone for plan in plans] == [1, 1]
    assert plans[0].shortfall_after.is_met
    found = recommend(Settings.from_mapping({"job": "relieve", "relieve_above": 0.8}), plans)
    assert found.candidate == "light"


def test_reordered_lists_are_not_recommended_where_the_job_is_done_already() -> None:
    """No disk is above 90 %, so there is nothing to relieve; uneven leaders are another job's."""
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys((1, 2, 3), 100_000))
    lists = partition_rows([[1, 2], [1, 3], [2, 3]] * 8)
    asked = {"job": "relieve", "relieve_above": 0.9}
    plans = [plan_of(brokers, lists, name, **asked) for name in ("leaders_only", "light", "balanced")]
    assert [bool(plan.candidate.moves) for plan in plans] == [True, False, False]
    found = recommend(Settings.from_mapping(asked), plans)
    assert (found.candidate, found.why) == (None, Why.WITHIN_ALREADY)


@pytest.mark.parametrize("where", ["policy", "params"])
def test_either_policy_or_params_may_prefer_the_fewest_bytes(where: str) -> None:
    given = {"approvers": ["anna"]} | ({"prefer": "fewest_bytes"} if where == "policy" else {})
    asked = Settings.from_mapping({"prefer": "fewest_bytes"} if where == "params" else {})
    assert Policy.from_mapping(given, "p.yaml").tighten(asked, cluster_bytes=1, brokers=3).prefer == "fewest_bytes"
    assert (
        Policy.from_mapping({"approvers": ["anna"]}, "p").tighten(Settings(), cluster_bytes=1, brokers=3).prefer
        == "tolerance"
    )
