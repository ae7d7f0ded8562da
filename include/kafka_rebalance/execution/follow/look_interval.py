"""How long to wait until a batch is looked at again."""

from __future__ import annotations

STABLE_LOOKS = 3  # a batch is over when this many looks one after the other found every criterion of the end
SETTLING_SECONDS = 0.1  # between those looks
YOUNG_SECONDS = 10.0  # most batches of empty or small partitions end within


def seconds_to_next_look(
    quickest: float, slowest: float, *, age_seconds: float, quiet_seconds: float, eta_seconds: float | None
) -> float:
    """Seconds to wait: a tenth of what is left, so that an end is seen late by a tenth of the wait at most.

    `age_seconds`: since the batch was first looked at. `eta_seconds`: what the copies still take, None where that
    cannot be told: then what has been quiet for long (`quiet_seconds` without a change of phase) is taken to stay so.
    """
    if age_seconds < YOUNG_SECONDS:
        return quickest
    left = quiet_seconds if eta_seconds is None else eta_seconds
    return max(quickest, min(slowest, left / 10))
