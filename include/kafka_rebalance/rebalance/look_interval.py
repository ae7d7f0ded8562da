"""How long to wait until a batch is looked at again."""

from __future__ import annotations

STABLE_LOOKS = 3  # a batch is over when this many looks in a row have found every criterion of the end
SETTLING_SECONDS = 0.1  # between those looks
YOUNG_SECONDS = 10.0  # most batches of empty or small partitions end within this time


def seconds_to_next_look(
    quickest: float, slowest: float, *, age_seconds: float, quiet_seconds: float, eta_seconds: float | None
) -> float:
    """Seconds to wait: a tenth of what is left, so that the run sees an end late by a tenth of the wait at most.

    `age_seconds`: since the first look at the batch. `eta_seconds`: what the copies still take; None: not known. Then
    the batch counts as quiet for as long again as no phase has changed (`quiet_seconds`).
    """
    if age_seconds < YOUNG_SECONDS:
        return quickest
    left = quiet_seconds if eta_seconds is None else eta_seconds
    return max(quickest, min(slowest, left / 10))
