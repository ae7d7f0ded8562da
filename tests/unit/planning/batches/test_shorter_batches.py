"""Batches made shorter once they are filled: what changes places, and what must hold whatever does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.batches import controller_bytes
from kafka_rebalance.planning.batches.batch_order import ORDINARY, URGENT
from kafka_rebalance.planning.batches.controller_bytes import Work, rewrites
from kafka_rebalance.planning.batches.list_schedules import FillOrder, filled_batches, levelled, pieces
from kafka_rebalance.planning.batches.transfers import Transfers
from kafka_rebalance.planning.problem.arrays import Ints
from support.plans.batch_runs import BatchRun, run_batches
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

Lists = list[tuple[list[int], list[int]]]


def before_and_after(
    lists: Lists, sizes: list[int], batches: list[int] | None = None, ranks: list[int] | None = None, **asked: Any
) -> tuple[tuple[BatchRun, ...], tuple[BatchRun, ...]]:
    """The batches of [(before, after)] of partitions of these sizes as given, or as they are filled, and levelled."""
    ids = sorted({broker for pair in lists for part in pair for broker in part})
    problem = problem_of(broker_rows(ids), partition_rows([old for old, _ in lists], size_bytes=sizes), **asked)
    moves = [
        Move(TopicPartition("orders", number), tuple(old), tuple(new), size)
        for number, ((old, new), size) in enumerate(zip(lists, sizes, strict=True))
    ]
    transfers, znodes, every = Transfers.of(problem, moves), rewrites(problem, moves), np.arange(len(moves))
    rank = np.array(ranks or [ORDINARY] * len(moves))
    if batches is None:
        found = pieces(problem.settings, transfers, every, rank)
        work = Work(znodes, problem.settings.partitions_per_batch)
        first = filled_batches(problem.settings, transfers, found, rank, work, FillOrder(True, False, 1.0, 0.0), 1)
    else:
        first = np.array(batches)
    second = levelled(problem.settings, transfers, every, first, rank, znodes)
    return _runs(moves, first), _runs(moves, second)


def _runs(moves: list[Move], batch: Ints) -> tuple[BatchRun, ...]:
    placed = [replace(move, batch=number + 1) for move, number in zip(moves, batch.tolist(), strict=True)]
    return run_batches(placed, Counter({broker: 0 for move in moves for broker in {*move.before, *move.after}}))


def partitions_by_batch(runs: tuple[BatchRun, ...]) -> list[set[int]]:
    return [{move.topic_partition.partition for move in run.moves} for run in runs]


LARGE_BESIDE_SMALL: Lists = [([1], [3]), ([2], [4]), ([2], [4])]


def test_a_large_partition_changes_places_with_a_small_one_beside_a_larger() -> None:
    """What lasts 1000 for broker 1 has room for the 900 of broker 2 as well as for its 100."""
    before, after = before_and_after(LARGE_BESIDE_SMALL, [1000, 100, 900], [0, 0, 1], copies_per_broker=1)
    assert [run.busiest_bytes for run in before] == [1000, 900]
    assert [run.busiest_bytes for run in after] == [1000, 100]
    assert partitions_by_batch(after) == [{0, 2}, {1}]


def test_a_batch_of_which_nothing_is_left_is_no_more() -> None:
    _, after = before_and_after(LARGE_BESIDE_SMALL, [1000, 100, 900], [0, 1, 2], copies_per_broker=2)
    assert partitions_by_batch(after) == [{0, 1, 2}]


def test_what_is_early_does_not_change_places_with_what_is_not() -> None:
    ranks = [URGENT, URGENT, ORDINARY]
    before, after = before_and_after(LARGE_BESIDE_SMALL, [1000, 100, 900], [0, 0, 1], ranks, copies_per_broker=1)
    assert partitions_by_batch(after) == partitions_by_batch(before)


def test_no_batch_becomes_more_than_the_controller_can_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_bytes, "CONTROLLER_BYTES_PER_BATCH", 100)
    before, after = before_and_after(LARGE_BESIDE_SMALL, [1000, 100, 900], [0, 0, 1], copies_per_broker=1)
    assert partitions_by_batch(after) == partitions_by_batch(before)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Lists, list[int], list[int]]:
    """[(before, after)] of partitions on brokers 1 to 6 that copy something, their sizes, and their ranks."""
    replicas = st.lists(st.sampled_from(range(1, 7)), min_size=1, max_size=3, unique=True)
    lists = draw(st.lists(st.tuples(replicas, replicas).filter(lambda pair: set(pair[1]) - set(pair[0])), min_size=2))
    each: dict[str, Any] = {"min_size": len(lists), "max_size": len(lists)}
    return lists, draw(st.lists(st.integers(0, 1000), **each)), draw(st.lists(st.integers(0, 2), **each))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(changes(), st.integers(1, 4), st.integers(2, 8))
def test_levelling_makes_nothing_longer_or_later_and_breaks_no_limit(
    drawn: tuple[Lists, list[int], list[int]], copies: int, partitions: int
) -> None:
    lists, sizes, ranks = drawn
    limits = {"partitions_per_batch": partitions, "leader_changes_per_batch": partitions - 1}
    before, after = before_and_after(lists, sizes, None, ranks, copies_per_broker=copies, **limits)
    assert sum(run.busiest_bytes for run in after) <= sum(run.busiest_bytes for run in before)
    assert sorted(set().union(*partitions_by_batch(after))) == list(range(len(lists)))
    for run in after:
        assert len(run.moves) <= partitions
        assert sum(move.changes_leader for move in run.moves) <= partitions - 1
        alone = max(len(move.added) for move in run.moves)
        assert max([*run.copies_in.values(), *run.copies_out.values()]) <= max(copies, alone)
    for rank in range(2):  # no more batches have to come first
        first = [
            sum(any(ranks[n] <= rank for n in batch) for batch in partitions_by_batch(runs)) for runs in (before, after)
        ]
        assert first[1] <= first[0]
