"""Leaders are in the racks of `leader_racks` where lists allow it, counted again by plain sums."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from kafka_rebalance.documents.candidate_notes import NoteKind
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.evenness import scores_now
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

RACKS = {broker: "abcd"[broker % 4] for broker in range(12)}
BROKERS = broker_rows(RACKS, RACKS)


def lists(seed: int, racks: str = "abc", count: int = 360, factor: int = 3) -> Rows:
    """One replica in each of some racks, in any order."""
    rng = random.Random(seed)
    drawn = []
    for _ in range(count):
        some = rng.sample(racks, factor)
        drawn.append([rng.choice([broker for broker in RACKS if RACKS[broker] == rack]) for rack in some])
    return partition_rows(drawn)


def leaders_after(plan: DescribedCandidate, rows: Rows) -> dict[int, int]:
    before = {row["partition"]: row["replicas"][0] for row in rows}
    return before | {move.topic_partition.partition: move.after[0] for move in plan.candidate.moves}


def replicas_after(plan: DescribedCandidate, rows: Rows) -> dict[int, list[int]]:
    before = {row["partition"]: list(row["replicas"]) for row in rows}
    return before | {move.topic_partition.partition: list(move.after) for move in plan.candidate.moves}


def figures(plan: DescribedCandidate) -> dict[str, Any]:
    (one,) = [note for note in plan.notes if note.kind is NoteKind.IN_LEADER_RACKS]
    return dict(one.figures)


@pytest.mark.parametrize(("name", "job"), [("leaders_only", "leaders"), ("balanced", "balance")])
def test_every_leader_is_there_where_each_list_has_a_replica(name: str, job: str) -> None:
    rows = lists(1, "abc")
    brokers = [row for row in BROKERS if row["rack"] != "d"]
    plan = plan_of(brokers, rows, name, job=job, leader_racks=["a", "b"])
    led = leaders_after(plan, rows)
    assert {RACKS[broker] for broker in led.values()} == {"a", "b"}
    counts = Counter(led.values())
    even = len(rows) / 6
    assert all(0.9 * even - 1 <= counts[broker] <= 1.1 * even + 1 for broker, rack in RACKS.items() if rack in "ab")
    assert plan.candidate.status == "ok"
    told = figures(plan)
    assert (told["before"], told["after"]) == (sum(RACKS[row["replicas"][0]] in "ab" for row in rows), len(rows))
    assert told["changes"] == sum(RACKS[row["replicas"][0]] == "c" for row in rows)


@pytest.mark.parametrize("seed", range(3))
def test_a_list_without_a_replica_there_is_led_outside_and_told(seed: int) -> None:
    rows = lists(seed, "abcd", factor=2)
    plan = plan_of(BROKERS, rows, "balanced", leader_racks=["a"])
    led, held = leaders_after(plan, rows), replicas_after(plan, rows)
    without = [one for one, replicas in held.items() if all(RACKS[broker] != "a" for broker in replicas)]
    inside = [one for one, broker in led.items() if RACKS[broker] == "a"]
    assert len(inside) + len(without) >= 0.99 * len(rows)
    told = figures(plan)
    assert told["without_replica"] == len(without)
    assert (told["after"], told["partitions"]) == (len(inside), len(rows))
    assert told["after"] + sum(told[key] for key in ("without_replica", "kept", "barred", "others")) == len(rows)
    assert f"{len(without)} partitions have no replica there" in plan.note


def test_replicas_out_of_the_isr_and_topics_that_stay_are_told_apart() -> None:
    rows = lists(2, "abc", count=90)
    for row in rows[:9]:
        row["replicas"].sort(key=lambda broker: RACKS[broker] == "a")  # led elsewhere
        row["isr"] = [broker for broker in row["replicas"] if RACKS[broker] != "a"]
    others = [{**row, "topic": "audit"} for row in lists(3, "abc", count=30)]
    plan = plan_of(BROKERS, rows + others, "leaders_only", job="leaders", leader_racks=["a"], topics_out=["audit"])
    told = figures(plan)
    assert told["barred"] == 9
    assert told["kept"] == sum(RACKS[row["replicas"][0]] != "a" for row in others)


def test_a_cluster_led_there_is_even_and_one_that_is_not_has_figures() -> None:
    rows = lists(4, "abc")
    brokers = [row for row in BROKERS if row["rack"] != "d"]
    before = scores_now(problem_of(brokers, rows, leader_racks=["a"]))["leaders"]
    assert 1.2 < before.max_over_mean < 10
    plan = plan_of(brokers, rows, "balanced", leader_racks=["a"])
    after = plan.scores_after["leaders"]
    assert after.max_over_mean < 1.15
    again = [
        {**row, "replicas": replicas, "isr": replicas}
        for row, replicas in zip(rows, replicas_after(plan, rows).values(), strict=True)
    ]
    assert not plan_of(brokers, again, "balanced", leader_racks=["a"]).candidate.moves


def test_a_rack_that_no_broker_has_is_refused() -> None:
    with pytest.raises(PlanningError, match="leader_racks: no broker is registered in rack e"):
        plan_of(BROKERS, lists(5), leader_racks=["a", "e"])
