"""Where a plan's bytes in come from, in one line: how much history, how old, and what had to be estimated."""

from __future__ import annotations

from datetime import datetime

from kafka_rebalance.documents.proposals.history_used import HistoryUsed
from kafka_rebalance.report.units import format_bytes, format_count, format_duration, format_share


def history_line(account: HistoryUsed, observed_at: datetime) -> str:
    """Of `history` in proposals.json; `observed_at` is the snapshot's time. Figures and our own words alone."""
    given = account.partitions
    samples = format_count(account.samples, "sample", "samples")
    if account.unreadable_files:
        files = format_count(account.unreadable_files, "file", "files")
        samples += f"; {files} of the ledger gave none"
    parts = []
    if given.history:
        parts.append(
            f"95th percentile of {account.days:.3g} days ({samples}{_age(account, observed_at)}) for "
            f"{format_share(account.share_of_partitions)} of the partitions, which hold "
            f"{format_share(account.share_of_bytes)} of the bytes"
        )
    else:
        parts.append(f"too little history to say ({samples})")
    if given.snapshot:
        parts.append(f"{_partitions(given.snapshot)} as in the snapshot")
    if given.topic:
        parts.append(f"{_partitions(given.topic)} estimated from their topic")
    if given.cluster:
        parts.append(f"{_partitions(given.cluster)} estimated from the whole cluster")
    if account.at_least:
        parts.append(f"{_partitions(account.at_least)} of compacted topics may take more")
    if given.history:
        growth = account.growth_bytes_per_day
        parts.append(f"data {'shrinks' if growth < 0 else 'grows'} by {format_bytes(abs(growth))} a day")
    if account.expiring_bytes:
        parts.append(f"{format_bytes(account.expiring_bytes)} expire first, and are not planned as if they stayed")
    return "; ".join(parts)


def _age(account: HistoryUsed, observed_at: datetime) -> str:
    """How much older than the snapshot the newest sample is; nothing where it is the snapshot's own."""
    newest = account.last_at
    seconds = (observed_at - newest).total_seconds() if newest is not None else 0.0
    return f", the newest {format_duration(seconds)} older than the snapshot" if seconds >= 60 else ""


def _partitions(count: int) -> str:
    return format_count(count, "partition", "partitions")
