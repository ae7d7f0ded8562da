"""The cordon of brokers that a run empties is recorded and put back with its throttle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.documents.throttle_lease import LeftBehind, RateChange, ThrottleLease
from kafka_rebalance.kafka.throttles import CORDON, FOLLOWER_RATE, throttle_problem
from kafka_rebalance.throttle.in_force import check_throttles, confirm, rate_changes, set_changes, with_rate
from kafka_rebalance.throttle.put_back import left_changes, lifted, recorded_anew, release, take_lease
from support.kafka.small_clusters import DIGEST
from support.kafka.small_throttles import LEADER_RATE, MOVES, RATE, applied

LEAVING = 9  # sends nothing and receives nothing
ENTITY = f"brokers/{LEAVING}"


def lease(before: str | None = None, existing: ThrottleLease | None = None, now: Any = None) -> ThrottleLease:
    current = now if now is not None else {} if before is None else {ENTITY: {CORDON: before}}
    return take_lease("run-1", DIGEST, MOVES, RATE, current, cordoned={LEAVING}, existing=existing)


@pytest.mark.parametrize("before", [None, "/data/a", "/data/a,/data/b", "*"])
def test_a_cordon_is_set_and_what_was_there_comes_back(before: str | None) -> None:
    was = {} if before is None else {ENTITY: {CORDON: before}}
    held = lease(before)
    assert ThrottleLease.from_mapping(held.to_mapping()) == held
    during = applied(was, set_changes(held, was))
    assert during[ENTITY][CORDON] == "*"
    assert throttle_problem(ENTITY, during[ENTITY]) is None
    back = release(held, during)
    assert (back.kept, back.foreign) == ((), ())
    assert applied(during, back.changes) == was


def test_a_cordon_is_taken_back_while_copies_are_in_flight_and_their_throttle_stays() -> None:
    held = take_lease("run-1", DIGEST, MOVES, RATE, {}, cordoned={1, LEAVING})
    during = applied({}, set_changes(held, {}))
    back = release(held, during, {move.topic_partition for move in MOVES})
    assert back.changes == {"brokers/1": {CORDON: None}, ENTITY: {CORDON: None}}
    assert not back.complete


@pytest.mark.parametrize("now", ["/data/b", None])
def test_a_cordon_that_somebody_sets_or_takes_away_meanwhile_is_left_alone(now: str | None) -> None:
    held = lease("/data/a")
    during = applied({}, set_changes(held, {}))
    during[ENTITY] = {} if now is None else {CORDON: now}
    back = release(held, during)
    assert ENTITY not in back.changes
    assert back.foreign == (f"{ENTITY}: {CORDON} is {now or 'gone'}, changed by somebody else",)
    (check,) = check_throttles(
        {ENTITY: held.prior[ENTITY]}, {ENTITY: held.wanted[ENTITY]}, {ENTITY: during[ENTITY]}, held.own_rates
    )
    assert (check.passed, check.severity) == (True, "warning")


def test_no_copy_needs_the_cordon_so_its_loss_stops_no_batch() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    del during[ENTITY]
    assert confirm(held, during) == ()
    assert lifted(held.wanted, held.own_rates, during) == ()
    first = replace(held, wanted={ENTITY: held.wanted[ENTITY], **held.wanted})
    assert len(confirm(first, {})) == sum(map(len, held.wanted.values())) - 1, "all others are told"


def test_another_rate_does_not_touch_the_cordon() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    changed = with_rate(held, RateChange(RATE * 2, "uma", "2026-11-27T12:00:00+00:00"))
    assert changed.wanted[ENTITY] == {CORDON: "*"}
    assert all(CORDON not in values for values in rate_changes(changed, during).values())
    assert ThrottleLease.from_mapping(changed.to_mapping()) == changed


def test_a_retry_never_records_its_own_cordon_as_what_was_there_before() -> None:
    held = lease("/data/a")
    during = applied({}, set_changes(held, {}))
    assert lease(existing=held, now=during).prior[ENTITY] == {CORDON: "/data/a"}
    assert lease(existing=held, now={**during, ENTITY: {CORDON: "/data/b"}}).prior[ENTITY] == {CORDON: "/data/b"}
    assert recorded_anew(held, during).prior[ENTITY] == {CORDON: "/data/a"}


def test_what_is_left_on_a_broker_that_is_away_comes_back_with_it() -> None:
    left = LeftBehind("run-1", (RATE,), {ENTITY: {CORDON: None, LEADER_RATE: "7"}})
    now = {ENTITY: {CORDON: "*", LEADER_RATE: str(RATE)}}
    assert left_changes([left], now) == {ENTITY: {CORDON: None, LEADER_RATE: "7"}}
    assert left_changes([left], {ENTITY: {CORDON: "/data/b"}}) == {}
    closed = replace(lease(), released_at="2026-11-27T12:00:00+00:00", left_behind=left.prior)
    assert ThrottleLease.from_mapping(closed.to_mapping()) == closed


def test_a_cordon_that_is_still_there_fails_the_verification() -> None:
    held = lease()
    prior, ours = {ENTITY: held.prior[ENTITY]}, {ENTITY: held.wanted[ENTITY]}
    (check,) = check_throttles(prior, ours, {ENTITY: {CORDON: "*"}}, held.own_rates)
    assert not check.passed
    assert "still the cordon of this run" in check.finding


def test_only_a_broker_has_a_cordon_and_only_with_log_dirs() -> None:
    assert throttle_problem("topics/t", {CORDON: "*"}) is not None
    assert throttle_problem(ENTITY, {CORDON: ""}) == f"{CORDON} must be * or paths of log directories, not ''"
    assert throttle_problem(ENTITY, {CORDON: "/data/a\n"}) is not None
    assert throttle_problem(ENTITY, {CORDON: None, FOLLOWER_RATE: "5"}) is None
