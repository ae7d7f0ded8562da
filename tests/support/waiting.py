"""Waiting for what a real broker, ZooKeeper or process does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
    """Returns as soon as it holds; fails with `what` when it has not come to within so many seconds."""
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, f"after {seconds:.0f} s it does not hold that {what}"
        time.sleep(0.02)
