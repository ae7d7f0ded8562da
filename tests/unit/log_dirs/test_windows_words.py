"""What the page and the request say of the windows that copies between log dirs take."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kafka_rebalance.documents.log_dir_plan import LogDirMove, PlannedLogDirs
from kafka_rebalance.log_dirs.page import windows_words
from support.documents.log_dir_sample import PLAN, WRITTEN

NIGHTS = "daily 22:00-04:00 UTC"
HOUR, RATE = 3600, 1000


def planned(*hours: float, at: int = 12) -> PlannedLogDirs:
    """Copies of so many hours each, of one broker, planned at this hour."""
    moves = tuple(LogDirMove("t", number, 1, "/a", "/b", int(hour * HOUR * RATE)) for number, hour in enumerate(hours))
    plan = replace(PLAN, moves=moves, throttle_bytes_per_second=RATE, windows=(NIGHTS,))
    return replace(WRITTEN, plan=plan, policy_windows=(NIGHTS,), observed_at=datetime(2026, 1, 1, at, tzinfo=UTC))


def test_a_policy_without_windows_needs_no_words() -> None:
    assert windows_words(WRITTEN) == ""


def test_copies_outside_the_windows_are_told() -> None:
    assert "at once after the approval, outside the policy's windows (daily 22:00" in windows_words(
        replace(WRITTEN, policy_windows=(NIGHTS,))
    )


@pytest.mark.parametrize(
    ("hours", "at", "words"),
    [
        ((1.0,), 12, "It opens at 2026-01-01 22:00:00 UTC. All copies may take 1 opening"),
        ((1.0,), 23, "It is open until 2026-01-02 04:00:00 UTC. All copies may take 1 opening"),
        ((3.0, 3.0, 3.0), 12, "All copies may take 3 openings"),  # each may take half as long again
        ((1.0, 5.0), 12, "No opening has room for the copy after the first 1"),
    ],
)
def test_it_says_how_many_openings_the_copies_need(hours: tuple[float, ...], at: int, words: str) -> None:
    assert words in windows_words(planned(*hours, at=at))
