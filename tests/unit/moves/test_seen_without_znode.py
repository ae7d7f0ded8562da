"""What a worker makes of what a follower saw, where several batches are in flight at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.errors import ExecutionError, RefusedError
from kafka_rebalance.model.cluster_view import BY_ADMIN_API
from kafka_rebalance.moves.rolling_requests import Limits
from kafka_rebalance.moves.run_position import position
from kafka_rebalance.rebalance import request_batch
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from support.kafka.small_clusters import batches, move, partition, view

DONE, MOVING = partition([2]), partition([2, 1], [1], 1, adding=[2], removing=[1])


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    notes: list[tuple[int, str]] = []
    monkeypatch.setattr(
        request_batch.batch_notes, "note_batch", lambda _, batch, state, **__: notes.append((batch.number, str(state)))
    )
    monkeypatch.setattr(request_batch.batch_notes, "refusal_words", lambda *_: "t-1: PolicyViolationError: no")
    return notes


def heed(plan: Any, states: dict[str, Any], seen: BatchSeen) -> None:
    """All that is not waiting was asked for."""
    moves = [one for batch in plan for one in batch.moves]
    untouched = {str(one.topic_partition): partition(one.before) for one in moves}
    now = view(untouched | states, traits=BY_ADMIN_API)
    asked = {one.topic_partition for one in moves if str(one.topic_partition) in states}
    where = position(plan, now, asked, limits=Limits(2, 10, 10))
    approved: Any = SimpleNamespace(candidate=SimpleNamespace(digest="d"))
    request_batch._heed(approved, now, where, seen)


@pytest.mark.parametrize("last", [DONE, MOVING])
def test_room_for_more_is_no_verdict_also_where_all_has_ended_meanwhile(last: Any, noted: Any) -> None:
    plan = batches(*(move(f"t-{n}", [1], [2], batch=1) for n in range(3)))
    heed(plan, {"t-0": DONE, "t-1": last}, BatchSeen(BatchState.ROOM, 1))
    assert noted == []


@pytest.mark.parametrize(
    ("state", "now", "error"),
    [(BatchState.STALLED, MOVING, ExecutionError), (BatchState.TAKEN_BACK, partition([1]), RefusedError)],
)
def test_a_verdict_counts_although_the_first_of_the_batches_has_ended_meanwhile(
    state: BatchState, now: Any, error: type[Exception], noted: Any
) -> None:
    plan = batches(move("t-0", [1], [2], batch=1), move("t-1", [1], [2], batch=2))
    with pytest.raises(error, match="so it is"):
        heed(plan, {"t-0": DONE, "t-1": now}, BatchSeen(state, 1, "so it is"))
    assert noted == [(2, str(state))]


@pytest.mark.parametrize("state", [BatchState.TAKEN_BACK, BatchState.REFUSED])
def test_a_verdict_is_noted_on_what_was_asked_for_and_not_on_what_comes_next(state: BatchState, noted: Any) -> None:
    plan = batches(
        move("t-0", [1], [2], batch=1),
        move("t-1", [1], [2], size=1, batch=2),
        *(move(f"u-{n}", [3], [4], size=1000, batch=3) for n in range(3)),
    )
    with pytest.raises(RefusedError):
        heed(plan, {"t-0": DONE, "t-1": partition([1])}, BatchSeen(state, 2, "why"))
    assert noted == [(2, str(state))]


def test_a_refusal_is_told_with_kafkas_own_words(noted: Any) -> None:
    plan = batches(move("t-0", [1], [2], batch=1), move("t-1", [1], [2], size=1, batch=2))
    with pytest.raises(RefusedError, match=r"why Kafka's own words: t-1: PolicyViolationError: no\."):
        heed(plan, {"t-0": DONE, "t-1": partition([1])}, BatchSeen(BatchState.REFUSED, 2, "why"))


@pytest.mark.parametrize("state", [BatchState.TAKEN_BACK, BatchState.REFUSED, BatchState.STALLED])
def test_a_verdict_that_is_no_longer_true_is_not_heeded(state: BatchState, noted: Any) -> None:
    """All that was asked for is in place."""
    plan = batches(move("t-0", [1], [2], batch=1), move("t-1", [1], [2], batch=2))
    heed(plan, {"t-0": DONE}, BatchSeen(state, 1, "why"))
    assert noted == []
