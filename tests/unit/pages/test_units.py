"""Numbers carry their unit, and times their zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafka_rebalance.pages import units


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10_234, "9.99 KiB"),
        (10_240, "10.0 KiB"),
        (1024**2 - 1, "1.00 MiB"),
        (1536 * 1024**3, "1.50 TiB"),
        (5000 * 1024**5, "5000 PiB"),
    ],
)
def test_bytes_are_binary_with_three_figures(size: int | None, text: str) -> None:
    assert units.format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0, "0 s"),
        (0.4, "under 1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3_599, "1 h"),
        (12_000, "3 h 20 min"),
        (86_399, "1 d"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations_name_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert units.format_duration(seconds) == text


def test_times_are_shown_in_utc_whatever_zone_they_come_in() -> None:
    moment = datetime(2026, 5, 3, 16, 32, 10, tzinfo=timezone(timedelta(hours=2)))
    assert units.format_time(moment) == "2026-05-03 14:32:10 UTC"
    assert units.format_time(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01 00:00:00 UTC"


def test_small_shares_do_not_look_like_nothing() -> None:
    assert [units.format_share(share) for share in (0, 0.001, 0.5, 1.02)] == ["0 %", "< 1 %", "50 %", "102 %"]


def test_an_age_has_its_largest_unit_alone() -> None:
    ages = {0: "just now", 59: "just now", 60: "1 min ago", 3599: "59 min ago", 3600: "1 h ago", 90_000: "1 d ago"}
    assert {seconds: units.format_age(seconds) for seconds in ages} == ages


def test_counts_agree_with_their_noun() -> None:
    assert units.format_count(1, "move", "moves") == "1 move"
    assert units.format_count(12_345, "move", "moves") == "12,345 moves"
