"""The clock: as a time that is written down, for who waits, and for who measures how long something takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime


def now_text() -> str:
    """ISO 8601, in UTC, as the files of a run and of a cluster have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def looks(seconds: float, pause: float) -> Iterator[None]:
    """One look at once, then one after each pause, until that time is over."""
    give_up = time.monotonic() + seconds
    yield
    while time.monotonic() <= give_up:
        time.sleep(pause)
        yield


class SteadyClock:
    """Seconds of the wall clock as it was when this was made, and of the time that has passed since: somebody who sets
    the machine's clock while a batch is followed makes no stall, and hides none.
    """

    def __init__(self) -> None:
        self._wall, self._steady = time.time(), time.monotonic()

    def __call__(self) -> float:
        return self._wall + time.monotonic() - self._steady
