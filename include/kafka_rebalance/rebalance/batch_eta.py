"""When the batch under way will be over, by the pace of the last minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    seconds: float  # of any clock that does not go back
    bytes_copied: int


class Rate(NamedTuple):
    """None: not known."""

    bytes_per_second: float | None
    eta_seconds: float | None


def rate_and_eta(samples: Sequence[Sample], bytes_total: int, *, window_seconds: float = 60.0) -> Rate:
    """The rate over the last `window_seconds` of samples, oldest first, and the time left.

    Bytes may fall (truncation, retention, a replica that is copied again): then the rate is 0 and the end is not known.
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
