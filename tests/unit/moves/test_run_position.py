"""Where a run stands, re-derived from ZooKeeper alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.model.cluster_view import BY_ADMIN_API
from kafka_rebalance.moves.run_position import Limits, check_position, position
from support.kafka.controller_steps import steps
from support.kafka.small_clusters import batches, move, partition, tp, view

OLD, NEW, UNION = partition([1, 2]), partition([2, 3]), partition([2, 3, 1], [1, 2], 1)
MARKED = partition([2, 3, 1], [1, 2], 1, adding=[3], removing=[1])
PLAN = batches(
    move("t-0", [1, 2], [2, 3], batch=1),
    move("t-1", [1, 2], [2, 3], batch=1),
    move("t-2", [1, 2], [2, 3], batch=2),
)
TO = [2, 3]
LIMITS = Limits(copies_per_broker=2, partitions=10, leader_changes=10)
ANYTHING = view({})  # of what is requested, nothing is gone


def where(t0: Any, t1: Any, t2: Any, reassigning: Any = None, *, asked: Any = (1, 2), **others: Any) -> Any:
    now = view({"t-0": t0, "t-1": t1, "t-2": t2} | others, reassigning=reassigning)
    return position(PLAN, now, partitions_of(PLAN, asked), limits=LIMITS)


def partitions_of(plan: Any, asked: Any) -> Any:
    """Of these batches."""
    return {move.topic_partition for batch in plan if batch.number in asked for move in batch.moves}


def moves_of(batch: Any) -> Any:
    return None if batch is None else [str(one.topic_partition) for one in batch.moves]


@pytest.mark.parametrize(
    ("states", "reassigning", "expected"),  # batches done, the one in flight, what is next, what was refused
    [
        ((OLD, OLD, OLD), None, ((), None, ["t-0", "t-1"], ())),
        ((OLD, OLD, OLD), {"t-0": TO, "t-1": TO}, ((), 1, None, ())),
        ((UNION, OLD, OLD), {"t-0": TO, "t-1": TO}, ((), 1, None, ())),
        ((MARKED, MARKED, OLD), {"t-0": TO, "t-1": TO}, ((), 1, None, ())),
        ((MARKED, NEW, OLD), None, ((), 1, None, ())),  # moved through the API, or the znode was deleted
        ((UNION, NEW, OLD), None, ((), 1, None, ())),
        ((NEW, NEW, OLD), {"t-0": TO}, ((), 1, None, ())),  # the last write is outstanding
        ((NEW, NEW, OLD), None, ((1,), None, ["t-2"], ())),
        ((NEW, NEW, OLD), {"t-2": TO}, ((1,), 2, None, ())),
        ((NEW, NEW, NEW), None, ((1, 2), None, None, ())),
        # one dropped by the controller while the other runs, or has ended
        ((UNION, OLD, OLD), {"t-0": TO}, ((), 1, None, ("t-1",))),
        ((NEW, OLD, OLD), None, ((), None, ["t-1"], ("t-1",))),
        # a batch that was dropped as a whole looks like one that was never requested
        ((OLD, OLD, NEW), None, ((2,), None, ["t-0", "t-1"], ())),
        # a target that went away after the move: verification's matter, nothing is written again
        ((partition([2, 3], [2], 2), NEW, OLD), None, ((1,), None, ["t-2"], ())),
    ],
)
def test_the_position_follows_from_the_znodes(states: Any, reassigning: Any, expected: Any) -> None:
    done, in_flight, following, refused = expected
    now = where(*states, reassigning=reassigning)
    assert now.done == done
    assert (now.in_flight.number if now.in_flight else None) == in_flight
    assert moves_of(now.next) == following
    assert now.refused == tuple(map(tp, refused))
    assert now.foreign == ()
    assert now.finished == (len(done) == 2)
    check_position(now, ANYTHING)


@pytest.mark.parametrize(
    ("states", "reassigning", "touched"),
    [
        ((OLD, OLD, OLD), None, set()),
        ((UNION, OLD, OLD), {"t-0": TO, "t-1": TO}, {1}),
        ((NEW, OLD, OLD), None, {1}),
        ((NEW, NEW, OLD), None, {1}),
        ((NEW, NEW, OLD), {"t-2": TO}, {1, 2}),
    ],
)
def test_begun_batches_are_those_that_were_asked_for_and_of_which_there_is_a_trace(
    states: Any, reassigning: Any, touched: Any
) -> None:
    assert where(*states, reassigning=reassigning).begun == touched
    assert where(*states, reassigning=reassigning, asked=()).begun == set()


def test_the_rest_of_a_partly_refused_batch_keeps_number_and_digest() -> None:
    following = where(NEW, OLD, OLD).next
    assert following is not None
    assert (following.number, following.candidate_digest) == (1, PLAN[0].candidate_digest)


@pytest.mark.parametrize(
    ("states", "reassigning", "others", "words"),
    [
        ((OLD, OLD, OLD), {"u-0": [4]}, {"u-0": OLD}, "u-0 to [4], which this run was not approved to move"),
        ((OLD, OLD, OLD), {"t-0": [4, 1]}, {}, "t-0 to [4, 1], approved is [2, 3]"),
        ((OLD, OLD, OLD), {"t-0": [3, 2]}, {}, "t-0 to [3, 2], approved is [2, 3]"),
        ((OLD, OLD, OLD), {}, {}, "is there and empty"),
        ((partition([4, 1, 2], [1, 2], adding=[4], removing=[2]), OLD, OLD), None, {}, "t-0 to [4, 1], approved"),
        ((OLD, OLD, OLD), None, {"u-0": MARKED}, "u-0 to [2, 3], which this run was not approved to move"),
        ((UNION, OLD, UNION), {"t-0": TO, "t-2": TO}, {}, "batches 1, 2 are in motion at once"),
    ],
)
def test_somebody_elses_reassignment_stops_everything(states: Any, reassigning: Any, others: Any, words: str) -> None:
    now = where(*states, reassigning=reassigning, **others)
    assert not now.finished
    assert now.in_flight is None or "at once" in words  # somebody else's move is not ours to follow
    with pytest.raises(ExecutionError) as stopped:
        check_position(now, ANYTHING)
    assert words in str(stopped.value)


def test_a_long_list_of_foreign_moves_is_cut() -> None:
    foreign = {f"u-{n}": [4] for n in range(25)}
    now = where(OLD, OLD, OLD, foreign, **dict.fromkeys(foreign, OLD))
    with pytest.raises(ExecutionError, match="and 15 more"):
        check_position(now, ANYTHING)


def test_a_partition_that_is_gone_is_neither_done_nor_in_flight() -> None:
    now = position(PLAN, view({"t-0": NEW, "t-2": OLD}), partitions_of(PLAN, {1}), limits=LIMITS)
    assert now.done == ()
    assert moves_of(now.next) == ["t-1"]  # the check before the write refuses it


LISTS = st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True)


@given(
    st.lists(st.tuples(LISTS, LISTS, st.integers(1, 3)).filter(lambda m: m[0] != m[1]), min_size=1, max_size=6),
    st.booleans(),
    st.data(),
)
def test_a_resume_at_any_moment_never_writes_what_runs_or_is_done(drawn: Any, marks: Any, data: Any) -> None:
    """Batches before one are done, it is somewhere in its steps, those after it are untouched."""
    moves = [move(f"t-{n}", before, after, batch=batch) for n, (before, after, batch) in enumerate(drawn)]
    plan = batches(*moves)
    current = data.draw(st.sampled_from([batch.number for batch in plan]))
    created = data.draw(st.booleans())
    states, listed = {}, {}
    for one in moves:
        name = str(one.topic_partition)
        if one.batch == current and created:
            step = data.draw(st.sampled_from(list(steps(one.before, one.after, marks=marks))))
            states[name] = step.partition
            if step.listed:
                listed[name] = one.after
        else:
            states[name] = partition(one.after if one.batch < current else one.before)
    cluster = view(states, brokers=range(1, 7), reassigning=listed or None)
    now = position(plan, cluster, partitions_of(plan, range(1, current + 1)), limits=LIMITS)
    assert now.foreign == ()
    assert now.refused == ()
    if listed:
        assert now.in_flight is not None
        assert now.in_flight.number == current
        assert now.next is None
    else:
        assert now.in_flight is None
        ended = [batch.number for batch in plan if batch.number < current or (batch.number == current and created)]
        assert now.done == tuple(ended)
        left = [batch for batch in plan if batch.number not in ended]
        assert now.next == (left[0] if left else None)


def test_a_request_of_what_is_gone_is_no_reassignment_that_ends() -> None:
    gone = view({}, reassigning={"old-0": [4]}, requested_gone=frozenset({tp("old-0")}))
    now = where(OLD, OLD, OLD, {"old-0": [4]})
    with pytest.raises(ExecutionError, match=r"does not end by itself.*action elect_controller") as stopped:
        check_position(now, gone)
    assert "Let it end" not in str(stopped.value)


# --- without a request znode ---

ROLLING = batches(
    move("t-0", [1, 2], [2, 3], size=900, batch=1),
    move("t-1", [1, 2], [2, 3], size=100, batch=1),
    move("t-2", [1, 2], [2, 4], size=100, batch=2),
    move("t-3", [4, 1], [4, 2], size=100, batch=3),
    move("t-4", [3, 1], [3, 4], size=100, batch=4),
)
FIRST_TWO = {tp("t-0"), tp("t-1")}


def rolling(states: dict[str, Any], asked: Any, limits: Any = None) -> Any:
    untouched = {str(one.topic_partition): partition(list(one.before)) for b in ROLLING for one in b.moves}
    now = view(untouched | states, traits=BY_ADMIN_API)
    return position(ROLLING, now, asked, limits=limits or Limits(2, 10, 10))


def test_moves_of_later_batches_are_requested_with_the_first_as_far_as_they_fit() -> None:
    """Broker 1 sends two copies at once. t-1 waits for room there: t-0 keeps its receiver busy."""
    now = rolling({}, ())
    assert now.in_flight is None
    assert moves_of(now.next) == ["t-0", "t-2", "t-3", "t-4"]
    assert now.next.number == 1


def test_what_was_asked_for_and_is_not_in_place_is_in_flight_together() -> None:
    asked = {tp(name) for name in ("t-0", "t-1", "t-3")}
    t3 = partition([4, 2, 1], [4, 1], adding=[2], removing=[1])
    now = rolling({"t-0": NEW, "t-1": MARKED, "t-3": t3}, asked)
    assert (now.in_flight.number, moves_of(now.in_flight)) == (1, ["t-1", "t-3"])
    assert now.in_place == {tp("t-0")}
    assert [str(one.topic_partition) for one in now.asked] == ["t-1", "t-3"]
    assert now.done == ()
    assert moves_of(now.next) == ["t-2", "t-4"]
    ended = rolling({"t-0": NEW, "t-1": NEW, "t-3": t3}, asked)
    assert (ended.in_flight.number, moves_of(ended.in_flight), ended.done) == (3, ["t-3"], (1,))


def test_once_something_was_dropped_nothing_is_added() -> None:
    now = rolling({"t-0": MARKED}, FIRST_TWO)
    assert moves_of(now.in_flight) == ["t-0", "t-1"]
    assert now.refused == (tp("t-1"),)
    assert now.next is None


def test_a_move_that_this_run_has_not_asked_for_is_somebody_elses() -> None:
    now = rolling({"t-0": MARKED, "t-1": MARKED}, {tp("t-0")})
    assert "this run has not asked for it" in now.foreign[0]
