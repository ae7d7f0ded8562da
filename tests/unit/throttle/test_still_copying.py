"""Which partitions of a lease may still be copied is told from the lease and the cluster alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.throttle.put_back import absent_receivers, copying_of, slowed_catch_up, take_lease
from support.kafka.small_clusters import DIGEST, move, partition, tp, view

MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [2, 3])]


def lease(**others: Any) -> ThrottleLease:
    return replace(take_lease("dag/one", DIGEST, MOVES, 5, {}, owner="here"), **others)


@pytest.mark.parametrize(
    ("partitions", "reassigning", "copying"),
    [
        ({"t-0": partition([1, 2]), "t-1": partition([2, 1])}, None, set()),  # not requested yet
        ({"t-0": partition([1, 2]), "t-1": partition([2, 1])}, {"t-0": [2, 3]}, {"t-0"}),  # not taken up yet
        ({"t-0": partition([2, 3, 1], [1, 2])}, {"t-0": [2, 3]}, {"t-0"}),
        ({"t-0": partition([2, 3, 1], [1, 2, 3], adding=[3], removing=[1])}, None, {"t-0"}),
        ({"t-0": partition([2, 3]), "t-1": partition([2, 3], [2])}, None, {"t-1"}),  # over, and 3 fell behind again
        ({"t-0": partition([2, 3], [3]), "t-1": partition([2, 3])}, None, set()),  # 2 is no new replica
        ({"t-0": partition([2, 3, 1], [1, 2])}, None, {"t-0"}),  # the request was deleted, the copy goes on
        ({"t-0": partition([2, 3, 1])}, {"t-0": [2, 3]}, {"t-0"}),  # in sync, and the controller has not ended it
        ({"t-0": partition([2, 3])}, None, set()),
        # Others move it: our copy goes on where it is in their list too, or until the controller drops it.
        ({"t-0": partition([3, 4, 1, 2], [1, 2], adding=[3, 4], removing=[1, 2])}, None, {"t-0"}),
        ({"t-0": partition([2, 3, 1], [1, 2])}, {"t-0": [2, 4]}, {"t-0"}),
        ({"t-0": partition([1, 2])}, {"t-0": [1, 3]}, {"t-0"}),
        ({"t-0": partition([2, 4, 1], [1, 2], adding=[4], removing=[1])}, {"t-0": [2, 4]}, set()),
        ({"u-0": partition([1, 3], [1])}, {"u-0": [1, 3]}, set()),  # somebody else's
        ({}, None, set()),  # deleted
    ],
)
def test_copies_in_motion_are_told_from_the_lease_alone(partitions: Any, reassigning: Any, copying: Any) -> None:
    found = copying_of(lease(), view(partitions, reassigning=reassigning))
    assert found == {tp(name) for name in copying}


@pytest.mark.parametrize(
    ("partitions", "reassigning", "copying"),
    [
        ({"t-0": partition([2, 3], [2])}, None, set()),  # 1 has left the list, so 3 was in sync
        ({"t-0": partition([2, 3, 1], [1, 2])}, None, {"t-0"}),  # the request was deleted in mid-copy, below 2.4
        ({"t-0": partition([2, 3, 1], [1, 2])}, {"t-0": [2, 3]}, {"t-0"}),
        ({"t-0": partition([1, 2])}, {"t-0": [2, 3]}, {"t-0"}),
        ({"t-0": partition([2, 3, 1], [1, 2], adding=[3], removing=[1])}, None, {"t-0"}),
        ({"g-0": partition([1, 2, 3], [1, 2])}, None, {"g-0"}),  # one replica more: this list may be the one in between
        ({"g-0": partition([1, 2, 3], [1, 2], topic_id="of 2.8")}, None, set()),  # where that would be marked
        ({"g-0": partition([1, 2, 3], [1, 2], adding=[3], topic_id="of 2.8")}, None, {"g-0"}),
    ],
)
def test_a_broker_that_is_gone_counts_while_its_copy_has_not_ended(
    partitions: Any, reassigning: Any, copying: Any
) -> None:
    held = take_lease("dag/one", DIGEST, [*MOVES, move("g-0", [1, 2], [1, 2, 3])], 5, {}, owner="here")
    now = view(partitions, reassigning=reassigning, brokers=[1, 2])
    assert copying_of(held, now) == {tp(name) for name in copying}
    (said,) = absent_receivers(held, now)
    assert ("copies to it cannot end" in said) == bool(copying)
    assert ("no throttle is kept for it" in said) != bool(copying)
    back = view(partitions, reassigning=reassigning, brokers=[1, 2, 3])
    assert copying_of(held, back) == {tp(name) for name in partitions}
    assert absent_receivers(held, back) == ()


def test_a_restarted_broker_that_catches_up_under_our_throttle_is_noticed() -> None:
    behind = {"t-0": partition([2, 3, 1], [2]), "t-1": partition([2, 1])}
    found = slowed_catch_up(lease(), view(behind))
    assert [text.partition(" is outside")[0] for text in found] == ["t-0: replica 1"]  # 3 is our copy
    assert "throttle of 5 bytes/s" in found[0]
    assert slowed_catch_up(lease(), view(behind, brokers=[2, 3])) == (), "a broker that is down fetches nothing"


def test_only_brokers_that_were_to_receive_are_told_as_absent() -> None:
    """Broker 1 is away too, but it only sends."""
    lagging = view({"t-0": partition([2, 3, 1], [2])}, brokers=(2, 4))
    (told,) = absent_receivers(lease(), lagging)
    assert told.startswith("Broker 3 is not registered, and copies to it cannot end: t-0. Start it.")
