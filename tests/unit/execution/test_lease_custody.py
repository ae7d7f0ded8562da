"""What becomes of a lease whose run may be gone, and what else is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.execution.janitor.lease_custody import IDLE_SECONDS, UNWATCHED_SECONDS, AirflowState, custody
from kafka_rebalance.execution.janitor.unheld_findings import (
    listed_behind,
    orphaned_configs,
    stray_replicas,
    unheld_throttles,
)
from kafka_rebalance.execution.throttle.recorded_before import take_lease
from kafka_rebalance.execution.throttle.still_copying import absent_receivers, copying_of, slowed_catch_up
from support.kafka.small_clusters import DIGEST, move, partition, tp, view

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [2, 3])]


def lease(**others) -> ThrottleLease:
    return replace(take_lease("dag/one", DIGEST, MOVES, 5, {}, owner="here"), **others)


COPYING = frozenset({tp("t-0")})
LATE, IDLE = UNWATCHED_SECONDS + 1, IDLE_SECONDS + 1


@pytest.mark.parametrize(
    ("standing", "handed_over", "copying", "silent", "put_back", "release_lock", "alert"),
    [
        (AirflowState.RUNNING, False, (), 0, False, False, False),
        (
            AirflowState.RUNNING,
            False,
            (),
            IDLE,
            False,
            False,
            False,
        ),  # queued behind other tasks, for as long as it takes
        (AirflowState.RUNNING, False, COPYING, 1, False, False, False),
        (AirflowState.RUNNING, False, COPYING, LATE, False, False, True),  # worker or triggerer is gone
        (AirflowState.RUNNING, True, COPYING, 1, True, False, True),
        (AirflowState.RUNNING, True, (), 1, True, False, False),  # its release is repeated, and gives the lock back
        (AirflowState.PAUSED, False, COPYING, 1, False, False, False),
        (AirflowState.PAUSED, False, COPYING, LATE, False, False, True),
        (AirflowState.PAUSED, False, (), LATE, False, False, False),
        (AirflowState.PAUSED, False, (), IDLE, True, False, False),
        (AirflowState.UNKNOWN, False, COPYING, 1, False, False, False),
        (AirflowState.UNKNOWN, False, COPYING, LATE, False, False, True),
        (AirflowState.UNKNOWN, False, (), LATE, False, False, False),
        (AirflowState.UNKNOWN, False, (), IDLE, True, False, False),
        (AirflowState.OVER, False, COPYING, 1, True, False, True),
        (AirflowState.OVER, False, (), 1, True, True, False),
        (AirflowState.GONE, False, COPYING, 1, True, False, True),
        (AirflowState.GONE, False, (), 1, True, True, False),
        (AirflowState.GONE, True, (), 1, True, True, False),
    ],
)
def test_what_becomes_of_a_lease(standing, handed_over, copying, silent, put_back, release_lock, alert) -> None:
    held = lease(handed_over_at="2026-11-21T00:00:00+00:00" if handed_over else None)
    decided = custody(held, standing, copying, silent)
    assert (decided.put_back, decided.release_lock, decided.alert is not None) == (put_back, release_lock, alert)
    assert "run dag/one of here" in decided.state
    assert not (decided.release_lock and copying), "the lock of a run whose copies go on"


def test_an_alert_says_how_many_copies_go_on_at_which_rate() -> None:
    alert = custody(lease(), AirflowState.GONE, COPYING, 0).alert
    assert alert is not None
    assert "1 partitions are copied under its throttle of 5 bytes/s" in alert


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
def test_copies_in_motion_are_told_from_the_lease_alone(partitions, reassigning, copying) -> None:
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
def test_a_broker_that_is_gone_counts_while_its_copy_has_not_ended(partitions, reassigning, copying) -> None:
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
    before, after, reassigning, deletions, stray
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
