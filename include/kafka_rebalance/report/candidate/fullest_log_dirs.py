"""The log dirs that may get fullest while a plan runs, of brokers that have several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.report.units import Named, format_bytes, format_share


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

    def amount(self, size_bytes: int) -> str:
        """In bytes, and as a share of the log dir where its size is known."""
        share = f" ({format_share(size_bytes / self.total_bytes)})" if self.total_bytes else ""
        return f"{format_bytes(size_bytes)}{share}"


@dataclass(frozen=True, slots=True)
class LogDirPeaks:
    """The fullest of them, fullest first, and how many there are of brokers that receive replicas."""

    listed: tuple[LogDirPeak, ...] = ()
    count: int = 0


def read_log_dirs(candidate: Document) -> LogDirPeaks:
    """Of a candidate of `proposals.json`; nothing where the plan is of a version that did not look at this."""
    part = candidate.optional_part("log_dirs") if "log_dirs" in candidate.content else None
    if part is None:
        return LogDirPeaks()
    return LogDirPeaks(tuple(_peak(one) for one in part.parts("listed")), part.count("count"))


def _peak(one: Document) -> LogDirPeak:
    return LogDirPeak(
        one.count("broker"),
        one.text("path"),
        one.optional_count("total_bytes"),
        one.count("used_bytes"),
        one.count("expected_bytes"),
        one.count("nine_of_ten_bytes"),
        one.count("batch"),
    )


def fullest_words(peaks: Sequence[LogDirPeak], named: Named) -> str:
    """The one that may get fullest, in a sentence; empty where there is none."""
    if not peaks:
        return ""
    fullest = peaks[0]
    where = f"{named(fullest.path)} of broker {fullest.broker}"
    if fullest.total_bytes:
        expected, most = (
            format_share(size / fullest.total_bytes) for size in (fullest.expected_bytes, fullest.nine_of_ten_bytes)
        )
    else:
        expected, most = format_bytes(fullest.expected_bytes), format_bytes(fullest.nine_of_ten_bytes)
    if expected == most:
        return f"{where}, {expected}"
    return f"{where}, {expected} expected, in nine of ten cases {most} at most"
