"""A wrong clock in one of our own processes."""

from __future__ import annotations

import time

CLOCK_VARIABLE = "FAULTS_CLOCK_SECONDS"  # by how much our process's clock is ahead


def shift_clock(seconds: int) -> None:
    """Shifts this process's clock: our code reads it by `time.time` alone (`kafka_rebalance.clock`)."""
    if not seconds:
        return
    true_time = time.time
    time.time = lambda: true_time() + seconds
