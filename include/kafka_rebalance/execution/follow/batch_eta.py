"""When the batch that is being copied will be over, by the pace of the last minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    """How many bytes had been copied at a time, in seconds of any clock that does not go back."""

    seconds: float
    bytes_copied: int


class Rate(NamedTuple):
    """Bytes per second, and the seconds that the rest takes at that rate; None where it cannot be told."""

    bytes_per_second: float | None
    eta_seconds: float | None


def rate_and_eta(samples: Sequence[Sample], bytes_total: int, *, window_seconds: float = 60.0) -> Rate:
    """The rate over the last `window_seconds` of samples, oldest first, and the time left.

    Bytes may fall (truncation, retention, a replica that is copied again): the rate is then 0 and no end can be told.
    """
    if not samples:
        return Rate(None, None)
    now, copied = samples[-1]
    start, first = next(sample for sample in samples if sample.seconds >= now - window_seconds)
    if now <= start:
        return Rate(None, None)
    rate = max(0.0, (copied - first) / (now - start))
    left = max(0, bytes_total - copied)
    if not left:
        return Rate(rate, 0.0)
    return Rate(rate, left / rate if rate > 0 else None)
