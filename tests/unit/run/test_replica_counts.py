"""Replicas of each broker against `replicas_per_broker`, after what a plan still brings."""

from __future__ import annotations

from kafka_rebalance.run.checks.limits import beyond_limit, held_replicas, too_many_now
from support.kafka.small_clusters import move, tp

HELD = {tp("orders-0"): (1, 2), tp("orders-1"): (1, 2), tp("others-0"): (1, 4), tp("others-1"): (4,)}
MOVES = (move("orders-0", (1, 2), (1, 4)), move("orders-1", (1, 2), (4, 1)))
HERE = (1, 2, 3, 4)


def told(limit: int | None, lying: object = HELD, brokers: object = HERE) -> list[str]:
    return [f"{one.subject}: {one.problem}" for one in too_many_now(MOVES, lying, brokers, limit)]  # type: ignore[arg-type]


def test_replicas_are_counted_by_broker() -> None:
    assert held_replicas(HELD.values()) == {1: 3, 2: 2, 4: 2}


def test_a_broker_that_gets_more_than_it_gives_ends_beyond_the_limit() -> None:
    assert beyond_limit(MOVES, {1: 3, 2: 2, 4: 2}, 3) == {4: 4}
    assert beyond_limit(MOVES, {1: 3, 2: 2, 4: 2}, 4) == {}
    assert beyond_limit(MOVES, {1: 9, 2: 9}, 1) == {4: 2}
    assert beyond_limit((*MOVES, move("others-0", (1, 4), (1, 3))), {4: 2}, 2) == {4: 3}


def test_what_the_plan_still_brings_counts_with_what_lies_there_today() -> None:
    assert told(3) == [
        "broker 4: 2 replicas lie there today. With what the approved plan still brings it would hold 4, and "
        "replicas_per_broker of the policy is 3"
    ]
    assert told(4) == []
    assert told(None) == []


def test_what_is_in_place_or_in_motion_is_counted_once() -> None:
    arrived = HELD | {tp("orders-0"): (1, 2, 4)}
    assert told(3, arrived)[0].startswith(
        "broker 4: 3 replicas lie there today. With what the approved plan still brings"
    )
    assert "would hold 4" in told(3, arrived)[0]
    assert told(4, arrived) == []
    done = HELD | {tp("orders-0"): (1, 4), tp("orders-1"): (4, 1)}
    assert told(1, done) == [], "nothing comes any more"


def test_a_replica_that_goes_makes_room() -> None:
    goes = (*MOVES, move("others-1", (4,), (3,)), move("others-0", (1, 4), (1, 3)))
    assert [one.subject for one in too_many_now(goes, HELD, HERE, 2)] == []
    assert [one.subject for one in too_many_now(goes, HELD, HERE, 1)] == ["broker 3"]


def test_a_broker_that_does_not_tell_what_it_holds_is_not_judged() -> None:
    assert told(3, HELD, (1, 2, 3)) == []
    unknown = {tp("others-0"): (1, 4)}
    assert [one.split(":")[0] for one in told(2, unknown)] == ["broker 1", "broker 4"], "who told of one replica"


def test_a_broker_that_holds_too_many_already_and_ends_with_no_more_is_no_finding() -> None:
    swaps = (move("orders-0", (1, 2), (1, 4)), move("others-1", (4,), (3,)))
    assert [one.subject for one in too_many_now(swaps, HELD, HERE, 1)] == []
