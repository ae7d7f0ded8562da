"""The log dirs that may become fullest while a plan runs, on brokers that have several."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogDirPeak:
    """One log dir at its fullest. `nine_of_ten_bytes` is not exceeded in nine of ten cases."""

    broker: int
    path: str
    total_bytes: int | None  # None: the broker does not tell (before Kafka 3.3)
    used_bytes: int
    expected_bytes: int
    nine_of_ten_bytes: int
    batch: int  # 0: before the first


@dataclass(frozen=True, slots=True)
class LogDirPeaks:
    """`listed`: the fullest log dirs, fullest first. `count`: all log dirs of brokers that receive replicas."""

    count: int = 0
    listed: tuple[LogDirPeak, ...] = ()
