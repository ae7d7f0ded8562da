"""When a batch may begin, by when all must be over, and how many openings a plan takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import SettingsError, StoppedError
from kafka_rebalance.model.recurring_window import openings
from kafka_rebalance.moves.eta import CONTROLLER_SECONDS, predicted_seconds
from kafka_rebalance.moves.windows import NoRoom, Window, fit, pause_until, read_window, recurring_windows
from support.documents.as_in_a_file import in_json
from support.kafka.small_clusters import move

NOW = datetime(2026, 11, 21, 22, tzinfo=UTC)


def test_a_batch_takes_as_long_as_its_busiest_broker() -> None:
    moves = [move("t-0", [1, 2], [3, 2], size=600), move("t-1", [1, 2], [4, 2], size=400)]
    assert predicted_seconds(moves, 10) == 100 + CONTROLLER_SECONDS, "broker 1 sends both"
    assert predicted_seconds([move("t-0", [1, 2], [2, 1], size=600)], 10) == CONTROLLER_SECONDS, "copies nothing"


def test_a_recurring_window_that_is_none_is_refused_in_words() -> None:
    with pytest.raises(SettingsError, match=r"A recurring window .* Nothing was read or written"):
        recurring_windows(["nightly"])


@pytest.mark.parametrize("name", ["not_before", "finish_by"])
@pytest.mark.parametrize(
    "at",
    [
        "9999-12-31T23:59:59-12:00",
        "9999-12-31T23:59:59+00:00",
        "0001-01-01T00:00:00+14:00",
        "0001-01-01T00:00:00+00:00",
        "1969-12-31T23:59:59+00:00",
        "3000-01-01T00:00:00+00:00",
    ],
)
def test_a_time_at_the_ends_of_the_calendar_is_refused_in_words(name: str, at: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}: .* is not in the years 1970 to 2999. Nothing was read"):
        read_window({name: at})


def test_a_window_says_when_a_batch_may_begin() -> None:
    window = read_window({"not_before": "2026-11-21T23:00:00+00:00", "finish_by": "2026-11-22T02:00:00+01:00"})
    assert window.waits_until(NOW) == NOW + timedelta(hours=1)
    at = NOW + timedelta(hours=2)
    assert window.waits_until(at) is None
    assert window.closed_for(3600, at) is None
    assert "it may end after finish_by, 2026-11-22T02:00:00+01:00" in (window.closed_for(3601, at) or "")
    assert Window.of(window.written) == window
    assert read_window({}) == read_window({"not_before": "", "finish_by": None}) == Window.of(None) == Window()


@pytest.mark.parametrize(
    ("minutes", "pace", "not_begun"),
    [
        (60, 1.0, 0),  # the last one ends with the window
        (59, 1.0, 1),
        (60, 1.5, 1),  # each takes half as long again: the third begins after 45 min, and may not
        (60, 0.5, 0),
        (20, 1.0, 3),  # the second is too long, so the third, which would fit, is not begun either
        (9, 0.1, 4),
    ],
)
def test_the_first_batch_that_could_not_end_in_time_holds_back_all_after_it(
    minutes: int, pace: float, not_begun: int
) -> None:
    predicted = [600.0, 900.0, 300.0, 1800.0]
    window = Window(finish_by=NOW + timedelta(minutes=minutes))
    lasts = [seconds * pace for seconds in predicted]
    assert window.not_begun(predicted, NOW, lasts) == not_begun
    assert Window().not_begun(predicted, NOW, lasts) == 0


def test_a_batch_is_held_back_by_what_it_may_take_and_not_by_what_it_takes() -> None:
    window = Window(finish_by=NOW + timedelta(minutes=20))
    assert window.not_begun([600.0, 900.0], NOW, [300.0, 300.0]) == 0
    assert window.not_begun([600.0, 901.0], NOW, [300.0, 300.0]) == 1


# Windows of every week

NIGHTS = "Mon-Fri 22:00-06:00 Europe/Berlin"  # 21:00 to 05:00 UTC in winter
FRIDAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
FOR_EVER = FRIDAY + timedelta(days=300)


def windows(*texts: str) -> Window:
    return Window(recurring=recurring_windows(texts))


def test_recurring_windows_are_written_and_read_back() -> None:
    window = windows(NIGHTS, "Sat 00:00-00:00 UTC")
    assert in_json(window.written)["recurring"] == [NIGHTS, "Sat 00:00-00:00 UTC"]
    assert Window.of(window.written) == window
    assert "recurring" not in in_json(Window().written)
    with pytest.raises(SettingsError, match="A recurring window is not days, times"):
        windows("at night")


def test_a_recurring_window_says_when_it_opens_and_closes() -> None:
    window, tonight = windows(NIGHTS), FRIDAY.replace(hour=21)
    assert window.waits_until(FRIDAY) == tonight
    assert window.waits_until(tonight) is None
    assert window.closes_at(tonight) == tonight + timedelta(hours=8)
    assert window.waits_until(tonight + timedelta(hours=8)) == tonight + timedelta(days=3)


@pytest.mark.parametrize(
    ("at", "hours", "until"),
    [
        ("2026-11-20T12:00", 1, "2026-11-20T21:00"),
        ("2026-11-20T21:00", 8, None),
        ("2026-11-21T04:00", 1, None),  # it ends with the window
        ("2026-11-21T04:00", 1.01, "2026-11-23T21:00"),
        ("2026-11-21T05:00", 0, "2026-11-23T21:00"),
        ("2026-11-20T23:00", 8, "2026-11-23T21:00"),
    ],
)
def test_moves_wait_for_the_next_opening_with_room_for_them(at: str, hours: float, until: str | None) -> None:
    now = datetime.fromisoformat(at).replace(tzinfo=UTC)
    found = pause_until(windows(NIGHTS), hours * 3600, now, FOR_EVER, is_paused=False)
    assert found == (None if until is None else datetime.fromisoformat(until).replace(tzinfo=UTC))


def test_moves_without_a_recurring_window_wait_for_none() -> None:
    assert pause_until(Window(finish_by=NOW), 9e9, NOW, NOW - timedelta(days=9), is_paused=True) is None


def test_moves_wait_for_the_longer_of_two_windows_if_only_that_has_room() -> None:
    both = windows(NIGHTS, "Sat 12:00-Sun 12:00 UTC")
    assert pause_until(both, 9 * 3600, FRIDAY, FOR_EVER, is_paused=False) == FRIDAY + timedelta(days=1)


def test_moves_that_are_too_long_for_every_opening_stop_the_run() -> None:
    with pytest.raises(StoppedError, match=r"may take up to 8 h 1 min, .*Mon-Fri.* open for 8 h at most\. Start a new"):
        pause_until(windows(NIGHTS), 8 * 3600 + 60, FRIDAY, FOR_EVER, is_paused=False)


def test_nothing_waits_for_an_opening_after_the_approval_has_ended() -> None:
    window, tonight = windows(NIGHTS), FRIDAY.replace(hour=21)
    assert pause_until(window, 60, FRIDAY, tonight, is_paused=False) == tonight
    with pytest.raises(
        StoppedError, match=r"from 2026-11-20 21:00 UTC on\. The approval ends before that, at 2026-11-20 20:59"
    ):
        pause_until(window, 60, FRIDAY, tonight - timedelta(seconds=1), is_paused=False)


def test_an_opening_that_the_approval_has_reached_may_be_used_to_its_end() -> None:
    window, tonight = windows(NIGHTS), FRIDAY.replace(hour=21)
    late = tonight + timedelta(hours=5)
    assert pause_until(window, 60, late, tonight, is_paused=True) is None
    assert pause_until(window, 60, late, tonight - timedelta(seconds=1), is_paused=False) is None, "it has not waited"
    with pytest.raises(StoppedError, match="The approval ends before that"):
        pause_until(window, 60, late, tonight - timedelta(seconds=1), is_paused=True)


@pytest.mark.slow
@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    st.floats(0, 30 * 3600),
    st.lists(
        st.sampled_from([NIGHTS, "Fri 22:00-Mon 06:00 Europe/Berlin", "daily 02:10-03:30 America/New_York"]), min_size=1
    ),
)
def test_what_waits_begins_when_a_window_opens_and_then_waits_no_more(
    now: datetime, seconds: float, texts: list[str]
) -> None:
    window = windows(*texts)
    try:
        until = pause_until(window, seconds, now, FOR_EVER + timedelta(days=400), is_paused=False)
    except StoppedError:
        assert all(one.seconds < seconds or one.opens_at < now for one in openings(window.recurring, now))
        return
    if until is None:
        closes = window.closes_at(now)
        assert closes is not None
        assert window.waits_until(now) is None
        assert now + timedelta(seconds=seconds) <= closes
    else:
        assert now < until
        assert pause_until(window, seconds, until, FOR_EVER + timedelta(days=400), is_paused=True) is None


@pytest.mark.parametrize("given_", ["2026-11-21T23:00:00", "tonight", 7, "2026-11-21"])
@pytest.mark.parametrize("name", ["not_before", "finish_by"])
def test_a_time_without_its_zone_is_refused(name: str, given_: int | str) -> None:
    with pytest.raises(SettingsError, match=rf"{name}: .* is not a time with its zone"):
        read_window({name: given_})


def test_a_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(SettingsError, match="no batch could begin"):
        read_window({"not_before": "2026-11-21T23:00:00+01:00", "finish_by": "2026-11-21T22:00:00Z"})


# How many openings a plan takes

UTC_NIGHTS = Window(recurring=recurring_windows(["Mon-Fri 22:00-06:00 UTC"]))
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
    found = fit(UTC_NIGHTS, [one * HOUR for one in hours], NOON)
    assert (len(found.used), found.placed, found.ends_at) == (nights, len(hours), ends)


@pytest.mark.parametrize(
    ("hours", "approved_for", "nights", "why"),
    [
        ([1, 8.1, 1], None, 1, NoRoom.TOO_LONG),
        ([8, 8, 8], TONIGHT + DAY, 2, NoRoom.APPROVAL_ENDED),
    ],
)
def test_a_batch_without_room_ends_the_plan_there(
    hours: list[float], approved_for: datetime | None, nights: int, why: NoRoom
) -> None:
    found = fit(UTC_NIGHTS, [one * HOUR for one in hours], NOON, approved_for)
    assert (len(found.used), found.placed, found.ends_at, found.no_room) == (nights, nights, None, why)


def test_a_plan_of_more_openings_than_anybody_looks_ahead_has_no_end() -> None:
    found = fit(UTC_NIGHTS, [8 * HOUR] * 100, NOON)
    assert (found.ends_at, found.no_room) == (None, NoRoom.TOO_FAR)
    assert found.placed == len(found.used)


@given(
    st.lists(st.floats(0, 9 * HOUR), max_size=12),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1), timezones=st.just(UTC)),
    st.integers(0, 10),
)
def test_a_run_that_asks_before_each_batch_goes_the_same_way(seconds: list[float], now: datetime, days: int) -> None:
    ends = now + timedelta(days=days)
    found, at, placed = fit(UTC_NIGHTS, seconds, now, ends), now, 0
    for batch in seconds:
        try:
            at = _begins(UTC_NIGHTS, batch, at, ends) + timedelta(seconds=batch)
        except StoppedError:
            break
        placed += 1
    assert found.placed == placed
    assert found.ends_at == (at if placed == len(seconds) else None)


def _begins(window: Window, seconds: float, now: datetime, ends: datetime) -> datetime:
    until = pause_until(window, seconds, now, ends, is_paused=False)
    return now if until is None else until
