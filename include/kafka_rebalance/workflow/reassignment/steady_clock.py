"""A clock for who follows a batch: somebody who sets the machine's clock meanwhile makes no stall, and hides none."""

from __future__ import annotations

import time


class SteadyClock:
    """Seconds of the wall clock as it was when this was made, and of the time that has passed since."""

    def __init__(self) -> None:
        self._wall, self._steady = time.time(), time.monotonic()

    def __call__(self) -> float:
        return self._wall + time.monotonic() - self._steady
