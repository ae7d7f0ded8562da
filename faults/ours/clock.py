"""A wrong clock in one of our own processes."""

from __future__ import annotations

import sys
import time
from datetime import datetime, tzinfo

CLOCK_VARIABLE = "FAULTS_CLOCK_SECONDS"  # by how much our process's clock is ahead


def shift_clock(seconds: int) -> None:
    """Shifts this process's clock for our own code: `time.time`, and the `datetime` that our modules have imported."""
    if not seconds:
        return
    true_time = time.time

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Shifted:
            return cls.fromtimestamp(true_time() + seconds, tz)

    time.time = lambda: true_time() + seconds
    for name, module in list(sys.modules.items()):
        if name.startswith("kafka_rebalance") and getattr(module, "datetime", None) is datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]
