"""Silence is told by what changes between two looks, whatever the clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_rebalance.throttle.janitor.rules import LONGEST_GAP, sighted

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DAYS = (timedelta(days=-1), timedelta(0), timedelta(days=1))


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def silence(skew: timedelta, lives_until: int, looks: range) -> list[float]:
    """Of a follower that leaves a sign every 15 s by a clock that is so far off, at each of the looks."""
    before, found = None, []
    for second in looks:
        last = min(second, lives_until) // 15 * 15
        before = sighted(before, [(after(last) + skew).isoformat()], after(second), 35)
        found.append(before.silent_seconds)
    return found


@pytest.mark.parametrize("skew", DAYS)
def test_a_follower_that_lives_is_never_silent_for_long(skew: timedelta) -> None:
    assert max(silence(skew, 10_000, range(0, 600, 10))) <= 15


@pytest.mark.parametrize("skew", DAYS)
def test_a_follower_that_dies_is_silent_from_then_on(skew: timedelta) -> None:
    assert silence(skew, 100, range(0, 201, 10))[-1] >= 95


@pytest.mark.parametrize("skew", DAYS)
def test_one_that_is_dead_at_the_first_look_is_told_by_the_next_ones(skew: timedelta) -> None:
    assert silence(skew, 0, range(100, 141, 10)) == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("skew", [timedelta(days=-1), timedelta(days=1)])
def test_a_clock_of_who_looks_that_is_set_begins_anew_and_does_not_silence(skew: timedelta) -> None:
    before = sighted(None, ["x"], NOON, 35)
    before = sighted(before, ["x"], NOON + skew, 35)
    assert before.silent_seconds == 0
    assert sighted(before, ["x"], NOON + skew + timedelta(seconds=40), 35).silent_seconds == 40


def test_what_was_seen_long_ago_says_nothing() -> None:
    before = sighted(None, ["x"], NOON, 35)
    assert sighted(before, ["x"], NOON + 2 * LONGEST_GAP, 35).silent_seconds == 0
