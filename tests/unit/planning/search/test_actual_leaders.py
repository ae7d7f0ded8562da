"""Leaders are the actual ones wherever the present is meant, and jobs say which partitions are to be elected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.candidate import candidate_digest
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.moves.eta import busiest_bytes
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.evenness import outlook
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.problem.arrays import LEADERS, METRICS
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import (
    changes_leader,
    moves_digest,
    moves_in,
    read_candidate,
    read_moves,
)
from kafka_rebalance.rebalance.broker_traffic import planned
from kafka_rebalance.throttle.rates import least_rate
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of, problem_of

BROKERS = broker_rows([1, 2, 3])
EVEN = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def led_by(*leaders: int | None, lists: list[list[int]] = EVEN, **columns: Any) -> list[dict[str, Any]]:
    return partition_rows(lists, leader=list(leaders), **columns)


def test_figures_of_the_present_count_who_leads_now() -> None:
    problem = problem_of(BROKERS, led_by(1, 1, 1))
    plan = propose(problem, "balanced")
    assert plan.loads_before[:, LEADERS].tolist() == [3, 0, 0]
    assert plan.scores_before["leaders"].max_over_mean == 3
    off = {one["metric"]: one for one in in_json(outlook(problem))["off"]}
    assert off["leaders"]["highest"] == {"broker": 1, "share": 3.0}


@pytest.mark.parametrize("unknown", [None, -1, 4])
def test_where_nobody_is_known_to_lead_the_first_replica_counts(unknown: int | None) -> None:
    brokers = broker_rows([1, 2, 3, 4])  # 4 holds no replica, so it cannot lead
    plan = plan_of(brokers, led_by(unknown, unknown, unknown), "leaders_only")
    assert plan.loads_before[:, LEADERS].tolist() == [1, 1, 1, 0]


def test_leaders_that_are_not_the_preferred_ones_are_elected_without_a_change_of_lists() -> None:
    plan = plan_of(BROKERS, led_by(1, 1, 1), "leaders_only", job="elect")
    moves = plan.candidate.moves
    assert [(str(move.topic_partition), move.before, move.after, move.leader) for move in moves] == [
        ("orders-1", (2, 3, 1), (2, 3, 1), 1),
        ("orders-2", (3, 1, 2), (3, 1, 2), 1),
    ]
    assert plan.candidate.summary["leader_changes"] == 2
    assert plan.candidate.summary["moved_bytes"] == 0
    assert plan.loads_after[:, LEADERS].tolist() == [1, 1, 1]
    assert {move.reason for move in moves} == {
        "elects the preferred leader, broker 2, in place of broker 1",
        "elects the preferred leader, broker 3, in place of broker 1",
    }
    asked = Settings(job="elect")
    assert recommend(asked, [plan]).candidate == "leaders_only"
    assert (plan.shortfall_before.undone, plan.shortfall_after.undone) == (2, 0)


def test_balance_elects_too_and_counts_each_new_leader_once() -> None:
    for name in ("leaders_only", "light", "balanced"):
        plan = plan_of(BROKERS, led_by(1, 1, 1), name)
        assert [move.before == move.after for move in plan.candidate.moves] == [True, True], name
        assert plan.candidate.summary["leader_changes"] == 2


def test_job_elect_takes_the_chosen_topics_alone_and_never_changes_a_list() -> None:
    rows = led_by(1, 1, 1) + partition_rows([[2, 1], [2, 1], [2, 1]], topic="other", leader=[1, 1, 1])
    plan = plan_of(BROKERS, rows, "leaders_only", job="elect", topics_in=["oth*"])
    assert [str(move.topic_partition) for move in plan.candidate.moves] == ["other-0", "other-1", "other-2"]
    assert all(move.before == move.after for move in plan.candidate.moves)


def test_who_cannot_be_elected_now_is_left_out_and_counted_in_the_note() -> None:
    rows = led_by(1, 1, 1, isr=[[1, 2, 3], [1, 3], [1, 3]])
    plan = plan_of(BROKERS, rows, "leaders_only", job="elect")
    assert [str(move.topic_partition) for move in plan.candidate.moves] == ["orders-2"]
    assert "1 partition does not get the preferred leader" in plan.note


def test_a_leader_is_not_elected_onto_brokers_out() -> None:
    plan = plan_of(BROKERS, led_by(1, 1, 1), "leaders_only", job="elect", brokers_out=[2])
    assert [str(move.topic_partition) for move in plan.candidate.moves] == ["orders-2"]


def test_elections_are_cut_into_batches_by_leader_changes() -> None:
    lists = [[2, 1]] * 5
    plan = plan_of(BROKERS, led_by(*[1] * 5, lists=lists), "leaders_only", job="elect", leader_changes_per_batch=2)
    assert [len(batch.moves) for batch in plan.candidate.batches] == [2, 2, 1]


def test_elections_stop_at_max_leader_changes() -> None:
    lists = [[2, 1]] * 5
    plan = plan_of(BROKERS, led_by(*[1] * 5, lists=lists), "leaders_only", job="elect", max_leader_changes=2)
    assert (len(plan.candidate.moves), plan.candidate.status) == (2, "partial")
    assert "max_leader_changes" in plan.note


@pytest.mark.parametrize("most", [0, 1, 3])
@pytest.mark.parametrize("name", ["light", "balanced"])
def test_a_limit_on_leader_changes_counts_from_todays_leader_and_lets_followers_move(name: str, most: int) -> None:
    """Half of the lists are led by their second replica. Replicas can be even without any other leader."""
    rows = partition_rows([[1, 2]] * 12, leader=[2] * 6 + [1] * 6)
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, name, max_leader_changes=most)
    changed = [move for move in plan.candidate.moves if move.changes_leader]
    assert len(changed) == plan.candidate.summary["leader_changes"] <= most
    assert plan.candidate.status in ("ok", "partial")
    if name == "balanced":
        assert plan.scores_after["replicas"].max_over_mean == 1.0
    assert most == 0 or changed


@pytest.mark.parametrize("job", [{"job": "drain", "drain": [3]}, {"job": "replace", "replace": {"3": 4}}])
def test_a_preferred_leader_that_does_not_lead_leaves_without_a_change_of_the_leader(job: dict[str, Any]) -> None:
    rows = partition_rows([[3, 1], [3, 2]] * 4, leader=[1, 2] * 4)
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, "light", max_leader_changes=0, **job)
    assert plan.candidate.status == "ok", plan.note
    assert len(plan.candidate.moves) == 8
    assert plan.candidate.summary["leader_changes"] == 0
    assert not any(3 in move.after for move in plan.candidate.moves)


def test_a_new_first_replica_that_leads_already_is_no_change_of_the_leader() -> None:
    # All lists begin with 1; broker 2 and 3 lead in fact, so putting them first changes nobody's leader.
    rows = partition_rows([[1, 2, 3]] * 3, leader=[1, 2, 3])
    plan = plan_of(BROKERS, rows, "leaders_only")
    assert plan.scores_before["leaders"].max_over_mean == 1


def test_leaders_with_drain_takes_leadership_away_from_a_broker_and_copies_nothing() -> None:
    rows = led_by(1, 1, 2, lists=[[1, 2, 3], [2, 3, 1], [2, 1, 3]])
    plan = plan_of(BROKERS, rows, "leaders_only", job="leaders", drain=[1])
    assert plan.loads_before[0, LEADERS] == 2
    assert plan.loads_after[0, LEADERS] == 0
    assert plan.candidate.summary["moved_bytes"] == 0
    moved = {str(move.topic_partition): move for move in plan.candidate.moves}
    assert moved["orders-1"].before == moved["orders-1"].after  # an election alone takes it away
    assert plan.loads_after[0, METRICS.index("replicas")] == 3  # the broker keeps what it holds
    assert not any("emptied" in move.reason for move in plan.candidate.moves)


def test_copies_come_from_who_leads_now() -> None:
    brokers = broker_rows([1, 2, 3], {1: "a", 2: "b", 3: "a"})
    rows = partition_rows([[1, 2]], size=100, leader=[2], bytes_in_per_second=[50.0])
    plan = plan_of(brokers, rows, "light", job="replace", replace={"1": 3}, throttle_bytes_per_second=1000)
    (move,) = plan.candidate.moves
    assert (move.source, move.added) == (2, (3,))
    assert planned([move]).sent == {2: 100}
    assert busiest_bytes([move]) == 100
    assert plan.candidate.summary["cross_rack_bytes"] == 100  # from 2 to 3, of another rack
    assert "broker 2 gives out" in least_rate([move], {move.topic_partition: 50.0}).reason


def test_leader_and_digest_survive_the_tables(tmp_path: Path) -> None:
    digest = write_snapshot(tmp_path, BROKERS, led_by(1, 1, 1))
    (plan,) = run(tmp_path, tmp_path, Settings(job="elect"))
    assert read_candidate(tmp_path, "leaders_only") == plan.candidate
    table = read_moves(tmp_path, proposals := PROPOSALS_FILE.read(tmp_path), "leaders_only")
    assert moves_in(table) == plan.candidate.moves
    assert changes_leader(table).tolist() == [True, True]
    found = moves_digest("leaders_only", digest, proposals.settings, table)
    assert found == plan.candidate.digest
    other = table.set_column(table.column_names.index("leader"), "leader", pa.array([3, 2], pa.int32()))
    assert moves_digest("leaders_only", digest, proposals.settings, other) != plan.candidate.digest


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"drain": [1]}, "job 'leaders'"),
        ({"replace": {"1": 2}}, "job 'leaders'"),
        ({"plan": '{"version": 1, "partitions": []}'}, "changes no replica list"),
    ],
)
def test_job_elect_refuses_what_would_need_lists(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        Settings.from_mapping({"job": "elect", **settings})


def test_the_same_move_without_a_leader_has_the_digest_it_always_had() -> None:
    rows = partition_rows([[1, 2]] * 4)
    known = partition_rows([[1, 2]] * 4, leader=[1] * 4)
    plain, with_leader = (plan_of(BROKERS, some, "balanced") for some in (rows, known))
    snapshot, settings = "f" * 64, Settings().to_mapping()
    digests = {candidate_digest("x", snapshot, settings, p.candidate.moves) for p in (plain, with_leader)}
    bare = [replace(move, leader=-1) for move in plain.candidate.moves]
    assert digests == {candidate_digest("x", snapshot, settings, bare)}
