"""Windows of every week: what they say, and when they are open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kafka_rebalance.model.recurring_window import HORIZON, Opening, RecurringWindow, openings, read_recurring_window

NIGHTS = "Mon-Fri 22:00-06:00 Europe/Berlin"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "UTC")


def times(text: str, now: str, count: int = 3) -> list[str]:
    """The next openings, in the window's own zone."""
    window = read_recurring_window(text)
    found = islice(openings([window], datetime.fromisoformat(now)), count)
    return [
        " to ".join(f"{at.astimezone(window.zone):%a %d %H:%M %Z}" for at in (one.opens_at, one.closes_at))
        for one in found
    ]


@pytest.mark.parametrize(
    ("given_", "written"),
    [
        (NIGHTS, NIGHTS),
        ("Mon–Fri 22:00–06:00 Europe/Berlin", NIGHTS),
        ("  mon - FRI  22:00 - 06:00   Europe/Berlin ", NIGHTS),
        ("Fri 22:00–Mon 06:00 Europe/Berlin", "Fri 22:00-Mon 06:00 Europe/Berlin"),
        ("tue, Thu,sat-sun 01:30-04:00 UTC", "Tue,Thu,Sat-Sun 01:30-04:00 UTC"),
        ("Daily 00:00-00:00 Etc/GMT+5", "daily 00:00-00:00 Etc/GMT+5"),
    ],
)
def test_a_window_is_written_in_one_way_however_it_was_given(given_: str, written: str) -> None:
    window = read_recurring_window(given_)
    assert window.text == written
    assert read_recurring_window(written) == window


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not a window"),
        (22, "is not a window"),
        ("x" * 101, "is not a window"),
        ("", "is not days, times"),
        ("Mon-Fri 22:00-06:00", "is not days, times"),
        ("22:00-06:00 Europe/Berlin", "is not days, times"),
        ("Mon-Fri 22-06 Europe/Berlin", "is not days, times"),
        ("Mon-Fri 22:00-24:00 Europe/Berlin", "is not days, times"),
        ("Mon-Fri 9:00-17:00 Europe/Berlin", "is not days, times"),
        ("Mon-Fri ２２:00-06:00 Europe/Berlin", "is not days, times"),
        ("Mo-Fr 22:00-06:00 Europe/Berlin", "day 'Mo'"),
        ("Mon,,Fri 22:00-06:00 Europe/Berlin", "day ''"),
        ("Mon-Wed-Fri 22:00-06:00 Europe/Berlin", "'Mon-Wed-Fri', which are not a range"),
        ("daily-Fri 22:00-06:00 Europe/Berlin", "day 'daily'"),
        ("Mon-Fri 22:00-Sun 06:00 Europe/Berlin", "several days before"),
        ("daily 22:00-Sun 06:00 Europe/Berlin", "several days before"),
        ("Fri 22:00-daily 06:00 Europe/Berlin", "several days before"),
        ("Mon-Fri 22:00-06:00 Europe/Nowhere", "zone 'Europe/Nowhere'"),
        ("Mon-Fri 22:00-06:00 Europe", "zone 'Europe'"),
        ("Mon-Fri 22:00-06:00 /etc/localtime", "zone '/etc/localtime'"),
        ("Mon-Fri 22:00-06:00 ../../etc/localtime", "is not days, times"),
    ],
)
def test_another_text_is_refused_with_an_example(text: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        read_recurring_window(text)
    assert "as in 'Mon-Fri 22:00-06:00 Europe/Berlin'" in str(refused.value)


@given(st.text(max_size=120))
def test_any_other_text_is_refused_and_nothing_else_is_raised(text: str) -> None:
    with pytest.raises(ValueError, match="Europe/Berlin"):
        read_recurring_window(text)


def test_a_window_across_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    assert times(NIGHTS, "2026-11-20T12:00:00+00:00", 2) == [
        "Fri 20 22:00 CET to Sat 21 06:00 CET",
        "Mon 23 22:00 CET to Tue 24 06:00 CET",
    ]


def test_a_window_may_last_over_the_weekend_or_for_a_whole_day() -> None:
    assert times("Fri 22:00-Mon 06:00 UTC", "2026-11-22T12:00:00+00:00", 2) == [
        "Fri 20 22:00 UTC to Mon 23 06:00 UTC",
        "Fri 27 22:00 UTC to Mon 30 06:00 UTC",
    ]
    assert times("Sat 00:00-00:00 UTC", "2026-11-20T12:00:00+00:00", 1) == ["Sat 21 00:00 UTC to Sun 22 00:00 UTC"]
    assert times("Sat-Sun 00:00-00:00 UTC", "2026-11-20T12:00:00+00:00", 1) == ["Sat 21 00:00 UTC to Mon 23 00:00 UTC"]


def test_across_a_change_of_clocks_a_window_keeps_its_local_times() -> None:
    """In Berlin clocks go forward at 2026-03-29 02:00 and back at 2026-10-25 03:00."""
    for now, hours in (("2026-03-28T12:00:00+00:00", 7), ("2026-10-24T12:00:00+00:00", 9)):
        (night,) = islice(
            openings([read_recurring_window("daily 22:00-06:00 Europe/Berlin")], datetime.fromisoformat(now)), 1
        )
        assert night.seconds == hours * 3600


@pytest.mark.parametrize(
    ("now", "text", "opening"),
    [
        ("2026-03-29T00:00:00+01:00", "Sun 02:30-06:00", "Sun 29 03:30 CEST to Sun 29 06:00 CEST"),
        ("2026-03-29T00:00:00+01:00", "Sat 22:00-02:30", "Sat 28 22:00 CET to Sun 29 01:30 CET"),
        ("2026-03-29T00:00:00+01:00", "Sun 02:10-02:50", "Sun 05 02:10 CEST to Sun 05 02:50 CEST"),
        ("2026-10-25T00:00:00+02:00", "Sun 02:30-06:00", "Sun 25 02:30 CET to Sun 25 06:00 CET"),
        ("2026-10-25T00:00:00+02:00", "Sat 22:00-02:30", "Sat 24 22:00 CEST to Sun 25 02:30 CEST"),
        ("2026-10-25T00:00:00+02:00", "Sun 02:10-02:50", "Sun 01 02:10 CET to Sun 01 02:50 CET"),
    ],
)
def test_a_skipped_and_a_repeated_time_open_a_window_later_and_close_it_earlier(
    now: str, text: str, opening: str
) -> None:
    assert times(f"{text} Europe/Berlin", now, 1) == [opening]


def test_windows_that_overlap_or_touch_are_one_opening() -> None:
    both = [read_recurring_window("Fri 22:00-06:00 UTC"), read_recurring_window("Sat-Sun 00:00-00:00 UTC")]
    found = next(openings(both, datetime(2026, 11, 20, tzinfo=UTC)))
    assert found == Opening(datetime(2026, 11, 20, 22, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
    always = openings([read_recurring_window("daily 00:00-00:00 Europe/Berlin")], datetime(2026, 11, 20, tzinfo=UTC))
    assert next(always).seconds > HORIZON.total_seconds()


DAYS_TEXT = st.one_of(
    st.just("daily"),
    st.sampled_from(_DAYS),
    st.builds("{}-{}".format, st.sampled_from(_DAYS), st.sampled_from(_DAYS)),
    st.lists(st.sampled_from(_DAYS), min_size=1, max_size=4).map(",".join),
)
CLOCK = st.times().map(lambda at: f"{at:%H:%M}")
WINDOWS = st.one_of(
    st.builds("{} {}-{} {}".format, DAYS_TEXT, CLOCK, CLOCK, st.sampled_from(ZONES)),
    st.builds(
        "{} {}-{} {} {}".format,
        st.sampled_from(_DAYS),
        CLOCK,
        st.sampled_from(_DAYS),
        CLOCK,
        st.sampled_from(ZONES),
    ),
).map(read_recurring_window)
NOW = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))


@given(st.lists(WINDOWS, min_size=1, max_size=3), NOW)
def test_openings_are_in_order_apart_from_each_other_and_not_over(
    windows: list[RecurringWindow], now: datetime
) -> None:
    found = list(openings(windows, now))
    assert found
    assert now < found[0].closes_at
    assert all(one.opens_at < one.closes_at for one in found)
    assert all(one.closes_at < later.opens_at for one, later in pairwise(found))


@given(WINDOWS, NOW, st.integers(0, 7 * 1440))
@example(read_recurring_window("Sun 02:30-06:00 Europe/Berlin"), datetime(2026, 10, 24, 22, 0, tzinfo=UTC), 150)
def test_a_window_is_never_open_while_a_local_clock_is_outside_of_it(
    window: RecurringWindow, now: datetime, minutes: int
) -> None:
    """Held against a reading of the local clock alone, minute by minute of the text."""
    at = now.replace(second=0, microsecond=0) + timedelta(minutes=minutes)
    is_open = any(one.opens_at <= at < one.closes_at for one in openings([window], now - timedelta(days=1)))
    local = at.astimezone(window.zone)
    inside = _contains(window, local)
    changes = local.utcoffset() != (local - timedelta(days=1)).utcoffset() or (
        local.utcoffset() != (local + timedelta(days=1)).utcoffset()
    )
    if is_open:
        assert inside
    if inside and not changes:
        assert is_open


def _contains(window: RecurringWindow, local: datetime) -> bool:
    clock = local.replace(tzinfo=None)
    for back in range(8):
        day = clock.date() - timedelta(days=back)
        if day.weekday() in window.days:
            opens = datetime.combine(day, window.opens)
            closes = datetime.combine(day + timedelta(days=window.days_open), window.closes)
            if opens <= clock < closes:
                return True
    return False


@given(WINDOWS, NOW)
@example(read_recurring_window("daily 02:00-02:00 Europe/Berlin"), datetime(2024, 2, 7, 7, tzinfo=UTC))
def test_what_is_seen_later_is_what_was_seen_before(window: RecurringWindow, now: datetime) -> None:
    found = list(openings([window], now))
    assume(len(found) > 1)  # else it is always open
    first, second, *_ = found
    # Else it is open but for the hours when clocks change, and ends where the look ends.
    assume(max(first.seconds, second.seconds) < HORIZON.total_seconds() / 4)
    again = openings([window], first.closes_at)
    assert next(again) == second
    assert next(openings([window], first.opens_at)).closes_at == first.closes_at


def test_zones_are_those_of_the_time_zone_database() -> None:
    assert read_recurring_window(NIGHTS).zone == ZoneInfo("Europe/Berlin")
