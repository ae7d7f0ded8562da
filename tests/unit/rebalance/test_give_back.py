"""Giving leadership back: which recorded lists come back, what stays and why, and who is not in sync for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.rebalance.give_back import not_in_sync_again, reversed_moves
from support.kafka.small_clusters import move, partition, tp, view

DEMOTED = move("t-0", [1, 2, 3], [2, 3, 1])
RECORDED = {"t": TopicIdentity(None, 10)}


def given_back(now: Any, *moves: Any, asked: Settings = Settings(), **others: Any) -> Any:  # noqa: B008
    partitions = now if isinstance(now, dict) else {"t-0": now}
    return reversed_moves(moves or [DEMOTED], view(partitions, **others), RECORDED, asked)


def test_the_recorded_list_comes_back_in_its_order_without_a_copy() -> None:
    back = given_back(partition([2, 3, 1]))
    (again,) = back.moves
    assert (again.topic_partition, again.before, again.after) == (tp("t-0"), (2, 3, 1), (1, 2, 3))
    assert (again.bytes_to_copy, back.unchanged, back.left_out) == (0, 0, ())


def test_a_list_that_came_back_already_or_was_only_elected_is_as_recorded() -> None:
    elected = move("t-1", [3, 1], [3, 1])
    back = given_back({"t-0": partition([1, 2, 3]), "t-1": partition([3, 1])}, DEMOTED, elected)
    assert (back.moves, back.unchanged, back.left_out) == ((), 2, ())


@pytest.mark.parametrize(
    ("now", "others", "why"),
    [
        ({}, {}, "no longer exists"),
        (partition([3, 2, 1]), {}, r"has replicas \[3, 2, 1\], which somebody else has given it since"),
        (partition([2, 3, 4]), {}, r"has replicas \[2, 3, 4\]"),
        (partition([2, 3, 1], czxid=11), {}, "deleted and made again"),
        (partition([2, 3, 1]), {"reassigning": {"t-0": [2, 3, 4]}}, "is being reassigned"),
        (partition([2, 3, 1]), {"asked": Settings(topics_out=("t*",))}, "topics_in and topics_out leave out"),
    ],
)
def test_what_is_no_longer_as_the_demote_left_it_stays_and_says_why(now: Any, others: Any, why: str) -> None:
    back = given_back(now, **others)
    assert back.moves == ()
    assert re.search(f"^t-0 .*{why}", back.left_out[0])


def test_a_broker_that_is_away_or_behind_is_named_with_its_partitions() -> None:
    now = view(
        {"t-0": partition([2, 3, 1], isr=[2, 3]), "t-1": partition([2, 1]), "t-2": partition([3, 4], isr=[3])},
        brokers=(1, 2, 3),
    )
    moves = [move("t-0", [2, 3, 1], [1, 2, 3]), move("t-1", [2, 1], [1, 2]), move("t-2", [3, 4], [4, 3])]
    behind, away = map(str, not_in_sync_again(moves, now))
    assert behind.startswith(
        "broker 1: it is to lead 2 partitions again, and is not in sync for 1 of them (t-0). Wait until"
    )
    assert away == "broker 4: it is to lead 1 partition again (t-2), and is not registered. Start it"
    assert not list(not_in_sync_again(moves[1:2], now))
