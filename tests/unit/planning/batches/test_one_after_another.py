"""Batches filled one after the other, as plans with many moves are: what goes together, and which limits hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.batches import controller_bytes, schedule
from kafka_rebalance.planning.batches.batch_order import ORDINARY, URGENT
from kafka_rebalance.planning.batches.controller_bytes import bytes_by_batch, rewrites
from kafka_rebalance.planning.batches.list_schedules import one_after_another
from kafka_rebalance.planning.batches.transfers import Transfers
from support.plans.batch_runs import BatchRun, makespan_over_bound, run_batches
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of, problem_of

Lists = list[tuple[list[int], list[int]]]


def filled(lists: Lists, sizes: list[int], ranks: list[int] | None = None, **asked: Any) -> tuple[BatchRun, ...]:
    """The batches of [(before, after)] of partitions of these sizes, in the order in which they were filled."""
    ids = sorted({broker for pair in lists for part in pair for broker in part})
    problem = problem_of(
        broker_rows(ids),
        partition_rows([old for old, _ in lists], size_bytes=sizes),
        **({"copies_per_broker": 10} | asked),
    )
    moves = [
        Move(TopicPartition("orders", number), tuple(old), tuple(new), size)
        for number, ((old, new), size) in enumerate(zip(lists, sizes, strict=True))
    ]
    rank, znodes = np.array(ranks or [ORDINARY] * len(moves)), rewrites(problem, moves)
    every = np.arange(len(moves))
    batch = one_after_another(problem.settings, Transfers.of(problem, moves), every, rank, znodes)
    costs, alone = bytes_by_batch(znodes, batch), np.bincount(batch) == 1
    assert ((costs <= controller_bytes.CONTROLLER_BYTES_PER_BATCH) | alone).all()
    placed = [replace(move, batch=number + 1) for move, number in zip(moves, batch.tolist(), strict=True)]
    return run_batches(placed, Counter({broker: 0 for move in moves for broker in {*move.before, *move.after}}))


def partitions_by_batch(runs: tuple[BatchRun, ...]) -> list[list[int]]:
    return [[move.topic_partition.partition for move in run.moves] for run in runs]


def test_partitions_of_one_size_share_as_few_batches_as_the_copies_allow() -> None:
    runs = filled([([1], [2])] * 20, [100] * 20, copies_per_broker=5)
    assert [len(run.moves) for run in runs] == [5] * 4


def test_the_largest_partitions_of_different_brokers_run_side_by_side() -> None:
    lists: Lists = [([1], [3]), ([1], [3]), ([2], [4]), ([2], [4])]
    runs = filled(lists, [900, 100, 100, 900], copies_per_broker=1)
    assert partitions_by_batch(runs) == [[0, 3], [1, 2]]
    assert makespan_over_bound(runs) == 1


def test_places_go_to_the_broker_with_most_bytes() -> None:
    """Two places beside the largest: broker 1 has 1,200 bytes to send and needs them, the others have time."""
    lists: Lists = [([2], [5])] + [([1], [6])] * 8 + [([3], [7])] * 2
    runs = filled(lists, [1000] + [150] * 8 + [160] * 2, partitions_per_batch=3, copies_per_broker=5)
    assert partitions_by_batch(runs)[0] == [0, 1, 2]


def test_a_partition_that_would_make_the_next_batch_long_comes_before_the_busiest_broker() -> None:
    lists: Lists = [([2], [5])] + [([1], [6])] * 8 + [([3], [7])] * 2
    runs = filled(lists, [1000] + [150] * 8 + [600] * 2, partitions_per_batch=3, copies_per_broker=5)
    assert partitions_by_batch(runs)[0] == [0, 1, 9]


def test_a_broker_without_a_place_in_one_batch_comes_first_in_the_next() -> None:
    """Beside the largest there is one place, and brokers 3 and 4 receive as many bytes. Broker 3 gets it."""
    lists: Lists = [([1], [5])] + [([10 + n], [3]) for n in range(4)] + [([20 + n], [4]) for n in range(4)]
    runs = filled(lists, [700, 130, 120, 110, 100, 130, 120, 110, 100], partitions_per_batch=2, copies_per_broker=1)
    assert partitions_by_batch(runs)[:2] == [[0, 1], [2, 5]]


def test_a_broker_gets_as_many_partitions_beside_a_long_one_as_it_may_copy_at_once() -> None:
    lists: Lists = [([1], [5])] + [([2], [6])] * 25
    runs = filled(lists, [3000] + [100] * 25, copies_per_broker=25)
    assert [len(run.moves) for run in runs] == [26]


def test_early_partitions_wait_for_a_batch_that_is_not_long() -> None:
    lists: Lists = [([number], [100 + number]) for number in range(1, 34)]
    ranks = [ORDINARY] * 31 + [URGENT] * 2
    runs = filled(lists, [10_000] + [1000] * 30 + [10] * 2, ranks, partitions_per_batch=8)
    early = [sum(move.size_bytes == 10 for move in run.moves) for run in runs]
    assert early == [0, 1, 1, 0, 0]


def test_early_partitions_fill_an_eighth_of_the_first_batches() -> None:
    lists: Lists = [([number], [100 + number]) for number in range(1, 33)]
    ranks = [URGENT if number >= 30 else ORDINARY for number in range(32)]
    runs = filled(lists, [1000] * 30 + [10] * 2, ranks, partitions_per_batch=8)
    early = [sum(move.size_bytes == 10 for move in run.moves) for run in runs]
    assert early == [1, 1, 0, 0]


def test_no_batch_is_more_than_the_controller_can_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: Lists = [([number], [100 + number]) for number in range(1, 21)]
    whole = filled(lists, [1000] * 20)
    assert len(whole) == 1
    monkeypatch.setattr(controller_bytes, "CONTROLLER_BYTES_PER_BATCH", 10_000)  # `filled` compares each batch with it
    assert len(filled(lists, [1000] * 20)) > 1


def test_a_large_plan_is_filled_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four receivers of 60 heavy-tailed partitions each: nearly as short as without any limit."""
    sizes = (np.random.default_rng(7).lognormal(0, 1.7, 240) * 1e6).astype(int).tolist()
    partitions = partition_rows([[1 + number % 4, 9] for number in range(240)], size_bytes=sizes)
    monkeypatch.setattr(schedule, "_MANY", 0)
    plan = plan_of(broker_rows([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), partitions, job="drain", drain=[9])
    runs = run_batches(plan.candidate.moves, Counter(dict.fromkeys(range(1, 11), 0)))
    assert sum(len(run.moves) for run in runs) >= 240
    assert makespan_over_bound(runs) < 1.05


@st.composite
def changes(draw: st.DrawFn) -> tuple[Lists, list[int], list[int]]:
    """[(before, after)] on brokers 1 to 6 that copy something, with sizes and ranks."""
    replicas = st.lists(st.sampled_from(range(1, 7)), min_size=1, max_size=3, unique=True)
    lists = draw(st.lists(st.tuples(replicas, replicas).filter(lambda pair: set(pair[1]) - set(pair[0])), min_size=1))
    each: dict[str, Any] = {"min_size": len(lists), "max_size": len(lists)}
    return (
        lists,
        draw(st.lists(st.sampled_from([0, 1, 10, 100, 1000]), **each)),
        draw(st.lists(st.integers(0, 2), **each)),
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(changes(), st.integers(1, 4), st.integers(1, 8))
def test_every_partition_is_in_one_batch_and_no_limit_is_broken(
    drawn: tuple[Lists, list[int], list[int]], copies: int, partitions: int
) -> None:
    lists, sizes, ranks = drawn
    limits = {"partitions_per_batch": partitions, "leader_changes_per_batch": max(1, partitions - 1)}
    runs = filled(lists, sizes, ranks, copies_per_broker=copies, **limits)
    assert sorted(chain.from_iterable(partitions_by_batch(runs))) == list(range(len(lists)))
    for run in runs:
        assert len(run.moves) <= partitions
        assert sum(move.changes_leader for move in run.moves) <= limits["leader_changes_per_batch"]
        alone = max(len(move.added) for move in run.moves)
        assert max([*run.copies_in.values(), *run.copies_out.values()]) <= max(copies, alone)
