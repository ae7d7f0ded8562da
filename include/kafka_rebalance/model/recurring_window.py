"""A window of every week, as a policy names it: "Mon-Fri 22:00-06:00 Europe/Berlin"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

EXAMPLES = "'Mon-Fri 22:00-06:00 Europe/Berlin' or 'Fri 22:00-Mon 06:00 Europe/Berlin'"
HORIZON = timedelta(days=56)  # nobody looks further ahead

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEK, _DAY = timedelta(days=7), timedelta(days=1)
_LONGEST_TEXT = 100
_TIME = "((?:[01][0-9]|2[0-3]):[0-5][0-9])"
_FORM = re.compile(f"([A-Za-z, -]+) {_TIME} ?- ?(?:([A-Za-z]+) )?{_TIME} ([A-Za-z0-9_+/-]+)")


@dataclass(frozen=True, slots=True)
class Opening:
    """From `opens_at` until just before `closes_at`, in UTC."""

    opens_at: datetime
    closes_at: datetime

    @property
    def seconds(self) -> float:
        return (self.closes_at - self.opens_at).total_seconds()


@dataclass(frozen=True, slots=True)
class RecurringWindow:
    """It opens on each of `days` at the local time `opens`, and closes `days_open` days later at `closes`.

    When clocks are changed, a local time may be skipped or repeated, so it has two readings. The window then opens at
    the later and closes at the earlier one. So it is never open where one reading is outside of it.
    """

    text: str
    days: frozenset[int]  # 0 is Monday
    opens: time
    closes: time
    days_open: int
    zone: ZoneInfo

    def opening_on(self, day: date) -> Opening | None:
        """The one that begins on this local day; None if none does."""
        if day.weekday() not in self.days:
            return None
        opens_at = max(self._readings(day, self.opens))
        closes_at = min(self._readings(day + self.days_open * _DAY, self.closes))
        return Opening(opens_at, closes_at) if opens_at < closes_at else None

    def _readings(self, day: date, local_time: time) -> tuple[datetime, datetime]:
        local = datetime.combine(day, local_time, self.zone)
        return local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)


def openings(windows: Sequence[RecurringWindow], now: datetime) -> Iterator[Opening]:
    """Those that are not over, up to HORIZON ahead, in their order. Windows that overlap or touch are one opening."""
    in_order = sorted(
        (opening for window in windows for opening in _each(window, now) if opening is not None),
        key=lambda opening: opening.opens_at,
    )
    merged: list[Opening] = []
    for opening in in_order:
        if not merged or merged[-1].closes_at < opening.opens_at:
            merged.append(opening)
        elif merged[-1].closes_at < opening.closes_at:
            merged[-1] = Opening(merged[-1].opens_at, opening.closes_at)
    return (opening for opening in merged if now < opening.closes_at)


def _each(window: RecurringWindow, now: datetime) -> Iterator[Opening | None]:
    first, last = ((now + ahead).astimezone(window.zone).date() for ahead in (-_WEEK - _DAY, HORIZON))
    return (window.opening_on(first + day * _DAY) for day in range((last - first).days + 1))


def read_recurring_window(text: object) -> RecurringWindow:
    """From days, times and a zone. Days are `daily`, one day, a range, or several with commas. A dash may be long.

    Raises ValueError with what is wrong and an example.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        raise ValueError(f"is not a window, as in {EXAMPLES}")
    plain = re.sub("[\u2010-\u2015]", "-", " ".join(text.split()))
    form = _FORM.fullmatch(plain)
    if form is None:
        raise ValueError(f"is not days, times as HH:MM and a zone, as in {EXAMPLES}")
    named, opens, until, closes, zone = form.groups()
    named = named.replace(" ", "")
    days, last = _days(named), frozenset[int]() if until is None else _days(until)
    if until is not None and len(days) + len(last) != 2:
        raise ValueError(f"has several days before a window of more than one day, which is as in {EXAMPLES}")
    days_open = (min(last) - min(days)) % 7 if last else 0
    if not days_open and closes <= opens:
        days_open = 7 if last else 1
    end = f"{until.capitalize()} {closes}" if until else closes
    written = ",".join("-".join(map(_written, part.split("-"))) for part in named.split(","))
    start, stop = time.fromisoformat(opens), time.fromisoformat(closes)
    return RecurringWindow(f"{written} {opens}-{end} {zone}", days, start, stop, days_open, _zone(zone))


def _written(day: str) -> str:
    return day.lower() if day.lower() == "daily" else day.capitalize()


def _days(named: str) -> frozenset[int]:
    if named.lower() == "daily":
        return frozenset(range(7))
    days: set[int] = set()
    for part in named.split(","):
        ends = [_number(day) for day in part.split("-")]
        if len(ends) > 2:
            raise ValueError(f"has the days {part!r}, which are not a range, as in {EXAMPLES}")
        days |= {(ends[0] + more) % 7 for more in range((ends[-1] - ends[0]) % 7 + 1)}
    return frozenset(days)


def _number(day: str) -> int:
    if day.capitalize() not in DAYS:
        raise ValueError(f"has the day {day!r}, which is not one of {', '.join(DAYS)} or daily, as in {EXAMPLES}")
    return DAYS.index(day.capitalize())


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as unknown:  # a folder, a path, or no such zone
        raise ValueError(f"has the zone {name!r}, which nobody knows, as in {EXAMPLES}") from unknown
