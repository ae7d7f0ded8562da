"""Odd clusters: each is planned correctly, or refused with the numbers that make it impossible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.settings import JOBS, Settings
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.problem.arrays import METRICS
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def refusal(brokers: Rows, partitions: Rows, **settings: Any) -> str:
    with pytest.raises(PlanningError) as refused:
        problem_of(brokers, partitions, **settings)
    assert "Nothing was planned" in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("job", sorted(set(JOBS) - {"drain", "replace", "replication_factor", "replace_log_dir"}))
def test_one_broker_has_nothing_to_balance(job: str) -> None:
    plan = plan_of(broker_rows([7]), partition_rows([[7]] * 3), job=job)
    assert plan.candidate.moves == ()
    assert plan.candidate.status == "ok"


def test_a_cluster_whose_partitions_are_all_excluded_stays_as_it_is() -> None:
    partitions = partition_rows([[1]] * 6, excluded=[True] * 6)
    plan = plan_of(broker_rows([1, 2]), partitions)
    assert plan.candidate.moves == ()
    drained = plan_of(broker_rows([1, 2]), partitions, job="drain", drain=[1])
    assert drained.candidate.status == "partial"
    assert "6 replicas on brokers that are to be emptied are kept where they are" in drained.note


def test_a_topic_with_mixed_replication_keeps_every_list_as_long_as_it_is() -> None:
    partitions = partition_rows([[1], [1, 3], [1, 3, 2], [1, 3, 2, 4]] * 4)
    plan = plan_of(broker_rows(RACKS, RACKS), partitions, tolerance=0.05)
    assert [len(after) for after in lists_after(plan, partitions).values()] == [1, 2, 3, 4] * 4
    verify(plan, _digest(broker_rows(RACKS, RACKS), partitions), broker_rows(RACKS, RACKS), partitions, _tight(0.05))


def _tight(tolerance: float) -> Settings:
    return Settings.from_mapping({"tolerance": tolerance})


def _digest(brokers: Rows, partitions: Rows) -> str:
    return problem_of(brokers, partitions).snapshot_digest


def test_one_replication_factor_is_given_to_a_topic_that_has_several() -> None:
    partitions = partition_rows([[1], [1, 3], [1, 3, 2], [1, 3, 2, 4]])
    plan = plan_of(broker_rows(RACKS, RACKS), partitions, "light", job="replication_factor", replication_factor=2)
    after = lists_after(plan, partitions).values()
    assert [len(replicas) for replicas in after] == [2] * 4
    assert all({RACKS[broker] for broker in replicas} == {"a", "b"} for replicas in after)
    assert plan.candidate.summary["moved_replicas"] == 1


def test_brokers_without_a_rack_beside_brokers_with_one_are_named_where_they_count_as_one_rack() -> None:
    brokers = broker_rows([1, 2, 3, 4], {1: "a", 2: "b"})
    plan = plan_of(brokers, partition_rows([[1, 2]] * 8), rackless_brokers="one_rack")
    assert plan.candidate.status == "ok"
    assert "rokers 3, 4 without a rack count as one rack together" in plan.note
    assert "rack" not in plan_of(broker_rows([1, 2, 3, 4]), partition_rows([[1, 2]] * 8)).note


def test_an_empty_rack_is_a_rack_of_that_name_as_in_kafka() -> None:
    brokers = broker_rows([1, 2, 3, 4], {1: "", 2: "", 3: "b", 4: "b"})
    partitions = partition_rows([[1, 2], [3, 4], [1, 3]])
    plan = plan_of(brokers, partitions, "light", job="repair_racks")
    assert plan.candidate.summary["rack_violations"] == 0
    assert len(plan.candidate.moves) == 2
    assert plan.note == ""


NAMES = [
    "ünïcödé",
    "話題",
    "🐘",
    "a b",
    "..",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "new\nline",
    "*",
    "[x]",
    "x" * 9000,
]


def test_topics_of_any_name_are_planned_and_read_back_as_they_were(tmp_path: Path) -> None:
    brokers = broker_rows([1, 2])
    partitions = [row for name in NAMES for row in partition_rows([[1], [1]], topic=name)]
    write_snapshot(tmp_path, brokers, partitions)
    plans = run(tmp_path, tmp_path / "out", Settings())
    moved = read_candidate(tmp_path / "out", "balanced")
    assert moved in [plan.candidate for plan in plans]
    assert len(moved.moves) >= len(NAMES) - 1  # which is within the tolerance
    assert {move.topic_partition.topic for move in moved.moves} <= set(NAMES)


def test_the_largest_ids_that_kafka_has_are_planned(tmp_path: Path) -> None:
    largest = 2**31 - 1
    write_snapshot(tmp_path, broker_rows([0, largest]), partition_rows([[largest]] * 4))
    run(tmp_path, tmp_path / "out", Settings())
    assert {move.after for move in read_candidate(tmp_path / "out", "balanced").moves} == {(0,)}


@pytest.mark.slow
def test_twice_planned_is_the_same_to_the_last_byte(tmp_path: Path) -> None:
    write_snapshot(tmp_path, broker_rows(RACKS, RACKS), partition_rows([[1, 3]] * 20 + [[1, 3, 2]] * 5))
    for out in ("one", "two"):
        run(tmp_path, tmp_path / out, Settings(tolerance=0.02))
    for name in ("proposals.json", "moves/part-0.parquet", "scores/part-0.parquet", "candidates/part-0.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_rack_that_a_drain_leaves_too_small_is_refused_with_its_figures() -> None:
    brokers = broker_rows(RACKS, RACKS, disk_capacity_bytes={1: 9_000, 2: 9_000, 3: 9_000, 4: 90_000})
    partitions = partition_rows([[1, 3], [2, 3], [1, 4], [2, 4]], size=3_000)
    text = refusal(brokers, partitions, job="drain", drain=[2])
    assert "Rack a must hold 12,000 bytes, because one replica of each of 4 partitions belongs there" in text
    assert "Its broker 1 has room for 8,100 bytes with 10 % kept free" in text
    assert "Rack b" in refusal(brokers, partitions, job="drain", drain=[4])


def test_a_drain_of_a_whole_rack_goes_to_the_racks_that_have_no_replica_yet() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    partitions = partition_rows([[1, 3], [2, 4], [1, 5], [6, 2]])
    for name in ("light", "balanced"):
        plan = plan_of(broker_rows(racks, racks), partitions, name, job="drain", drain=[1, 2])
        after = lists_after(plan, partitions).values()
        assert all({racks[broker] for broker in replicas} == {"b", "c"} for replicas in after)


def test_a_partition_larger_than_any_disk_takes_is_refused_with_both_sizes() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 99_000, 2: 9_000, 3: 8_000})
    text = refusal(brokers, partition_rows([[1], [1]], size_bytes=[10, 8_500]), job="drain", drain=[1])
    assert "orders-1 has 8,500 bytes and the job has to copy it" in text
    assert "None of the 2 brokers that may receive replicas takes one above 8,100 bytes with 10 % kept free" in text


def test_a_partition_larger_than_what_the_disks_have_left_is_infeasible_with_what_is_left() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys([1, 2, 3], 10_000))
    partitions = partition_rows([[1], [2], [3]], size_bytes=[5_000, 6_000, 5_000])
    plan = plan_of(brokers, partitions, "light", job="drain", drain=[1])
    assert plan.candidate.status == "infeasible"
    assert "1 replicas find no place on the 2 brokers that may receive" in plan.note
    assert "The most room left on one of them is 4,000 bytes" in plan.note
    # Without a job that forces it, it stays where it is.
    assert plan_of(brokers, partitions).candidate.status != "infeasible"


def test_a_replacement_without_the_room_is_refused_with_both_figures() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 90_000, 2: 5_000, 3: 90_000})
    text = refusal(brokers, partition_rows([[1], [1], [2]], size=2_000), job="replace", replace={"1": 2})
    assert "Broker 2 cannot replace broker 1, which holds 4,000 bytes" in text
    assert "Broker 2 already holds 2,000, and takes 4,500 in all with 10 % kept free" in text


def test_a_cluster_fuller_than_its_headroom_is_still_balanced_where_nothing_has_to_fit() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys([1, 2, 3], 10_000))
    partitions = partition_rows([[1]] * 10 + [[2]] * 10 + [[3]] * 8)
    for job in ("balance", "leaders", "relieve"):
        plan = plan_of(brokers, partitions, job=job)
        assert {broker for move in plan.candidate.moves for broker in move.added} <= {3}


@pytest.mark.parametrize("factor", [5, 4])
def test_a_replication_factor_above_brokers_or_racks_is_refused_with_both(factor: int) -> None:
    text = refusal(
        broker_rows(RACKS, RACKS), partition_rows([[1, 3]]), job="replication_factor", replication_factor=factor
    )
    assert f"Replication factor {factor} is larger than the" in text
    assert ("4 brokers" if factor == 5 else "2 racks") in text


def test_replicas_beyond_the_number_of_racks_are_planned_over_all_of_them() -> None:
    partitions = partition_rows([[1, 2, 3], [2, 3, 4], [1, 3, 4]] * 4)
    plan = plan_of(broker_rows(RACKS, RACKS), partitions, job="balance", tolerance=0.02)
    assert plan.candidate.summary["rack_violations"] == 0


def test_a_drained_broker_whose_replicas_have_nowhere_to_go_is_infeasible_and_says_why() -> None:
    plan = plan_of(broker_rows([1, 2, 3]), partition_rows([[1, 2]]), "light", job="drain", drain=[1], brokers_out=[3])
    assert plan.candidate.status == "infeasible"
    assert "1 replicas find no place on the 1 brokers that may receive" in plan.note


def tight_drain(sizes: list[int], rooms: dict[int, int]) -> DescribedCandidate:
    """Broker 1 is emptied; the others are empty and take so many bytes with a fifth of their disks kept free."""
    capacity = {broker: room * 5 // 4 for broker, room in rooms.items()} | {1: 10 * sum(sizes)}
    rows = partition_rows([[1]] * len(sizes), size_bytes=sizes)
    brokers = broker_rows([1, *rooms], disk_capacity_bytes=capacity)
    return plan_of(brokers, rows, "light", job="drain", drain=[1], disk_headroom=0.2)


@pytest.mark.parametrize(
    ("sizes", "rooms"),
    [
        ([5_000, 4_000, 3_000], {2: 7_000, 3: 5_000}),
        # What helps balance most leaves no place for the last, nor does filling disks largest first.
        ([6_000, 5_000, 5_000, 4_000, 4_000], {2: 14_000, 3: 10_000}),
        ([7_000, 6_000, 5_000, 4_000, 3_000, 3_000], {2: 10_000, 3: 9_000, 4: 9_000}),
    ],
)
def test_a_drain_that_just_fits_is_packed_until_it_does(sizes: list[int], rooms: dict[int, int]) -> None:
    plan = tight_drain(sizes, rooms)
    assert plan.candidate.status != "infeasible", plan.note
    disk = dict(zip([1, *rooms], plan.loads_after[:, METRICS.index("disk")], strict=True))
    assert disk[1] == 0
    assert all(disk[broker] <= room for broker, room in rooms.items())


def test_a_drain_for_which_no_way_is_found_does_not_claim_that_there_is_none() -> None:
    """Three replicas of 4,000 bytes, and room for 6,000 twice: no bound on sums tells."""
    plan = tight_drain([4_000, 4_000, 4_000], {2: 6_000, 3: 6_000})
    assert plan.candidate.status == "infeasible"
    assert "1 replicas find no place on the 2 brokers that may receive" in plan.note
    assert "The most room left on one of them is 2,000 bytes" in plan.note
    assert "does not prove that none exists" in plan.note


def test_a_drain_that_fits_only_where_another_replica_makes_room_moves_that_as_well() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes={1: 50_000, 2: 6_250, 3: 6_250})
    rows = partition_rows([[1], [2], [2], [3]], size_bytes=[4_000, 500, 1_800, 1_900])
    plan = plan_of(brokers, rows, "light", job="drain", drain=[1], disk_headroom=0.2)
    assert plan.candidate.status == "ok"
    assert list(lists_after(plan, rows).values()) == [(3,), (2,), (2,), (2,)]
