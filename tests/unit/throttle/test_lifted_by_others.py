"""Whether the throttle of running copies is still in force, and what is said where it is not."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.throttle.in_force import set_changes
from kafka_rebalance.throttle.put_back import Lifted, lifted, lifted_text, wanted_for
from support.kafka.small_clusters import move, tp
from support.kafka.small_throttles import FOLLOWER_RATE, FOLLOWERS, LEADER_RATE, LEADERS, RATE, applied, lease

WANTED = lease().wanted
IN_FORCE = applied({}, set_changes(lease(), {}))


def found(entity: str, key: str, now: str | None, own_rates: Any = ()) -> tuple[Lifted, ...]:
    current = {**IN_FORCE, entity: {**IN_FORCE[entity], key: now}}
    if now is None:
        current[entity] = {name: value for name, value in IN_FORCE[entity].items() if name != key}
    return lifted(WANTED, own_rates, current)


def test_a_throttle_that_is_in_force_was_not_lifted() -> None:
    assert lifted(WANTED, (), IN_FORCE) == ()


def test_everything_that_is_gone_is_told_with_what_must_be_there() -> None:
    assert lifted(WANTED, (), {}) == (
        Lifted("topics/t", LEADERS, "0:1,0:2", None),
        Lifted("topics/t", FOLLOWERS, "0:3", None),
        Lifted("brokers/1", LEADER_RATE, str(RATE), None),
        Lifted("brokers/2", LEADER_RATE, str(RATE), None),
        Lifted("brokers/3", FOLLOWER_RATE, str(RATE), None),
    )


def test_a_rate_that_somebody_has_changed_was_lifted_and_one_of_ours_was_not() -> None:
    assert found("brokers/1", LEADER_RATE, "5") == (Lifted("brokers/1", LEADER_RATE, str(RATE), "5"),)
    assert found("brokers/1", LEADER_RATE, "5", {"5"}) == ()
    assert found("brokers/1", LEADER_RATE, None, {"5"}) == (Lifted("brokers/1", LEADER_RATE, str(RATE), None),)


@pytest.mark.parametrize(
    ("now", "missing"),
    [
        ("0:1,0:2,9:9", None),  # more than ours
        ("*", None),  # every replica
        ("0:2", "0:1"),
        ("", "0:1,0:2"),
        ("9:9", "0:1,0:2"),
        ("by hand", "0:1,0:2"),  # brokers do not heed what they cannot read
    ],
)
def test_a_list_must_have_our_entries(now: str, missing: str | None) -> None:
    assert found("topics/t", LEADERS, now) == (() if missing is None else (Lifted("topics/t", LEADERS, missing, now),))


def test_the_key_after_one_that_is_in_force_is_looked_at_too() -> None:
    current = {**IN_FORCE, "topics/t": {LEADERS: "*"}}
    assert lifted(WANTED, (), current) == (Lifted("topics/t", FOLLOWERS, "0:3", None),)


def test_copies_need_their_entries_and_the_rates_of_the_brokers_in_them() -> None:
    both = lease(moves=[move("t-0", [1, 2], [2, 3]), move("u-0", [4], [5])])
    assert wanted_for(both, {tp("u-0")}) == {
        "topics/u": {LEADERS: "0:4", FOLLOWERS: "0:5"},
        "brokers/4": {LEADER_RATE: str(RATE)},
        "brokers/5": {FOLLOWER_RATE: str(RATE)},
    }
    assert wanted_for(both, ()) == {}
    assert wanted_for(both, {tp("t-0"), tp("u-0")}) == both.wanted


def test_the_text_says_what_is_there_and_what_must_be() -> None:
    text = lifted_text((Lifted("brokers/1", LEADER_RATE, "10", "5"), Lifted("topics/t", LEADERS, "0:1", "9:9")))
    assert text.startswith(
        "Somebody has lifted or changed the throttle of copies that run now: "
        f"brokers/1: {LEADER_RATE} is '5', it must be '10'; topics/t: {LEADERS} is '9:9', it must have '0:1'. "
    )


def test_the_text_says_what_is_not_set() -> None:
    assert f"brokers/1: {LEADER_RATE} is not set, it must be '10'. " in lifted_text(
        (Lifted("brokers/1", LEADER_RATE, "10", None),)
    )


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, "; and 1 more"), (9, "; and 6 more")])
def test_the_text_names_three_and_counts_the_rest(count: int, more: str) -> None:
    text = lifted_text([Lifted(f"brokers/{number}", LEADER_RATE, "10", "5") for number in range(1, count + 1)])
    assert text.count("it must be") == 3
    assert f"brokers/3: {LEADER_RATE} is '5', it must be '10'{more}. kafka-reassign-partitions" in text


@pytest.mark.parametrize(("length", "shown"), [(60, "9" * 60), (61, "9" * 59 + "…")])
def test_a_long_list_is_cut_to_sixty_characters(length: int, shown: str) -> None:
    assert f"is {shown!r}, " in lifted_text([Lifted("topics/t", LEADERS, "0:1", "9" * length)])
