"""Moves that are requested beside those in flight: which may be, and what a whole plan comes to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.rolling.runs import roll
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.moves.run_position import Limits, RestOfPlan, in_order
from support.kafka.small_clusters import move
from support.plans import plain_rolling
from support.plans.batch_runs import run_batches

LIMITS = Limits(copies_per_broker=2, partitions=10, leader_changes=10)


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
        (LIMITS, 0, ["t-0", "t-1", "t-3"]),  # broker 1 sends two
        (LIMITS, 1, ["t-1", "t-3"]),
        (LIMITS, 2, ["t-3"]),
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
    assert fitting([wide], [], LIMITS) == (wide,)
    assert fitting([wide], [move("t-1", [1], [1, 5])], LIMITS) == ()


def test_a_copy_waits_for_what_an_earlier_batch_takes_off_a_disk_that_it_would_fill() -> None:
    off, onto = move("t-0", [1, 3], [1, 4], batch=1), move("t-1", [2, 5], [2, 3], batch=2)
    assert fitting([onto], [off], LIMITS, []) == ()
    assert fitting([onto], [], LIMITS, [off]) == (onto,)
    empty = move("t-3", [2, 5], [2, 3], size=0, batch=2)
    assert fitting([empty], [off], LIMITS, []) == (empty,), "fills no disk"
    same_batch = move("t-2", [2, 5], [2, 3], batch=1)
    assert fitting([same_batch], [off], LIMITS, []) == (same_batch,)
    fuller_later = move("t-4", [2, 5], [2, 3], size=2 * onto.size_bytes, batch=3)
    assert fitting([onto, fuller_later], [off], LIMITS, []) == (onto,), "batch 3 fills the disk as far"


def test_a_follower_watches_what_no_disk_holds_up_and_what_makes_room_on_disks() -> None:
    off, onto = move("t-0", [1, 3], [1, 4], batch=1), move("t-1", [2, 5], [2, 3], batch=2)
    free = move("t-2", [6, 7], [6, 8], batch=2)
    found = RestOfPlan([onto, free], [off], LIMITS, []).beside()
    assert found.ready == (free,)
    assert found.freeing == {off.topic_partition}
    assert RestOfPlan([onto, free], [], LIMITS, [off]).beside().freeing == frozenset()


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
        assert fits == anew.fitting() == plain_rolling.fitting(waiting, flying, limits, ended)
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
