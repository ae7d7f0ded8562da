"""What goes wrong while a batch is followed: told from two views and the time between them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafka_rebalance.model.cluster_view import Controller
from kafka_rebalance.rebalance.controller_findings import UNHEARD_SECONDS, ZOMBIE_SECONDS, FindingKind, detect
from support.kafka.controller_steps import steps
from support.kafka.small_clusters import move, partition, view

MOVES = [move("t-0", [1, 2], [2, 3]), move("u-0", [1, 2], [2, 4])]
ASKED = {"t-0": [2, 3], "u-0": [2, 4]}
OLD, DONE = partition([1, 2]), partition([2, 3])
MARKED = partition([2, 3, 1], [1, 2], 1, adding=[3], removing=[1])
UNION = partition([2, 3, 1], [1, 2], 1)


def seen(t_0: Any = OLD, u_0: Any = OLD, **others: Any) -> Any:
    return view({"t-0": t_0, "u-0": u_0}, **{"reassigning": ASKED} | others)


def look(*views: Any, seconds: Any = 10.0, moves: Any = MOVES, kafka_elects: Any = None) -> Any:
    """The anomalies of the last of these views, taken so many seconds apart."""
    watch: Any = None
    found: tuple[Any, ...] = ()
    for number, current in enumerate(views):
        watch, found = detect(watch, number * seconds, moves, current, kafka_elects=kafka_elects)
    return {one.kind: one for one in found}


@pytest.mark.parametrize("marks", [True, False], ids=["2.4+", "2.0"])
@pytest.mark.parametrize(
    ("before", "after"),
    [([1, 2], [2, 3]), ([1, 2, 3], [3, 2]), ([2, 1], [1, 2]), ([1, 2, 3], [4, 5, 6]), ([1], [1, 2])],
)
@pytest.mark.parametrize("seconds", [0.2, 20.0, 1000.0])
def test_no_step_of_a_healthy_move_is_an_anomaly(before: Any, after: Any, marks: bool, seconds: float) -> None:
    """Copies take as long as they take; every other step takes milliseconds."""
    moves = [move("t-0", before, after)]
    views = [
        view({"t-0": step.partition}, brokers=range(1, 7), reassigning={"t-0": after} if step.listed else None)
        for step in steps(before, after, marks=marks)
    ]
    watch, now = None, 0.0
    for step, current in zip(steps(before, after, marks=marks), views, strict=True):
        watch, found = detect(watch, now, moves, current)
        assert found == ()
        copying = step.partition.replicas != tuple(before) and not set(after) <= set(step.partition.isr)
        now += seconds if copying else 0.1


# --- requests that nobody takes up ---------------------------------------------------------------------------------


def test_a_request_that_is_not_taken_up_needs_another_controller() -> None:
    assert look(seen(), seen(), seconds=UNHEARD_SECONDS - 1) == {}
    found = look(seen(), seen(), seconds=UNHEARD_SECONDS)[FindingKind.UNHEARD_REQUEST]
    assert found.stops
    assert "(0 of 2 partitions started)" in found.text
    assert "or start kafka_rebalance_cancel with action elect_controller" in found.text
    assert "Do not delete the znode" in found.text


@pytest.mark.parametrize("t_0", [MARKED, UNION, DONE, partition([1, 2], [2])])
def test_a_request_of_which_anything_is_taken_up_is_heard(t_0: Any) -> None:
    moves = [move("t-0", [1, 2], [2]), MOVES[1]] if t_0.isr == (2,) else MOVES
    asked = ASKED | {"t-0": list(moves[0].after)}
    current = seen(t_0, reassigning=asked)
    assert FindingKind.UNHEARD_REQUEST not in look(current, current, seconds=1000, moves=moves)


def test_a_new_controller_gets_its_own_time() -> None:
    first, second = seen(controller=Controller(1, 7)), seen(controller=Controller(2, 8))
    assert look(first, second, second, seconds=UNHEARD_SECONDS - 1) == {}
    assert FindingKind.UNHEARD_REQUEST in look(first, second, second, seconds=UNHEARD_SECONDS)


def test_without_a_controller_nobody_is_deaf() -> None:
    gone = seen(controller=None)
    found = look(gone, gone, seconds=60)
    assert list(found) == [FindingKind.NO_CONTROLLER]
    assert not found[FindingKind.NO_CONTROLLER].stops
    assert look(gone, gone, seconds=59) == {}
    assert look(gone, seen(), gone, seconds=59) == {}


# --- requests that somebody touched --------------------------------------------------------------------------------


@pytest.mark.parametrize("moving", [MARKED, UNION], ids=["2.4+", "2.0"])
@pytest.mark.parametrize("reassigning", [None, {"u-0": [2, 4]}])
def test_an_entry_that_somebody_took_away_in_mid_move_leaves_a_deaf_controller(moving: Any, reassigning: Any) -> None:
    found = look(seen(moving), seen(moving, reassigning=reassigning))[FindingKind.DEAF_CONTROLLER]
    assert "Somebody took t-0 out of /admin/reassign_partitions in mid-move" in found.text
    assert "Let the copies end before anybody requests anything" in found.text
    assert not found.stops
    later = [seen(moving), seen(moving, reassigning=reassigning), seen(moving, reassigning=reassigning)]
    assert FindingKind.DEAF_CONTROLLER in look(*later), "as long as it is so"


def test_what_a_tool_adds_to_the_request_is_named() -> None:
    found = look(seen(MARKED, reassigning=ASKED | {"x-9": [1]}))[FindingKind.FOREIGN_REASSIGNMENT]
    assert "asks for x-9, which this batch does not" in found.text
    found = look(seen(MARKED, reassigning=ASKED | {"u-0": [3, 4]}))[FindingKind.FOREIGN_REASSIGNMENT]
    assert "asks for u-0" in found.text


def test_an_entry_that_stays_although_its_move_is_over_is_a_zombie() -> None:
    over = seen(DONE, partition([2, 4]), reassigning={"t-0": [2, 3]})
    assert look(over, over, seconds=ZOMBIE_SECONDS - 1) == {}
    found = look(over, over, seconds=ZOMBIE_SECONDS)[FindingKind.ZOMBIE_ENTRY]
    assert "has listed t-0 for 60 s and more with nothing left to do" in found.text
    assert found.stops
    still = seen(DONE, partition([2, 4, 1], adding=[4], removing=[1]))
    assert not look(still, still, seconds=ZOMBIE_SECONDS)[FindingKind.ZOMBIE_ENTRY].stops, "the other one still moves"


def test_an_entry_of_a_partition_that_is_gone_is_a_zombie() -> None:
    gone = view({"u-0": partition([2, 4])}, reassigning={"t-0": [2, 3]})
    assert FindingKind.ZOMBIE_ENTRY in look(gone, gone, seconds=ZOMBIE_SECONDS)


# --- the controller, other tools, deletions ------------------------------------------------------------------------


def epochs(*numbers: Any) -> Any:
    return [seen(MARKED, controller=Controller(1, number)) for number in numbers]


@pytest.mark.parametrize(
    ("numbers", "seconds", "storm"),
    [
        ((5, 6, 7), 2, False),
        ((5, 9), 2, True),
        ((5, 6, 7, 8, 9), 10, True),
        ((5, 6, 7, 8, 9), 30, False),  # one failover each half a minute is bad, and no storm
        ((5, 500), 300, False),  # nobody looked for five minutes
    ],
)
def test_epochs_that_race_are_an_election_storm(numbers: Any, seconds: int, storm: bool) -> None:
    found = look(*epochs(*numbers), seconds=seconds)
    assert (FindingKind.ELECTION_STORM in found) is storm
    if storm:
        assert found[FindingKind.ELECTION_STORM].stops
        assert "has to be repaired by hand" in found[FindingKind.ELECTION_STORM].text


def test_a_storm_is_seen_although_most_looks_find_no_controller() -> None:
    first, last = epochs(5, 60)
    gone = seen(MARKED, controller=None)
    assert FindingKind.ELECTION_STORM in look(first, gone, gone, last, seconds=2)


def test_a_topic_that_is_queued_for_deletion_in_mid_move_stops_the_run() -> None:
    found = look(seen(MARKED, deletions=frozenset({"t", "other"})))[FindingKind.TOPIC_DELETION]
    assert found.stops
    assert "Topic t is queued for deletion in mid-move (t-0)" in found.text
    assert "/admin/delete_topics/t" in found.text
    over = seen(DONE, partition([2, 4]), reassigning=None, deletions=frozenset({"t"}))
    assert look(over) == {}, "its moves are over"


def led(leader: Any, isr: Any = (1, 2), **others: Any) -> Any:
    return seen(partition([2, 3, 1], isr, leader, adding=[3], removing=[1]), **others)


@pytest.mark.parametrize(
    ("kafka_elects", "accused"),
    [
        (None, "Kafka did that by itself (auto.leader.rebalance.enable), or another tool did"),
        (False, "auto.leader.rebalance.enable is false on every broker"),
        (True, "They are not the first of their lists, so Kafka did not elect them by itself"),
    ],
)
def test_leaders_that_somebody_else_moves_are_named(kafka_elects: bool | None, accused: str) -> None:
    found = look(led(2), led(1), kafka_elects=kafka_elects)[FindingKind.LEADERS_MOVED]
    assert "t-0 from 2 to 1" in found.text
    assert accused in found.text
    assert not found.stops


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (partition([1, 2], leader=2), OLD),  # before the controller took the request up
        (partition([1, 2], leader=2), partition([2, 3, 1], [1, 2], 1, adding=[3], removing=[1])),  # and just then
        (partition([2, 3], leader=3), DONE),  # when the copy had ended
    ],
)
def test_nobody_is_accused_where_kafka_elects_preferred_leaders_by_itself(before: Any, after: Any) -> None:
    assert FindingKind.LEADERS_MOVED not in look(seen(before), seen(after), kafka_elects=True)


def test_a_preferred_leader_that_kafka_does_not_elect_by_itself_is_somebodys() -> None:
    assert FindingKind.LEADERS_MOVED in look(seen(partition([2, 3], leader=3)), seen(DONE), kafka_elects=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (led(1), led(2)),  # 1 is to leave, so the controller moves it
        (led(2), led(1, isr=(1,))),  # 2 fell out of sync
        (led(2), led(1, brokers=(1, 3, 4))),  # 2 died
        (led(2, brokers=(1, 3, 4)), led(1)),  # and came back
        (led(2), led(1, elections=frozenset({MOVES[0].topic_partition}))),  # an election that was asked for
        (led(-1), led(1)),
        (led(2), led(2)),
    ],
)
def test_leaders_that_the_controller_has_a_reason_to_move_are_not(before: Any, after: Any) -> None:
    assert FindingKind.LEADERS_MOVED not in look(before, after)


def test_each_anomaly_says_what_to_do() -> None:
    """Whatever is seen: a text that ends as a sentence, and no view of a batch is too strange to be looked at."""
    partitions = [OLD, DONE, MARKED, UNION, partition([9])]
    requests = [None, {}, ASKED, {"t-0": [9]}]
    texts = set()
    for t_0, asked, controller, deleted in itertools.product(
        partitions, requests, [None, Controller(1, 1)], [frozenset(), frozenset({"t"})]
    ):
        current = seen(t_0, reassigning=asked, controller=controller, deletions=deleted)
        for kind, one in look(seen(MARKED), current, current, seconds=500).items():
            texts.add(kind)
            assert one.text.endswith(".")
            assert len(one.text) > 100
    assert len(texts) >= 6
