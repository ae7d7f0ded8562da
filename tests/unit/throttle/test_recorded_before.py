"""What was there before a throttle is recorded once, and whose lease may be taken over."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafka_rebalance.documents.throttle_lease import RateChange
from kafka_rebalance.errors import LockHeldError, ThrottleError
from kafka_rebalance.throttle.in_force import set_changes, with_rate
from kafka_rebalance.throttle.put_back import recorded_anew, release, take_lease
from support.kafka.small_clusters import DIGEST, move
from support.kafka.small_throttles import FOLLOWER_RATE, FOLLOWERS, LEADER_RATE, LEADERS, MOVES, RATE, applied, lease


def test_what_was_there_is_recorded_key_by_key() -> None:
    current = {"topics/t": {LEADERS: "9:1", "segment.bytes": "5"}, "brokers/1": {LEADER_RATE: "7"}}
    assert lease(current).prior == {
        "topics/t": {LEADERS: "9:1", FOLLOWERS: None},
        "brokers/1": {LEADER_RATE: "7"},
        "brokers/2": {LEADER_RATE: None},
        "brokers/3": {FOLLOWER_RATE: None},
    }


def test_a_second_try_keeps_what_the_first_one_recorded() -> None:
    first = lease({"brokers/1": {LEADER_RATE: "7"}})
    ours = applied({}, set_changes(first, {}))
    again = take_lease("run-1", DIGEST, MOVES, RATE, ours, existing=first)
    assert again.prior["brokers/1"] == {LEADER_RATE: "7"}
    assert again == first


@pytest.mark.parametrize("theirs", ["123", None])
def test_a_rate_that_others_set_after_it_was_put_back_is_what_comes_back_after_the_next_try(theirs: str | None) -> None:
    first = lease({"brokers/1": {LEADER_RATE: "7"}})
    ours = applied({}, set_changes(first, {}))
    partly = {**ours, "brokers/1": {} if theirs is None else {LEADER_RATE: theirs}}
    again = take_lease("run-1", DIGEST, MOVES, RATE, partly, existing=first)
    assert again.prior == {**first.prior, "brokers/1": {LEADER_RATE: theirs}}
    during = applied(partly, set_changes(again, partly))
    assert during["brokers/1"] == {LEADER_RATE: str(RATE)}
    assert release(again, during).changes["brokers/1"] == {LEADER_RATE: theirs}


def test_no_rate_of_a_lease_is_taken_for_what_was_there_before() -> None:
    first = lease({"brokers/1": {LEADER_RATE: "7"}})
    changed = with_rate(first, RateChange(2 * RATE, "uma", "2026-11-21T00:00:00+00:00"))
    for now in (RATE, 2 * RATE, 7):
        partly = {"brokers/1": {LEADER_RATE: str(now)}}
        assert take_lease("run-1", DIGEST, MOVES, RATE, partly, existing=changed).prior == changed.prior


@pytest.mark.parametrize(
    ("run", "digest", "rate"), [("run-2", DIGEST, RATE), ("run-1", "other", RATE), ("run-1", DIGEST, RATE + 1)]
)
def test_a_lease_that_is_not_this_runs_is_not_taken_over(run: str, digest: Any, rate: Any) -> None:
    with pytest.raises(LockHeldError if run == "run-2" else ThrottleError, match=r"[Rr]elease"):
        take_lease(run, digest, MOVES, rate, {}, existing=lease())


def test_a_lease_of_a_run_of_that_name_in_another_airflow_is_not_taken_over() -> None:
    theirs = dataclasses.replace(lease(), owner="http://there")
    with pytest.raises(LockHeldError, match="Run run-1 of http://there has held a throttle"):
        take_lease("run-1", DIGEST, MOVES, RATE, {}, owner="http://here", existing=theirs)


def test_a_lease_covers_moves_that_were_left_out_since_and_none_that_were_added() -> None:
    both, one = [*MOVES, move("t-2", [1, 2], [1, 4])], MOVES
    assert take_lease("run-1", DIGEST, one, RATE, {}, existing=lease(moves=both)) == lease(moves=both)
    with pytest.raises(ThrottleError, match="the rate or the replicas differ"):
        take_lease("run-1", DIGEST, both, RATE, {}, existing=lease(moves=one))


SUSPENDED = "2026-11-21T03:00:00+00:00"


def test_a_suspended_throttle_records_anew_what_others_have_set_since() -> None:
    """While it was suspended anybody may have changed the configs, so nothing that was recorded counts any more."""
    first = lease({"brokers/1": {LEADER_RATE: "7"}, "topics/t": {LEADERS: "9:9"}})
    suspended = dataclasses.replace(first, suspended_at=SUSPENDED)
    current = {"brokers/1": {LEADER_RATE: "8"}, "topics/t": {LEADERS: "9:9,8:8", "retention.ms": "5"}}
    again = take_lease("run-1", DIGEST, MOVES, RATE, current, existing=suspended)
    assert again.prior == {
        "topics/t": {LEADERS: "9:9,8:8", FOLLOWERS: None},
        "brokers/1": {LEADER_RATE: "8"},
        "brokers/2": {LEADER_RATE: None},
        "brokers/3": {FOLLOWER_RATE: None},
    }
    assert again.suspended_at is None
    assert again.wanted == first.wanted


def test_what_is_left_of_a_suspended_throttle_is_not_taken_for_what_was_there() -> None:
    """A worker died in the midst of putting it back: a rate and an entry of ours are still there."""
    first = lease({"brokers/1": {LEADER_RATE: "7"}})
    suspended = dataclasses.replace(first, suspended_at=SUSPENDED)
    left = {"brokers/1": {LEADER_RATE: str(RATE)}, "topics/t": {LEADERS: "0:1"}, "brokers/3": {FOLLOWER_RATE: "5"}}
    found = recorded_anew(suspended, left).prior
    assert found["brokers/1"] == {LEADER_RATE: "7"}
    assert found["topics/t"] == {LEADERS: None, FOLLOWERS: None}
    assert found["brokers/3"] == {FOLLOWER_RATE: "5"}
    assert take_lease("run-1", DIGEST, MOVES, RATE, left, existing=suspended).prior == found


def test_a_lease_is_of_the_airflow_that_takes_it_and_of_none_that_is_not_named() -> None:
    assert take_lease("run-1", DIGEST, MOVES, RATE, {}).owner == ""
    assert take_lease("run-1", DIGEST, MOVES, RATE, {}, owner="http://here").owner == "http://here"


def test_a_broker_that_is_away_gets_its_rate_when_it_is_back() -> None:
    """With what was there on it before; the others keep what was recorded."""
    current = {"brokers/1": {LEADER_RATE: "7"}, "brokers/3": {FOLLOWER_RATE: "9"}}
    first = take_lease("run-1", DIGEST, MOVES, RATE, current, away={"brokers/3"})
    assert set(first.wanted) == {"topics/t", "brokers/1", "brokers/2"}
    assert set(first.prior) == set(first.wanted)
    ours = applied(current, set_changes(first, current))
    still = take_lease("run-1", DIGEST, MOVES, RATE, ours, existing=first, away={"brokers/3"})
    assert still == first
    back = take_lease("run-1", DIGEST, MOVES, RATE, ours, existing=first)
    assert back.wanted["brokers/3"] == {FOLLOWER_RATE: str(RATE)}
    assert back.prior == {**first.prior, "brokers/3": {FOLLOWER_RATE: "9"}}


def test_a_refused_lease_says_what_to_clear() -> None:
    with pytest.raises(ThrottleError, match=r"Release that throttle, then clear this task\.$"):
        take_lease("run-1", "other", MOVES, RATE, {}, existing=lease())
