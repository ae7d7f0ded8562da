"""The log dirs that may get fullest while a plan runs, on brokers with several."""

from __future__ import annotations

from kafka_rebalance.documents.peaks_of_log_dirs import LogDirPeak, LogDirPeaks
from kafka_rebalance.pages.units import Named, format_bytes, format_share


def amount(peak: LogDirPeak, size_bytes: int) -> str:
    """In bytes, and as a share of the log dir if its size is known."""
    share = f" ({format_share(size_bytes / peak.total_bytes)})" if peak.total_bytes else ""
    return f"{format_bytes(size_bytes)}{share}"


def fullest_words(peaks: LogDirPeaks | None, named: Named) -> str:
    """The log dir that may get fullest, in a sentence; empty if there is none."""
    if peaks is None or not peaks.listed:
        return ""
    fullest = peaks.listed[0]
    where = f"{named(fullest.path)} of broker {fullest.broker}"
    expected, most = format_bytes(fullest.expected_bytes), format_bytes(fullest.nine_of_ten_bytes)
    if fullest.total_bytes:
        expected = format_share(fullest.expected_bytes / fullest.total_bytes)
        most = format_share(fullest.nine_of_ten_bytes / fullest.total_bytes)
    if expected == most:
        return f"{where}, {expected}"
    return f"{where}, {expected} expected, in nine of ten cases {most} at most"
