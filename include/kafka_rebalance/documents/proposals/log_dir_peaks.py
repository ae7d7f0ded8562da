"""The log dirs that may get fullest while a plan runs, of brokers that have several."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogDirPeak:
    """One log dir at its fullest. Bytes: in use before, expected, and not exceeded in nine of ten cases."""

    broker: int
    path: str
    total_bytes: int | None  # None: the broker does not tell (before Kafka 3.3)
    used_bytes: int
    expected_bytes: int
    nine_of_ten_bytes: int
    batch: int  # 0: before the first


@dataclass(frozen=True, slots=True)
class LogDirPeaks:
    """The fullest of them, fullest first, and how many there are of brokers that receive replicas."""

    count: int = 0
    listed: tuple[LogDirPeak, ...] = ()
