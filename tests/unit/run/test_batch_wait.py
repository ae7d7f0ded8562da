"""Why a next batch waits for the cluster, and until when."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_rebalance.run.checks.batch_wait import Pause, Wait, pause_before, still_missing
from support.kafka.small_clusters import move, partition, tp, view

BEGUN = [move("t-0", [1, 2], [2, 3], batch=1)]
NEXT = [move("t-1", [1, 2], [4, 2], batch=2)]
LATER = [move("t-2", [1, 2], [5, 1], batch=3)]
WELL = {"t-0": partition([2, 3]), "t-1": partition([1, 2]), "t-2": partition([1, 2])}
ALL = (1, 2, 3, 4, 5, 6)


def pause(partitions: Any, *, brokers: Any = ALL, **options: Any) -> Any:
    now = view(WELL | partitions, brokers=brokers)
    options.setdefault("min_in_sync", {tp("t-1"): 2})
    return pause_before(NEXT, [*BEGUN, *NEXT, *LATER], now, **options)


def without(*brokers: Any) -> Any:
    return tuple(broker for broker in ALL if broker not in brokers)


def test_a_cluster_that_is_well_is_not_waited_for() -> None:
    assert not pause({})


@pytest.mark.parametrize(
    ("partitions", "brokers", "wanted"),
    [
        ({}, without(4), ((4,), ())),  # a target of the next batch
        ({}, without(3), ((3,), ())),  # a broker that was moved to
        ({}, without(5), ((5,), ())),  # a target of a batch after the next
        ({"t-9": partition([1, 6])}, without(6), ((6,), ())),  # it holds what nobody moves, of one of the topics
        ({"t-0": partition([2, 3], [2], 2)}, ALL, ((), ((tp("t-0"), 2),))),  # moved, and fell out of sync
        ({"t-1": partition([1, 2], [1], 1)}, ALL, ((), ((tp("t-1"), 2),))),  # under min.insync.replicas
        ({"u-0": partition([1, 4], [1], 1)}, ALL, ((), ((tp("u-0"), 2),))),  # the target is catching up
        ({"t-0": partition([2, 3], [2], 2)}, without(3), ((3,), ((tp("t-0"), 2),))),
    ],
)
def test_what_is_not_well_is_named_and_waited_for(partitions: Any, brokers: Any, wanted: Any) -> None:
    found = pause(partitions, brokers=brokers)
    assert (found.brokers, found.in_sync) == wanted
    assert len(found.reasons) == bool(wanted[0]) + bool(wanted[1])
    then = view(WELL | partitions, brokers=brokers)
    assert still_missing(found, then) == found
    healed = WELL | {name: partition(state.replicas) for name, state in partitions.items()}
    assert not still_missing(found, view(healed, brokers=ALL))
    assert not pause(healed)


def test_a_next_leader_that_is_out_of_the_isr_is_waited_for() -> None:
    """Replica 3 of u-0 becomes the first, and is out of the ISR now. As a follower it would not be waited for."""
    well, behind = {"u-0": partition([1, 2, 3])}, {"u-0": partition([1, 2, 3], [1, 2], 1)}
    leads, follows = move("u-0", [1, 2, 3], [3, 1, 2]), move("u-0", [1, 2, 3], [2, 1, 3])

    def found(one: Any, partitions: Any) -> Any:
        return pause_before([one], [one], view(partitions, brokers=ALL), min_in_sync={})

    assert found(leads, behind).in_sync == ((tp("u-0"), 3),)
    assert not still_missing(found(leads, behind), view(well, brokers=ALL))
    assert not found(leads, well)
    assert not found(follows, behind)


def test_a_broker_that_is_being_emptied_may_be_away() -> None:
    assert not pause({"t-1": partition([1, 2], [2], 2)}, brokers=without(1), may_be_down={1}, min_in_sync={})


def test_what_only_its_own_move_can_mend_is_not_waited_for() -> None:
    """Its other replica is on a broker that is dead, and emptied for that; in sync it never comes again."""
    only_left = {"t-1": partition([1, 2], [2], 2)}
    assert not pause(only_left, brokers=without(1), may_be_down={1})
    assert pause(only_left)


def test_a_list_that_somebody_else_has_shortened_is_for_the_check_before_the_write() -> None:
    assert not pause({"t-1": partition([2])})


@pytest.mark.parametrize(("again", "waits"), [({1}, True), ({6}, False), ((), False)])
def test_a_broker_of_a_later_batch_that_was_restarted_has_to_be_in_sync_again(again: Any, waits: bool) -> None:
    """Broker 1 keeps a replica of the third batch; 6 is of none."""
    lagging = {"t-9": partition([6, 1], [], -1)}
    found = pause(lagging, registered_again=again)
    assert found.in_sync == (((tp("t-9"), 1),) if waits else ())


def test_nothing_is_waited_for_of_a_partition_that_somebody_else_has_moved() -> None:
    assert not pause({"t-2": partition([1, 6])}, brokers=without(5, 6))


def test_fewer_replicas_than_min_insync_asks_for_are_not_waited_for() -> None:
    assert not pause({}, min_in_sync={tp("t-1"): 3}), "two replicas can never be three in sync"


def test_a_partition_that_is_gone_is_not_waited_for() -> None:
    found = pause({"t-0": partition([2, 3], [2], 2)})
    assert not still_missing(found, view({"t-1": partition([1, 2])}))


def test_reasons_name_brokers_and_what_to_do() -> None:
    lagging = {"t-0": partition([2, 3], [2], 2)}
    found = pause(lagging, brokers=without(5))
    assert found.reasons == (
        "Broker 5 is not registered. Start it. The run requests the next batch when it is back.",
        "1 partition has too few replicas in sync: t-0 (needs 2). Broker 3 is behind: if that lasts, its "
        "log says why. The run requests the next batch when they have caught up.",
    )
    away = pause(lagging, brokers=without(3))  # it is not behind, it is away
    assert away.reasons[1].endswith("t-0 (needs 2). The run requests the next batch when they have caught up.")


def test_reasons_stay_short_however_much_is_away_and_behind() -> None:
    moves = [move(f"t-{n}", [n, n + 1], [n + 1, n], batch=1 + n % 2) for n in range(0, 1000, 2)]
    there = range(500, 1001)
    now = view({str(one.topic_partition): partition(one.after, [one.after[0]]) for one in moves}, brokers=there)
    away, behind = pause_before([], moves, now, min_in_sync={}).reasons
    assert away.startswith("500 brokers are not registered (0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 490 more). Start them.")
    assert behind.startswith("500 partitions have too few replicas in sync: t-0 (needs 2), ")
    assert "Broker 500, 502, 504, " in behind
    assert len(away + behind) < 700


UNTIL = datetime(2026, 11, 21, 6, tzinfo=UTC)
WAITS = Wait("kafka_eu", "/runs/one/1", Pause((3, 4), ((tp("t-1"), 2),)), None, UNTIL)


@pytest.mark.parametrize(
    "wait",
    [
        WAITS,
        Wait("kafka_eu", "/runs/one/1"),
        Wait("kafka_eu", "/runs/one/1", not_before=datetime(2026, 11, 21, 3, tzinfo=UTC), until=UNTIL),
    ],
)
def test_what_a_trigger_is_told_comes_back_as_the_same_wait(wait: Wait) -> None:
    """Through the JSON in which Airflow keeps a trigger's arguments."""
    assert Wait.from_arguments(**json.loads(json.dumps(wait.to_arguments()))) == wait


def test_the_arguments_of_a_trigger_are_those_that_earlier_versions_wrote() -> None:
    assert WAITS.to_arguments() == {
        "connection_id": "kafka_eu",
        "run_folder": "/runs/one/1",
        "pause": {"brokers": [3, 4], "in_sync": [["t", 1, 2]]},
        "not_before": None,
        "until": "2026-11-21T06:00:00+00:00",
    }


def test_nothing_waits_for_what_another_version_does_not_name() -> None:
    assert Wait.from_arguments("kafka_eu", "/runs/one/1", {}, None, None).pause == Pause()


def test_a_wait_says_what_it_waits_for() -> None:
    early = Wait("kafka_eu", "/runs/one/1", Pause((3,), reasons=("one", "two")), not_before=UNTIL)
    assert early.words == "The run writes nothing before 2026-11-21 06:00 UTC"
    assert Wait("kafka_eu", "/runs/one/1", Pause((3,), reasons=("one", "two"))).words == "one two"


def test_a_partition_without_a_known_minimum_needs_one_replica_in_sync() -> None:
    assert not pause({"t-1": partition([1, 2], [1], 1)}, min_in_sync={})


def test_exactly_as_many_in_sync_as_are_needed_are_enough() -> None:
    two = [move("t-1", [1, 2, 3], [4, 2, 3], batch=2)]
    now = view({"t-1": partition([1, 2, 3], [1, 2], 1)}, brokers=ALL)
    assert not pause_before(two, two, now, min_in_sync={tp("t-1"): 2})
    assert pause_before(two, two, now, min_in_sync={tp("t-1"): 3}).in_sync == ((tp("t-1"), 3),)


def test_a_partition_after_one_that_no_wait_helps_is_looked_at_too() -> None:
    """The first is gone; the second has another list, which the check before the write refuses."""
    moves = [move("a-0", [1, 2], [4, 2], batch=2), move("a-1", [1, 2], [4, 2], batch=2), *NEXT]
    now = view(WELL | {"a-1": partition([2]), "t-1": partition([1, 2], [1], 1)}, brokers=ALL)
    found = pause_before(moves, moves, now, min_in_sync={one.topic_partition: 2 for one in moves})
    assert found.in_sync == ((tp("t-1"), 2),)
