"""Numbers in words for people: each with its unit, each time with its zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from kafka_rebalance.model.amounts_in_words import bytes_in_words, duration_in_words, share_in_words
from kafka_rebalance.model.settings import GIVE_BACK, REPLACE_LOG_DIR

UNKNOWN = "unknown"
_JOBS = {
    "balance": "balance",
    "leaders": "balance leaders only",
    GIVE_BACK: "give leadership back",
    "elect": "elect preferred leaders",
    "drain": "drain",
    "replace": "replace brokers",
    "replication_factor": "change the replication factor",
    "relieve": "relieve full brokers",
    "repair_racks": "repair racks",
    REPLACE_LOG_DIR: "replace failed log dirs",
}

Named = Callable[[str], str]  # quotes a name from the cluster for a sentence


def about(seconds: float) -> str:
    """`about 38 min`; `under 1 s` is exact."""
    words = format_duration(seconds)
    return words if words.startswith("under") else f"about {words}"


def format_job(job: str) -> str:
    """`repair racks`."""
    return _JOBS[job]


def format_bytes(size: float | None) -> str:
    """Binary units, three figures: `0 B`, `1.50 KiB`, `12.4 GiB`."""
    return UNKNOWN if size is None else bytes_in_words(size)


def format_rate(bytes_per_second: float | None) -> str:
    """`12.4 MiB/s`."""
    return UNKNOWN if bytes_per_second is None else f"{format_bytes(bytes_per_second)}/s"


def format_rates(lowest: float | None, highest: float | None) -> str:
    """Of a range, or of one rate: `9.54 MiB/s to 76.3 MiB/s`."""
    return format_rate(highest) if lowest is None else f"{format_rate(lowest)} to {format_rate(highest)}"


def format_duration(seconds: float | None) -> str:
    """The two largest units: `45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`; or `under 1 s`."""
    return UNKNOWN if seconds is None else duration_in_words(seconds)


def format_age(seconds: float) -> str:
    """How long ago, in the largest unit alone: `3 h ago`; below a minute `just now`."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def format_range(low_seconds: float, high_seconds: float) -> str:
    """Two durations, with one unit if they share it: `38–52 min`, `50 min–1 h 10 min`."""
    low, high = format_duration(low_seconds), format_duration(high_seconds)
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number}–{high}" if high.partition(" ")[2] == unit and " " not in unit else f"{low}–{high}"


def format_count(count: float | None, one: str = "", many: str = "") -> str:
    """`1,234`, or with words `1 partition`, `1,234 partitions`."""
    if count is None:
        return f"{UNKNOWN} {many}".strip()
    return f"{count:,.0f} {one if count == 1 else many}".strip()


def format_share(share: float | None) -> str:
    """As percent: `7 %`, or `< 1 %` for a small share above 0."""
    return UNKNOWN if share is None else share_in_words(share)


def format_factor(factor: float | None) -> str:
    """A multiple of the fair share: `1.05`."""
    return UNKNOWN if factor is None else f"{factor:.2f}"


def format_time(moment: datetime | None) -> str:
    """UTC to the second: `2026-05-03 14:32:10 UTC`."""
    return UNKNOWN if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
