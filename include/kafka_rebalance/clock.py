"""The clock: a time to write down, looks with pauses, and a clock that measures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime


def utc_now() -> datetime:
    """What decides whether a window is open. Call it as `clock.utc_now()`, so that a test can give the time."""
    return datetime.now(UTC)


def now_text() -> str:
    """ISO 8601 in UTC, as in all files."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def looks(seconds: float, pause: float) -> Iterator[None]:
    """One look at once, then one after each pause, until the time is over."""
    give_up = time.monotonic() + seconds
    yield
    while time.monotonic() <= give_up:
        time.sleep(pause)
        yield


class SteadyClock:
    """The wall clock at the start, plus the seconds since. If somebody sets the machine's clock while a run follows a
    batch, this neither makes nor hides a stall.
    """

    def __init__(self) -> None:
        self._wall, self._steady = time.time(), time.monotonic()

    def __call__(self) -> float:
        return self._wall + time.monotonic() - self._steady
