"""Batches: what runs beside what and in which order, checked from the moves alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches import schedule as schedule_module
from kafka_rebalance.planning.batches.batch_order import ORDINARY, RELIEVING, URGENT
from kafka_rebalance.planning.batches.controller_bytes import rewrites
from kafka_rebalance.planning.batches.schedule import NoRoom, Schedule, schedule
from kafka_rebalance.planning.batches.transfers import Transfers
from support.plans.batch_runs import BatchRun, makespan_over_bound, run_batches
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of, problem_of


class LeftOut(Exception):
    """No order makes these moves safe."""


def scheduled(
    lists: list[tuple[list[int], list[int]]],
    sizes: list[int],
    ranks: list[int] | None = None,
    *,
    capacity: dict[int, int] | None = None,
    used: dict[int, int] | None = None,
    **asked: Any,
) -> tuple[Schedule, tuple[BatchRun, ...]]:
    """The schedule of [(before, after)] of partitions of these sizes, and its batches as they run."""
    ids = sorted({broker for pair in lists for part in pair for broker in part} | set(capacity or ()))
    columns: dict[str, Any] = {"disk_capacity_bytes": capacity} if capacity else {}
    partitions = partition_rows([before for before, _ in lists], size_bytes=sizes)
    problem = problem_of(broker_rows(ids, **columns), partitions, **asked)
    moves = [
        Move(TopicPartition("orders", number), tuple(before), tuple(after), size)
        for number, ((before, after), size) in enumerate(zip(lists, sizes, strict=True))
    ]
    held = Counter(used or {})
    for move in moves:
        held.update(dict.fromkeys(move.before, move.size_bytes))
    before = {broker: held[broker] for broker in ids}
    found = schedule(
        problem,
        moves,
        np.array(ranks or [ORDINARY] * len(moves)),
        np.array([before[broker] for broker in ids], dtype=float),
        rewrites(problem, moves),
    )
    if isinstance(found, NoRoom):
        raise LeftOut(found.moves.tolist())
    runs = run_batches(found.moves, before)
    agrees(found, runs)
    assert sorted(move.topic_partition for move in found.moves) == [move.topic_partition for move in moves]
    return found, runs


def agrees(found: Schedule, runs: tuple[BatchRun, ...]) -> None:
    """Every figure of the schedule against the batches as they run."""
    assert found.batches == len(runs)
    assert found.busiest_bytes == sum(run.busiest_bytes for run in runs)
    assert found.copies_at_once == max(
        (copies for run in runs for way in (run.copies_in, run.copies_out) for copies in way.values()), default=0
    )
    disks = zip(*(column.tolist() for column in (found.disks.batch, found.disks.broker)), strict=True)
    bytes_ = zip(found.disks.peak_bytes.tolist(), found.disks.after_bytes.tolist(), strict=True)
    for (batch, broker), (peak, after) in zip(disks, bytes_, strict=True):
        if batch:
            assert (peak, after) == (runs[batch - 1].peak[broker], runs[batch - 1].after[broker])


def partitions_by_batch(runs: tuple[BatchRun, ...]) -> list[list[int]]:
    return [[move.topic_partition.partition for move in run.moves] for run in runs]


def test_what_is_as_large_runs_side_by_side() -> None:
    """Two brokers that receive a large and a small partition each: large beside large, not large beside small."""
    lists = [([1, 2], [1, 3]), ([1, 2], [1, 4]), ([2, 1], [2, 3]), ([2, 1], [2, 4])]
    _, runs = scheduled(lists, [900, 100, 100, 900], copies_per_broker=1)
    assert partitions_by_batch(runs) == [[0, 3], [1, 2]]
    assert makespan_over_bound(runs) == 1


def test_a_batch_is_filled_up_to_what_its_largest_partition_takes() -> None:
    lists = [([1], [3])] + [([2], [4])] * 4
    _, runs = scheduled(lists, [1000, 300, 300, 300, 100], copies_per_broker=5)
    assert len(runs) == 1
    assert makespan_over_bound(runs) == 1


def test_a_partition_that_alone_needs_more_copies_than_allowed_has_its_brokers_to_itself() -> None:
    lists = [([1], [1, 2, 3, 4]), ([1], [5]), ([6], [2])]
    _, runs = scheduled(lists, [100, 100, 100], copies_per_broker=2)
    first = next(run for run in runs if run.copies_out[1] == 3)
    assert [move.topic_partition.partition for move in first.moves if move.before[0] == 1] == [0]
    assert all(run.copies_out[1] <= 2 for run in runs if run is not first)


def test_a_broker_makes_more_copies_at_once_only_where_the_usual_ones_make_the_run_longer() -> None:
    beside_a_large_one = [([1], [2])] + [([3], [4])] * 20
    found, runs = scheduled(beside_a_large_one, [2000] + [100] * 20)
    assert (found.copies_at_once, makespan_over_bound(runs)) == (20, 1)
    found, runs = scheduled(beside_a_large_one, [2000] + [100] * 20, copies_per_broker=10)
    assert (found.copies_at_once, makespan_over_bound(runs)) == (10, 1.5)
    found, runs = scheduled([([3], [4])] * 20, [100] * 20)
    assert (found.copies_at_once, makespan_over_bound(runs)) == (10, 1)


def test_of_many_moves_the_bound_says_whether_the_usual_copies_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_module, "_MANY", 10)
    beside_a_large_one = [([1], [2])] + [([3], [4])] * 20
    found, runs = scheduled(beside_a_large_one, [2000] + [100] * 20)
    assert (found.copies_at_once, makespan_over_bound(runs)) == (20, 1)
    found, runs = scheduled([([3], [4])] * 20, [100] * 20)
    assert (found.copies_at_once, makespan_over_bound(runs)) == (10, 1)


def test_urgent_moves_come_first_then_those_that_relieve_full_disks() -> None:
    lists = [([1], [2])] * 12
    ranks = [ORDINARY] * 4 + [RELIEVING] * 4 + [URGENT] * 4
    _, runs = scheduled(lists, [100] * 12, ranks, copies_per_broker=2)
    order = [ranks[number] for batch in partitions_by_batch(runs) for number in batch]
    assert order == sorted(order)
    assert len(runs) == 6


def test_a_few_urgent_moves_do_not_keep_the_cluster_waiting_for_them_alone() -> None:
    lists = [([1, 2], [1, 3])] * 10 + [([2, 1], [2, 4])] * 90
    _, runs = scheduled(lists, [100] * 10 + [1000] * 90, [URGENT] * 10 + [ORDINARY] * 90, copies_per_broker=10)
    assert sum(move.size_bytes == 100 for move in runs[0].moves) < 10
    assert all(any(move.size_bytes == 1000 for move in run.moves) for run in runs)


def test_what_is_urgent_waits_for_what_is_larger_where_the_cluster_would_wait_for_it() -> None:
    """Alone in the first batch the urgent partition would make all last 1,800 bytes, not 1,200."""
    lists = [([1], [3]), ([1], [3]), ([2], [4])]
    _, runs = scheduled(lists, [800, 200, 1000], [URGENT, ORDINARY, ORDINARY], copies_per_broker=1)
    assert partitions_by_batch(runs) == [[0, 2], [1]]


def test_what_is_early_comes_together_where_it_makes_no_batch_longer() -> None:
    lists = [([1], [3]), ([2], [4])] * 3
    ranks = [URGENT, ORDINARY, ORDINARY, ORDINARY, ORDINARY, URGENT]
    _, runs = scheduled(lists, [900, 1000, 1000, 1000, 1000, 900], ranks, copies_per_broker=1)
    assert {0, 5} == set(partitions_by_batch(runs)[0])
    assert makespan_over_bound(runs) == 1


def test_the_way_counts_that_is_shortest_after_partitions_have_changed_batches() -> None:
    """Before that, another way is shorter. It ends at 1.065 of the bound."""
    senders = [2, 2, 3, 2, 2, 3, 2, 1, 1, 2, 1, 1, 2, 2]
    receivers = [6, 5, 5, 4, 5, 4, 6, 6, 5, 4, 5, 5, 5, 4]
    sizes = [165, 73, 675, 35, 106, 601, 218, 563, 227, 138, 52, 29, 290, 25]
    lists = [([sender], [receiver]) for sender, receiver in zip(senders, receivers, strict=True)]
    _, runs = scheduled(lists, sizes, copies_per_broker=3)
    assert makespan_over_bound(runs) == 1


def test_moves_that_one_batch_may_have_are_in_one_and_more_are_in_smaller_batches() -> None:
    for moves, batches in ((20, 1), (21, 3), (60, 8)):
        _, runs = scheduled([([1], [2])] * moves, [100] * moves, partitions_per_batch=20, copies_per_broker=20)
        assert len(runs) == batches, moves


def test_a_disk_is_emptied_before_it_is_filled() -> None:
    """Broker 2 has room for one more replica: what leaves it goes first, in a batch before."""
    lists = [([1], [2]), ([2], [3])]
    capacity = {1: 10_000, 2: 2_000, 3: 10_000}
    found, runs = scheduled(lists, [1000, 1000], capacity=capacity, disk_headroom=0.2)
    assert partitions_by_batch(runs) == [[1], [0]]
    assert found.peak_disk_fraction == 0.5


def test_a_batch_that_would_overfill_a_disk_is_run_in_parts() -> None:
    """Brokers 1 and 2 exchange four partitions, and have room for one beside what they hold."""
    lists = [([1], [2]), ([2], [1])] * 4
    found, runs = scheduled(lists, [1000] * 8, capacity={1: 6_000, 2: 6_000}, disk_headroom=0.1)
    assert len(runs) == 4
    assert found.peak_disk_fraction == pytest.approx(5 / 6, abs=1e-6)


@pytest.mark.parametrize(
    ("lists", "sizes", "capacity", "left_out"),
    [
        ([([1], [2]), ([2], [1])], [1000, 900], {1: 1_200, 2: 1_100}, [0, 1]),  # an exchange of full disks
        ([([1], [2]), ([2], [1]), ([1], [3])], [1000, 900, 100], {1: 1_300, 2: 1_100, 3: 900}, [0, 1]),
        ([([1], [2])] * 6, [1000] * 6, {1: 10_000, 2: 6_000}, [5]),  # in the end it would be full
    ],
)
def test_moves_that_no_order_makes_safe_are_named(
    lists: list[tuple[list[int], list[int]]], sizes: list[int], capacity: dict[int, int], left_out: list[int]
) -> None:
    with pytest.raises(LeftOut) as refused:
        scheduled(lists, sizes, capacity=capacity, disk_headroom=0.1)
    assert refused.value.args == (left_out,)


def test_replicas_that_only_leave_make_room_for_those_that_wait() -> None:
    """What copies nothing comes last, unless nothing else fits: it may free the disk."""
    lists = [([1], [2]), ([2, 3], [3])]
    _, runs = scheduled(lists, [1000, 1000], capacity={1: 9_000, 2: 2_000, 3: 9_000}, disk_headroom=0.1)
    assert partitions_by_batch(runs) == [[1], [0]]


def test_lists_that_only_lose_replicas_go_first_where_they_free_a_full_disk() -> None:
    lists = [([1], [3]), ([1, 2], [1]), ([3, 1], [3])]
    _, runs = scheduled(lists, [100, 100, 100], [ORDINARY, RELIEVING, ORDINARY])
    assert partitions_by_batch(runs) == [[1], [0], [2]]


def test_a_partition_with_too_few_replicas_in_sync_moves_first() -> None:
    lists = [[1, 2]] * 40
    in_sync = [[1, 2]] * 39 + [[1]]
    plan = plan_of(
        broker_rows([1, 2, 3]), partition_rows(lists, isr=in_sync), job="drain", drain=[2], copies_per_broker=2
    )
    assert {move.topic_partition.partition: move.batch for move in plan.candidate.moves}[39] == 1


def test_the_disks_before_the_first_batch_are_batch_zero() -> None:
    found, _ = scheduled([([1], [2])], [100], used={2: 50})
    first = found.disks.batch == 0
    assert found.disks.broker[first].tolist() == [1, 2]
    assert found.disks.after_bytes[first].tolist() == [100, 50]


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
    """[(before, after)] on brokers 1 to 6, and sizes of which some are much larger than others."""
    brokers = list(range(1, 7))
    lists = [
        (
            draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True)),
            draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True)),
        )
        for _ in range(draw(st.integers(1, 30)))
    ]
    return lists, [draw(st.sampled_from([0, 1, 10, 100, 1000])) for _ in lists]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(changes(), st.integers(1, 4), st.integers(1, 8))
def test_no_batches_stay_below_what_the_bound_says(
    drawn: tuple[list[tuple[list[int], list[int]]], list[int]], copies: int, partitions: int
) -> None:
    lists, sizes = drawn
    found, runs = scheduled(lists, sizes, copies_per_broker=copies, partitions_per_batch=partitions)
    problem = problem_of(broker_rows(range(1, 7)), partition_rows([before for before, _ in lists], size_bytes=sizes))
    transfers = Transfers.of(problem, found.moves)
    if max(run.copies_out[broker] for run in runs for broker in range(1, 7)) <= copies:
        assert transfers.least_busiest_bytes(copies, partitions) <= found.busiest_bytes


@pytest.mark.slow
@given(
    changes(),
    st.integers(1, 5),
    st.integers(1, 12),
    st.sampled_from([None, 4_000, 9_000, 10**6]),
    st.integers(0, 2**16),
)
def test_no_schedule_breaks_a_limit(
    drawn: tuple[list[tuple[list[int], list[int]]], list[int]],
    copies: int,
    partitions: int,
    capacity: int | None,
    seed: int,
) -> None:
    lists, sizes = drawn
    ranks = np.random.default_rng(seed).integers(0, 3, len(lists)).tolist()
    disks = dict.fromkeys(range(1, 7), capacity) if capacity and sum(sizes) * 3 < 6 * 0.9 * capacity else None
    try:
        _, runs = scheduled(
            lists,
            sizes,
            ranks,
            capacity=disks,  # type: ignore[arg-type]
            copies_per_broker=copies,
            partitions_per_batch=partitions,
            leader_changes_per_batch=partitions,
        )
    except LeftOut:
        assert disks
        return
    limit = (1 - Settings().disk_headroom) * (capacity or 0)
    for run in runs:
        assert len(run.moves) <= partitions
        assert sum(move.changes_leader for move in run.moves) <= partitions
        alone = max(len(move.added) for move in run.moves)
        assert max([0, *run.copies_in.values(), *run.copies_out.values()]) <= max(copies, alone)
        for broker in +run.received if disks else ():
            held = sum(size for (before, _), size in zip(lists, sizes, strict=True) if broker in before)
            assert run.peak[broker] <= max(limit, min(held, runs[-1].after[broker])) + 1e-6, (broker, run)
