"""The worst single loss while a plan runs, against counting it out, and what else a plan means for those around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.proposals import Course, WorstCase
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.batches.schedule import held_up
from kafka_rebalance.planning.batches.transfers import Transfers
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import batch_of_rows
from kafka_rebalance.planning.describe.worst_case import worst_case
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

Lists = Sequence[Sequence[int]]
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def found(
    before: Lists,
    after: Lists,
    batch: Sequence[int],
    least: Sequence[int | None],
    isr: Lists | None = None,
    racks: Mapping[int, str] | None = None,
) -> WorstCase:
    """Of partitions orders-0, orders-1, ... on brokers 1 to 6."""
    columns: dict[str, Any] = {"min_insync_replicas": least} | ({"isr": isr} if isr else {})
    problem = problem_of(broker_rows(range(1, 7), racks), partition_rows(before, **columns))
    width = max(map(len, after))
    lists = np.array([[*(broker - 1 for broker in row), *[-1] * (width - len(row))] for row in after])
    return worst_case(problem, lists, np.array(batch))


def counted(
    before: Lists, after: Lists, batch: Sequence[int], least: Sequence[int | None], isr: Lists, racks: Mapping[int, str]
) -> tuple[list[Counter[int]], list[Counter[str]]]:
    """What each loss costs after each number of batches, one partition after the other."""
    by_broker, by_rack = [], []
    for done in range(max([0, *batch]) + 1):
        brokers: Counter[int] = Counter()
        losses: Counter[str] = Counter()
        for number, in_sync in enumerate(isr):
            moved = 0 < batch[number] <= done
            now = set(after[number] if moved else in_sync)
            for broker in range(1, 7):
                brokers[broker] += least[number] is not None and len(now - {broker}) < (least[number] or 0)
            for rack in set(racks.values()):
                losses[rack] += {racks[broker] for broker in now} == {rack}
        by_broker.append(brokers)
        by_rack.append(losses)
    return by_broker, by_rack


lists = st.permutations(range(1, 7)).flatmap(lambda order: st.integers(1, 4).map(lambda count: order[:count]))
partitions = st.lists(
    st.tuples(lists, lists, st.integers(0, 3), st.none() | st.integers(1, 3), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=50)
@given(partitions)
def test_the_worst_loss_of_every_moment_is_what_counting_gives(rows: list[Any]) -> None:
    before, after, batch, least, lag = zip(*rows, strict=True)
    isr = [row[: max(1, len(row) - behind)] for row, behind in zip(before, lag, strict=True)]
    worst = found(before, after, batch, least, isr, RACKS)
    by_broker, by_rack = counted(before, after, batch, least, isr, RACKS)
    assert (worst.broker is None) == all(one is None for one in least)
    assert worst.min_insync_unknown == sum(one is None for one in least)
    assert worst.under_now == sum(
        one is not None and len(in_sync) < one for one, in_sync in zip(least, isr, strict=True)
    )
    assert worst.under_after == sum(
        one is not None and len(after[number] if batch[number] else isr[number]) < one
        for number, one in enumerate(least)
    )
    for course, moments in ((worst.broker, by_broker), (worst.rack, by_rack)):
        if course is not None:
            agrees(course, moments)


def agrees(course: Course, moments: Sequence[Counter[Any]]) -> None:
    most = [max(moment.values(), default=0) for moment in moments]
    assert (course.today.partitions, course.after.partitions) == (most[0], most[-1])
    assert moments[0][course.today.lost] == most[0]
    assert moments[-1][course.after.lost] == most[-1]
    assert (course.during is None) == (len(moments) == 1)
    if course.during is not None:
        assert course.during.partitions == max(most[:-1])
        assert moments[course.during.batch - 1][course.during.lost] == max(most[:-1])
    assert (course.today.topic_count, course.today.topics) == ((1, ("orders",)) if most[0] else (0, ()))


def test_a_new_replica_counts_when_its_batch_is_over_and_the_old_ones_until_then() -> None:
    """Both partitions go from brokers 1 and 2 to 3 and 4, one batch each; the second is alone beside the first."""
    worst = found([[1, 2], [3, 5]], [[3, 4], [3, 4]], [1, 2], [2, 2])
    assert worst.broker is not None
    assert worst.broker.during is not None
    assert (worst.broker.today.partitions, worst.broker.after.partitions) == (1, 2)
    # In batch 1 partition 0 is still in sync on 1 and 2 alone; from batch 2 on broker 3 holds both.
    assert (worst.broker.during.batch, worst.broker.during.lost, worst.broker.during.partitions) == (2, 3, 2)


@pytest.mark.slow
@settings(max_examples=50)
@given(partitions, st.integers(1, 3))
def test_a_plan_that_only_takes_replicas_away_never_makes_a_loss_less_bad(rows: list[Any], kept: int) -> None:
    before, _, _, least, _ = zip(*rows, strict=True)
    worst = found(before, [row[:kept] for row in before], [1] * len(before), least, racks=RACKS)
    assert worst.under_after >= worst.under_now
    for course in (worst.broker, worst.rack):
        assert course is None or course.after.partitions >= course.today.partitions


def test_a_factor_below_min_insync_replicas_is_told_as_worse() -> None:
    worst = found([[1, 2], [3, 4], [5, 6]], [[1], [3], [5]], [1, 1, 1], [2, 2, 2])
    assert worst.broker is not None
    assert (worst.broker.today.partitions, worst.broker.after.partitions) == (1, 3)
    assert (worst.under_now, worst.under_after) == (0, 3)


def test_a_rack_that_holds_every_replica_of_a_partition_is_told_until_the_plan_has_mended_it() -> None:
    worst = found([[1, 2], [1, 3]], [[1, 3], [1, 3]], [1, 0], [1, 1], racks=RACKS)
    assert worst.rack is not None
    assert worst.rack.during is not None
    assert (worst.rack.today.lost, worst.rack.today.partitions, worst.rack.today.topics) == ("a", 1, ("orders",))
    assert (worst.rack.during.partitions, worst.rack.after.partitions) == (1, 0)


def test_of_what_is_not_known_nothing_is_said() -> None:
    worst = found([[1, 2], [1, 3]], [[1, 3], [1, 3]], [1, 0], [None, None])
    assert (worst.broker, worst.rack, worst.min_insync_unknown) == (None, None, 2)


def test_only_three_topics_are_named_and_the_others_counted() -> None:
    rows = [row for topic in "abcde" for row in partition_rows([[1, 2]] * (2 if topic == "d" else 1), topic=topic)]
    for row in rows:
        row["min_insync_replicas"] = 2
    worst = worst_case(problem_of(broker_rows(range(1, 7)), rows), np.zeros((6, 2), dtype=int), np.zeros(6, dtype=int))
    assert worst.broker is not None
    assert (worst.broker.today.topics, worst.broker.today.topic_count) == (("d", "a", "b"), 5)
    assert worst.broker.during is None


def test_a_plan_says_what_its_way_back_copies_and_which_topics_it_holds_up() -> None:
    rows = partition_rows([[1, 2], [1, 2], [1, 2], [1, 2]], size=600)
    rows += partition_rows([[1, 2]], topic="__consumer_offsets", size=600)
    problem = problem_of(
        broker_rows([1, 2, 3, 4]), rows, job="drain", drain=[2], throttle_bytes_per_second=100, partitions_per_batch=2
    )
    plan = propose(problem, "balanced")
    moves = plan.candidate.moves
    back = [Move(move.topic_partition, move.after, move.before, move.size_bytes, move.batch) for move in moves]
    numbers = np.array([move.batch for move in moves])
    busiest = np.maximum(*Transfers.of(problem, back).traffic(numbers)).max(axis=1).sum()
    assert in_json(plan.consequences["way_back"]) == {
        "bytes": sum(move.bytes_to_copy for move in back),
        "seconds": busiest / 100,
    }
    named = in_json(held_up(moves, problem.kafkas_own))
    assert (named["topics"], named["internal"]) == (2, ["__consumer_offsets"])
    assert [(one["topic"], one["partitions"]) for one in named["listed"]] == [("orders", 4), ("__consumer_offsets", 1)]
    assert sorted(batch_of_rows(problem, moves).tolist()) == sorted(move.batch for move in moves)
    assert set(plan.consequences) == {
        "worst_case",
        "way_back",
        "held_up",
        "left_waiting",
        "log_dirs",
        "timetable",
        "further_runs",
        "stays_behind",
        "broker_loss",
        "between_racks",
        "evenness_by_bytes",
    }
