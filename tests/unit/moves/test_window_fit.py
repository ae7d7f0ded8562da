"""How many openings a plan takes, and which batch has no room."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import StoppedError
from kafka_rebalance.moves.windows import NoRoom, Window, fit, pause_until, recurring_windows

NIGHTS = Window(recurring=recurring_windows(["Mon-Fri 22:00-06:00 UTC"]))
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)  # a Thursday
TONIGHT = NOON.replace(hour=22)
HOUR, DAY = 3600.0, timedelta(days=1)


@pytest.mark.parametrize(
    ("hours", "nights", "ends"),
    [
        ([], 0, NOON),
        ([8], 1, TONIGHT + timedelta(hours=8)),
        ([3, 3, 2], 1, TONIGHT + timedelta(hours=8)),
        ([3, 3, 3], 2, TONIGHT + DAY + timedelta(hours=3)),
        ([8, 1, 8], 3, TONIGHT + 4 * DAY + timedelta(hours=8)),  # over the weekend
    ],
)
def test_batches_fill_one_opening_after_the_other(hours: list[float], nights: int, ends: datetime) -> None:
    found = fit(NIGHTS, [one * HOUR for one in hours], NOON)
    assert (len(found.used), found.placed, found.ends_at) == (nights, len(hours), ends)


def test_a_batch_longer_than_every_opening_ends_the_plan_there() -> None:
    found = fit(NIGHTS, [HOUR, 8.1 * HOUR, HOUR], NOON)
    assert (len(found.used), found.placed, found.ends_at, found.no_room) == (1, 1, None, NoRoom.TOO_LONG)


def test_the_end_of_the_approval_ends_the_plan_there() -> None:
    found = fit(NIGHTS, [8 * HOUR] * 3, NOON, TONIGHT + DAY)
    assert (len(found.used), found.placed, found.ends_at, found.no_room) == (2, 2, None, NoRoom.APPROVAL_ENDED)


def test_a_plan_of_more_openings_than_anybody_looks_ahead_has_no_end() -> None:
    found = fit(NIGHTS, [8 * HOUR] * 100, NOON)
    assert (found.ends_at, found.no_room) == (None, NoRoom.TOO_FAR)
    assert found.placed == len(found.used)


@given(
    st.lists(st.floats(0, 9 * HOUR), max_size=12),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1), timezones=st.just(UTC)),
    st.integers(0, 10),
)
def test_a_run_that_asks_before_each_batch_goes_the_same_way(seconds: list[float], now: datetime, days: int) -> None:
    ends = now + timedelta(days=days)
    found, at, placed = fit(NIGHTS, seconds, now, ends), now, 0
    for batch in seconds:
        try:
            at = _begins(NIGHTS, batch, at, ends) + timedelta(seconds=batch)
        except StoppedError:
            break
        placed += 1
    assert found.placed == placed
    assert found.ends_at == (at if placed == len(seconds) else None)


def _begins(window: Window, seconds: float, now: datetime, ends: datetime) -> datetime:
    until = pause_until(window, seconds, now, ends, is_paused=False)
    return now if until is None else until
