"""The one clock: a time to decide by or to write down, looks with pauses, and a clock that measures.

Call `clock.utc_now()` by its module, so that a test which sets it sets it for all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def now_seconds() -> float:
    """Seconds since 1970."""
    return utc_now().timestamp()


def utc_second() -> datetime:
    """Now in whole seconds, as files have times."""
    return utc_now().replace(microsecond=0)


def now_text() -> str:
    """ISO 8601 in UTC, as in all files."""
    return utc_second().isoformat()


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
        self._wall, self._steady = now_seconds(), time.monotonic()

    def __call__(self) -> float:
        return self._wall + time.monotonic() - self._steady
