"""What was there before a throttle is recorded once, and whose lease may be taken over."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafka_rebalance.documents.cluster.throttle_lease import RateChange
from kafka_rebalance.errors import LockHeldError, ThrottleError
from kafka_rebalance.execution.throttle.in_force import set_changes, with_rate
from kafka_rebalance.execution.throttle.put_back import release
from kafka_rebalance.execution.throttle.recorded_before import take_lease
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
    with pytest.raises(LockHeldError if run == "run-2" else ThrottleError, match="Nothing was written"):
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
