"""Where a run stands, re-derived from the cluster alone, and which moves may be requested beside those in flight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.rolling.runs import roll
from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import BY_ADMIN_API
from kafka_rebalance.moves.rolling_requests import Limits, RestOfPlan, in_order
from kafka_rebalance.moves.run_position import check_position, position
from support.kafka.controller_steps import steps
from support.kafka.small_clusters import batches, move, partition, tp, view
from support.plans.batch_runs import run_batches

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


TWO_COPIES = Limits(copies_per_broker=2, partitions=10, leader_changes=10)


def fitting(waiting: Any, in_flight: Any, limits: Limits, ended: Any = None) -> tuple[Move, ...]:
    return RestOfPlan(waiting, in_flight, limits, ended).fitting()


def has_room(waiting: Any, in_flight: Any, limits: Limits) -> bool:
    rest = RestOfPlan(waiting, in_flight, limits)
    return rest.is_due(rest.fitting(), rest.busiest_ends())


def names(moves: Any) -> list[str]:
    return [str(one.topic_partition) for one in moves]


def test_the_order_is_that_of_the_batches_and_in_a_batch_the_busiest_broker_comes_first() -> None:
    moves = [
        move("t-0", [1, 2], [1, 3], size=10, batch=1),
        move("t-1", [4, 2], [4, 5], size=50, batch=1),
        move("t-2", [4, 2], [4, 5], size=60, batch=1),
        move("t-3", [1, 2], [1, 3], size=100, batch=2),
    ]
    assert names(in_order(moves)) == ["t-2", "t-1", "t-0", "t-3"]


@pytest.mark.parametrize(
    ("limits", "in_flight", "expected"),
    [
        (TWO_COPIES, 0, ["t-0", "t-1", "t-3"]),  # broker 1 sends two
        (TWO_COPIES, 1, ["t-1", "t-3"]),
        (TWO_COPIES, 2, ["t-3"]),
        (Limits(9, 2, 9), 0, ["t-0", "t-1"]),
        (Limits(9, 9, 0), 0, ["t-0", "t-1", "t-2"]),  # t-3 gets another leader
    ],
)
def test_limits_hold_for_everything_at_once(limits: Limits, in_flight: int, expected: list[str]) -> None:
    moves = [
        move("t-0", [1, 2], [1, 3]),
        move("t-1", [1, 2], [1, 4]),
        move("t-2", [1, 2], [1, 5]),
        move("t-3", [6, 2], [2, 6]),
    ]
    assert names(fitting(moves[in_flight:], moves[:in_flight], limits)) == expected


def test_a_move_with_more_copies_than_places_has_them_all() -> None:
    wide = move("t-0", [1], [1, 2, 3, 4])
    assert fitting([wide], [], TWO_COPIES) == (wide,)
    assert fitting([wide], [move("t-1", [1], [1, 5])], TWO_COPIES) == ()


def test_a_copy_waits_for_what_an_earlier_batch_takes_off_a_disk_that_it_would_fill() -> None:
    off, onto = move("t-0", [1, 3], [1, 4], batch=1), move("t-1", [2, 5], [2, 3], batch=2)
    assert fitting([onto], [off], TWO_COPIES, []) == ()
    assert fitting([onto], [], TWO_COPIES, [off]) == (onto,)
    empty = move("t-3", [2, 5], [2, 3], size=0, batch=2)
    assert fitting([empty], [off], TWO_COPIES, []) == (empty,), "fills no disk"
    same_batch = move("t-2", [2, 5], [2, 3], batch=1)
    assert fitting([same_batch], [off], TWO_COPIES, []) == (same_batch,)
    fuller_later = move("t-4", [2, 5], [2, 3], size=2 * onto.size_bytes, batch=3)
    assert fitting([onto, fuller_later], [off], TWO_COPIES, []) == (onto,), "batch 3 fills the disk as far"


def test_a_follower_watches_what_no_disk_holds_up_and_what_makes_room_on_disks() -> None:
    off, onto = move("t-0", [1, 3], [1, 4], batch=1), move("t-1", [2, 5], [2, 3], batch=2)
    free = move("t-2", [6, 7], [6, 8], batch=2)
    found = RestOfPlan([onto, free], [off], TWO_COPIES, []).beside()
    assert found.ready == (free,)
    assert found.freeing == {off.topic_partition}
    assert RestOfPlan([onto, free], [], TWO_COPIES, [off]).beside().freeing == frozenset()


def test_no_request_is_due_before_a_move_has_ended_that_was_in_flight_when_the_worker_looked() -> None:
    """What the worker had to leave stays as it is until then, so nobody looks again and again."""
    off, onto = move("t-0", [3, 1], [4, 1], size=100, batch=1), move("t-1", [1, 2], [3, 2], size=1000, batch=2)
    small = [move(f"s-{n}", [5, 2], [6, 2], size=10, batch=1) for n in range(10)]
    flying = [off, *small[:9]]
    found = RestOfPlan([*small[9:], onto], flying, Limits(10, 250, 1000), []).beside()
    assert not found.is_due(flying)
    assert not found.is_due(flying[:-1]), "one of ten places of a broker that has little to copy"
    assert found.is_due(flying[1:]), "the disk of the busiest broker has room"
    assert found.is_due([off, *small[:4]])


def test_where_places_are_few_the_broker_with_most_left_to_copy_is_never_idle() -> None:
    """In the order of the plan the ten moves of broker 1 would have all places."""
    many = [move(f"a-{n}", [1, 2], [1, 3], size=10, batch=1) for n in range(10)]
    busy = [move(f"b-{n}", [4, 5], [4, 6], size=100, batch=2) for n in range(10)]
    assert names(fitting([*many, *busy], [], Limits(10, 4, 10), [])) == ["b-0", "b-1", "b-2", "b-3"]
    assert names(fitting([*many, *busy[1:]], busy[:1], Limits(10, 4, 10), [])) == ["b-1", "b-2", "b-3"]
    even = [move(f"c-{n}", [7, 8], [7, 9], size=10, batch=2) for n in range(10)]
    assert names(fitting([*many, *even], [], Limits(10, 4, 10), [])) == ["a-0", "a-1", "c-0", "c-1"]


def test_of_a_brokers_moves_that_one_is_next_whose_other_brokers_have_fewest_copies_in_flight() -> None:
    """Broker 1 sends already, so a second copy of it would be slow, and broker 3 not quite busy."""
    sends = move("f-0", [1, 9], [1, 8])
    shared, alone = move("t-0", [1, 2], [1, 3]), move("t-1", [4, 2], [4, 3])
    assert fitting([shared, alone], [sends], Limits(10, 2, 10)) == (alone,)
    assert fitting([shared, alone], [], Limits(10, 1, 10)) == (shared,), "of several the first"


def test_a_request_is_due_when_half_of_the_places_are_free() -> None:
    busiest = [move(f"b-{n}", [11, 2], [11, 12], size=10000) for n in range(4)]
    flying = [move(f"t-{n}", [1, 2], [1, 3]) for n in range(3)]
    next_one = [move("t-9", [1, 2], [1, 3])]
    four = Limits(4, 20, 10)
    assert not has_room(next_one, [*busiest, *flying], four)
    assert has_room(next_one, [*busiest, *flying[:2]], four)
    assert not has_room([], (), four)
    elsewhere = [move("t-9", [7, 2], [7, 8])]
    assert fitting(elsewhere, [*busiest, *flying], Limits(4, 8, 10))
    assert not has_room(elsewhere, [*busiest, *flying], Limits(4, 8, 10))


def test_for_the_busiest_broker_a_request_is_due_when_one_place_is_free() -> None:
    busiest = [move(f"b-{n}", [11, 2], [11, 12], size=1000) for n in range(5)]
    four = Limits(4, 4, 10)
    assert not has_room(busiest[4:], busiest[:4], four)
    assert has_room(busiest[3:], busiest[:3], four)
    empty = [move(f"e-{n}", [11, 2], [11, 12], size=0) for n in range(4)]
    assert not has_room(empty[3:], empty[:3], four), "no broker is busy with copies of nothing"


# --- the rule of `fitting` once more, as plainly as it can be said ---


def plain_fitting(
    waiting: Sequence[Move], in_flight: Sequence[Move], limits: Limits, ended: Collection[Move] | None
) -> tuple[Move, ...]:
    """As `RestOfPlan.fitting` of these moves."""
    chosen: list[Move] = []
    while len(in_flight) + len(chosen) < limits.partitions:
        flying, left = [*in_flight, *chosen], [move for move in waiting if move not in chosen]
        sized = [move for move in left if move.size_bytes and move.added]
        ends = {end for move in sized for end in _copies(move, limits)}
        most_first = sorted(ends, key=lambda end: (-_bytes_left(end, [*in_flight, *waiting], flying, limits), end))
        tried = []
        for end in most_first:
            of_it = [move for move in sized if end in _copies(move, limits)]
            tried += sorted(of_it, key=lambda move: _most_of_others(move, end, flying, limits))
        tried += [move for move in left if not (move.size_bytes and move.added)]
        found = next((move for move in tried if _fits(move, flying, left, limits, ended)), None)
        if found is None:
            break
        chosen.append(found)
    return tuple(move for move in waiting if move in chosen)


def _copies(move: Move, limits: Limits) -> dict[tuple[int, str], int]:
    found = {(broker, "receives"): 1 for broker in move.added}
    return found | {(move.source, "sends"): min(len(move.added), limits.copies_per_broker)} if move.added else found


def _used(end: tuple[int, str], flying: Collection[Move], limits: Limits) -> int:
    return sum(_copies(move, limits).get(end, 0) for move in flying)


def _most_of_others(move: Move, end: tuple[int, str], flying: Collection[Move], limits: Limits) -> int:
    return max((_used(other, flying, limits) for other in _copies(move, limits) if other != end), default=0)


def _bytes_left(end: tuple[int, str], moves: Collection[Move], flying: Collection[Move], limits: Limits) -> float:
    """Of all these moves, for each copy that is in flight, and one more."""
    broker, way = end
    counts = ((len(move.added) * (move.source == broker) if way == "sends" else broker in move.added) for move in moves)
    left = sum(move.size_bytes * count for move, count in zip(moves, counts, strict=True))
    return left / (_used(end, flying, limits) + 1)


def _fits(
    move: Move, flying: Collection[Move], left: Collection[Move], limits: Limits, ended: Collection[Move] | None
) -> bool:
    room = all(
        _used(end, flying, limits) + count <= limits.copies_per_broker for end, count in _copies(move, limits).items()
    )
    leaders = sum(one.changes_leader for one in (*flying, move)) <= limits.leader_changes or not move.changes_leader
    disks = ended is None or not move.size_bytes
    return room and leaders and (disks or all(_disk_has_room(to, move, ended or (), flying, left) for to in move.added))


def _disk_has_room(
    broker: int, move: Move, ended: Collection[Move], flying: Collection[Move], left: Collection[Move]
) -> bool:
    """Whether the rest of the plan, batch by batch, stays below the highest point of all batches."""
    level = highest = 0
    for batch in sorted({one.batch for one in (*ended, *flying, *left)}):
        level += _arriving(broker, batch, [*ended, *flying, *left])
        highest = max(highest, level)
        level -= _leaving(broker, batch, [*ended, *flying, *left])
    level = _arriving(broker, None, [*ended, *flying]) - _leaving(broker, None, ended) + move.size_bytes
    removing = {one.batch for one in (*flying, *left) if one.size_bytes and broker in one.removed}
    last = max((batch for batch in removing if batch < move.batch), default=0)
    for batch in sorted(one for one in removing | {one.batch for one in left} if one <= last):
        level += _arriving(broker, batch, left)
        if level > highest:
            return False
        level -= _leaving(broker, batch, [*flying, *left])
    return True


def _arriving(broker: int, batch: int | None, moves: Collection[Move]) -> int:
    return sum(one.size_bytes for one in moves if broker in one.added and batch in (None, one.batch))


def _leaving(broker: int, batch: int | None, moves: Collection[Move]) -> int:
    return sum(one.size_bytes for one in moves if broker in one.removed and batch in (None, one.batch))


@st.composite
def plans(draw: st.DrawFn, least_bytes: int = 1) -> list[Move]:
    found = []
    for number in range(draw(st.integers(1, 25))):
        before = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True))
        after = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True))
        size, batch = draw(st.integers(least_bytes, 1000)), draw(st.integers(1, 6))
        found.append(move(f"t-{number}", before, after, size=size, batch=batch))
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(plans(least_bytes=0), st.builds(Limits, st.integers(1, 4), st.integers(1, 8), st.integers(1, 6)), st.data())
def test_what_it_is_told_leaves_the_same_as_the_plain_rule_and_as_facts_read_anew(
    moves: list[Move], limits: Limits, data: st.DataObject
) -> None:
    """After a crash the worker knows what waits, is in flight and has ended, and nothing else."""
    waiting, flying, ended = in_order(moves), list[Move](), list[Move]()
    told = RestOfPlan(waiting, flying, limits, ended)
    while waiting or flying:
        anew = RestOfPlan(waiting, flying, limits, ended)
        fits = told.fitting()
        assert fits == anew.fitting() == plain_fitting(waiting, flying, limits, ended)
        assert told.busiest_ends() == anew.busiest_ends()
        assert told.is_due(fits, told.busiest_ends()) == anew.is_due(fits, anew.busiest_ends())
        assert told.beside() == anew.beside()
        started = data.draw(st.sampled_from([fits, fits[:1]])) if fits else ()
        told.started(started)
        waiting, flying = [move for move in waiting if move not in started], [*flying, *started]
        over = data.draw(st.lists(st.sampled_from(flying), min_size=1, unique=True))
        told.ended(over)
        flying, ended = [move for move in flying if move not in over], [*ended, *over]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(plans(), st.integers(1, 4), st.integers(1, 8))
def test_no_plan_stops_half_way_or_fills_a_disk_more_than_its_batches(
    moves: list[Move], copies: int, partitions: int
) -> None:
    used = Counter(dict.fromkeys(range(1, 7), 10000))
    run = roll(moves, Limits(copies, partitions, 50), used)
    batches = run_batches(moves, used)
    for broker, peak in run.peak.items():
        assert peak <= max(used[broker], *(batch.peak[broker] for batch in batches))
    assert run.most_copies <= max(copies, *(len(one.added) for one in moves))
    assert run.most_partitions <= partitions


def test_where_places_are_few_new_brokers_are_filled_at_their_full_rate() -> None:
    """Thirty brokers fill ten new ones, with two places for each of these. The plan has the moves of a sender together,
    which would share its rate if they were in flight together.
    """
    moves = [
        move(f"t-{n}", [1 + n // 20, 99], [31 + n % 10, 99], size=90 + n % 21, batch=1 + n // 60) for n in range(600)
    ]
    assert roll(moves, Limits(10, 20, 1000)).over_bound <= 1.02


def test_a_plan_takes_hardly_longer_than_its_busiest_broker_must_copy() -> None:
    """Broker 1 is emptied onto nine others, among moves of a quarter of these bytes between the others."""
    drain = [
        move(f"a-{n}", [1, 2 + n % 9], [2 + (n + 1) % 9, 2 + n % 9], size=50 + n % 7, batch=1 + n // 12)
        for n in range(120)
    ]
    beside = [move(f"b-{n}", [2 + n % 9], [2 + (n + 4) % 9], size=20, batch=1 + n // 12) for n in range(80)]
    run = roll([*drain, *beside], Limits(10, 250, 1000))
    assert run.over_bound <= 1.02
    assert run.requests < len(drain) + len(beside)
