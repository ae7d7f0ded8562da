"""What nobody holds on a cluster is found, and what may still be somebody's is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.throttle.janitor.rules import listed_behind, orphaned_configs, stray_replicas, unheld_throttles
from kafka_rebalance.throttle.put_back import take_lease
from support.kafka.small_clusters import DIGEST, move, partition, tp, view

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [2, 3])]


def lease(**others: Any) -> ThrottleLease:
    return replace(take_lease("dag/one", DIGEST, MOVES, 5, {}, owner="here"), **others)


def test_throttles_that_no_lease_holds_are_found() -> None:
    configs = {
        "topics/t": {LEADERS: "0:1,0:2", FOLLOWERS: ""},
        "topics/u": {LEADERS: "*", "retention.ms": "1"},
        "brokers/1": {LEADER_RATE: "5"},
        "brokers/9": {LEADER_RATE: "7"},
        "brokers/<default>": {LEADER_RATE: "8"},
    }
    found = unheld_throttles(configs, lease(), "dag/one of here")
    assert [(one.entity, one.key, one.can_be_cleaned) for one in found] == [
        ("brokers/9", LEADER_RATE, True),
        ("brokers/<default>", LEADER_RATE, False),
        ("topics/u", LEADERS, True),
    ]
    foreign = unheld_throttles(configs, None, "dag/two of elsewhere")
    assert len(foreign) == 5
    assert not any(one.can_be_cleaned for one in foreign)
    assert "dag/two of elsewhere" in foreign[0].remedy
    assert len({one.id for one in unheld_throttles(configs, None, None)}) == 5


def test_a_throttle_that_changes_is_another_finding() -> None:
    (one,) = unheld_throttles({"brokers/1": {LEADER_RATE: "5"}}, None, None)
    (two,) = unheld_throttles({"brokers/1": {LEADER_RATE: "6"}}, None, None)
    assert one.id != two.id


def test_a_list_is_not_lifted_from_replicas_outside_the_isr() -> None:
    (one,) = unheld_throttles({"topics/t": {LEADERS: "0:1,0:2"}}, None, None)
    (every,) = unheld_throttles({"topics/t": {LEADERS: "*"}}, None, None)
    now = view({"t-0": partition([1, 2]), "t-1": partition([1, 2], [1]), "u-0": partition([1, 2], [1])})
    assert listed_behind(one, "0:1,0:2", now) == ()
    assert listed_behind(every, "*", now) == ("t-1",)
    assert listed_behind(one, "0:1,0:2", view({"t-0": partition([1, 2], [1])})) == ("t-0",)


def test_a_config_without_its_topic_is_found_unless_the_topic_is_being_deleted() -> None:
    now = view({}, deletions=frozenset({"going"}))
    found = orphaned_configs({"half": 77, "going": 78}, now)
    assert [(one.id, one.entity, one.can_be_cleaned) for one in found] == [("config:half:77", "topics/half", True)]


@pytest.mark.parametrize(
    ("before", "after", "reassigning", "deletions", "stray"),
    [
        ([1, 2], [1, 2], None, (), [3]),
        ([1, 2, 3], [1, 2], None, (), []),  # deleted between the two looks
        ([1, 2], [1, 2, 3], None, (), []),
        ([1, 2], [1, 2], {"t-0": [2, 3]}, (), []),
        ([1, 2], [1, 2], None, ("t",), []),
    ],
)
def test_a_replica_that_came_back_is_in_no_assignment_before_and_after(
    before: Any, after: Any, reassigning: Any, deletions: Any, stray: Any
) -> None:
    first, then = (
        view({"t-0": partition(replicas)}, reassigning=reassigning, deletions=frozenset(deletions))
        for replicas in (before, after)
    )
    found = stray_replicas({tp("t-0"): {1: 5, 2: 5, 3: 5}}, first, then)
    assert [one.id for one in found] == [f"replica:{broker}:t-0" for broker in stray]
    assert not any(one.can_be_cleaned for one in found)


def test_a_replica_of_a_topic_that_does_not_exist_came_back() -> None:
    found = stray_replicas({tp("gone-4"): {2: 5}}, view({}), view({}))
    assert [one.id for one in found] == ["replica:2:gone-4"]


@pytest.mark.parametrize("moving_in", [0, 1])
def test_what_was_moving_at_either_look_may_still_be_deleted_by_its_broker(moving_in: int) -> None:
    looks = [
        view({"t-0": partition([1, 2])}, reassigning={"t-0": [2, 3]} if at == moving_in else None) for at in (0, 1)
    ]
    assert stray_replicas({tp("t-0"): {1: 5, 2: 5, 3: 5}}, *looks) == ()


@pytest.mark.parametrize("deleted_in", [0, 1])
def test_what_was_being_deleted_at_either_look_may_still_be_on_disk(deleted_in: int) -> None:
    looks = [view({"t-0": partition([1, 2])}, deletions=frozenset({"t"} if at == deleted_in else ())) for at in (0, 1)]
    assert stray_replicas({tp("t-0"): {1: 5, 2: 5, 3: 5}}, *looks) == ()
