"""A throttle names exactly the replicas that copy and the brokers they sit on."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.throttle.in_force import desired_throttle
from support.kafka.small_clusters import move

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [1, 2])]
RATE = 10_000_000
WANTED = {
    "topics/t": {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"},
    "brokers/1": {LEADER_RATE: "10000000"},
    "brokers/2": {LEADER_RATE: "10000000"},
    "brokers/3": {FOLLOWER_RATE: "10000000"},
}


def test_exactly_the_replicas_that_copy_and_the_brokers_they_sit_on_are_throttled() -> None:
    assert desired_throttle(MOVES, RATE) == WANTED


def test_a_broker_that_sends_and_receives_has_both_rates() -> None:
    wanted = desired_throttle([move("t-0", [1, 2], [2, 3]), move("u-0", [3], [1])], 5)
    assert wanted["brokers/1"] == {LEADER_RATE: "5", FOLLOWER_RATE: "5"}
    assert wanted["brokers/2"] == {LEADER_RATE: "5"}
    assert wanted["topics/u"] == {LEADERS: "0:3", FOLLOWERS: "0:1"}


def test_moves_that_copy_nothing_need_no_throttle() -> None:
    assert desired_throttle([move("t-0", [1, 2, 3], [3, 2]), move("t-1", [1, 2], [2, 1])], RATE) == {}


@pytest.mark.parametrize("rate", [0, -1, 1.5, True, "10", None])
def test_a_rate_that_lets_nothing_through_is_refused(rate: Any) -> None:
    with pytest.raises(ThrottleError, match="lets nothing through"):
        desired_throttle(MOVES, rate)


def test_a_byte_a_second_is_a_rate() -> None:
    assert desired_throttle(MOVES, 1)["brokers/1"] == {LEADER_RATE: "1"}
