"""The sources of a plan's bytes in and out, each in one line: how much history, how old, and what was estimated."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kafka_rebalance.documents.proposals import HistoryUsed, MetricsServerUsed, ReadByGroups, WorstHour
from kafka_rebalance.model.recurring_window import DAYS
from kafka_rebalance.pages.units import format_bytes, format_count, format_duration, format_share


def history_line(account: HistoryUsed, observed_at: datetime) -> str:
    """From `history` in proposals.json; `observed_at` is the time of the snapshot.

    It holds no name of the cluster, but what a metrics server says of itself.
    """
    given, server = account.partitions, account.metrics_server
    worst = account.worst_hour
    measure = "95th percentile" if worst is None or worst.hour is None else _hour(worst, worst.hour)
    samples = format_count(account.samples, "sample", "samples")
    if account.unreadable_files:
        files = format_count(account.unreadable_files, "file", "files")
        samples += f"; {files} of the ledger could not be read"
    parts = [] if server is None else list(_of_server(server, measure))
    if given.history:
        covered = _covered(account.share_of_partitions, account.share_of_bytes)
        if server is not None and server.partitions:
            measure = "from the ledger, the same"
        parts.append(f"{measure} of {account.days:.3g} days ({samples}{_age(account, observed_at)}) {covered}")
    elif server is None or not server.partitions:
        parts.append(f"too little history to say ({samples})")
    if worst is not None and worst.hour is None:
        who = "the samples do" if server is None or server.problem is not None else "samples and metrics server do"
        parts.append(f"{who} not show each hour of the week in two weeks, so no worst hour is known")
    for count, what in (
        (given.snapshot, "as in the snapshot"),
        (given.topic, "estimated from their topic"),
        (given.cluster, "estimated from the whole cluster"),
        (account.at_least, "of compacted topics may take more"),
    ):
        if count:
            parts.append(f"{format_count(count, 'partition', 'partitions')} {what}")
    if given.history:
        growth = account.growth_bytes_per_day
        parts.append(f"data {'shrinks' if growth < 0 else 'grows'} by {format_bytes(abs(growth))} a day")
    if account.expiring_bytes:
        parts.append(f"{format_bytes(account.expiring_bytes)} expire first, so the plan does not count them as staying")
    return "; ".join(parts)


def bytes_out_line(groups: ReadByGroups) -> str:
    """From `history.groups` in proposals.json."""
    words = f"measured for {format_share(groups.share_of_bytes_in)} of the bytes in, by what consumer groups commit"
    if groups.unread:
        count = "counts" if groups.unread == 1 else "count"
        unread = format_count(groups.unread, "partition", "partitions")
        words += f" ({unread} in which no group goes forward {count} as unread)"
    return words if groups.share_of_bytes_in == 1 else f"{words}; the rest counts as read once"


def _of_server(server: MetricsServerUsed, measure: str) -> Iterator[str]:
    left = server.left_out
    if server.problem is not None:
        yield f"the metrics server gives nothing: {server.problem.removesuffix('.')}"
    elif server.partitions:
        topics = format_count(server.topics, "topic", "topics")
        covered = _covered(server.share_of_partitions, server.share_of_bytes)
        yield f"{measure} of {server.days:.3g} days by the metrics server, of {topics}, {covered}"
    else:
        yield "the metrics server has no rate that counts"
    for count, what in (
        (server.short_topics, "of the metrics server known for too short a time"),
        (left.unknown_topics, "of the metrics server unknown to the cluster"),
        (left.no_rate_topics, "of the metrics server with points that are no rate"),
    ):
        if count:
            yield f"{format_count(count, 'topic', 'topics')} {what}"


def _covered(of_partitions: float, of_bytes: float) -> str:
    return f"for {format_share(of_partitions)} of the partitions, which hold {format_share(of_bytes)} of the bytes"


def _hour(worst: WorstHour, hour: int) -> str:
    day, of_day = divmod(hour, 24)
    return (
        f"mean of {DAYS[day]} {of_day:02}:00-{(of_day + 1) % 24:02}:00 UTC, the hour of the week with most bytes in "
        f"(each hour from at least {format_count(worst.samples, 'sample', 'samples')} in {worst.weeks:.3g} weeks),"
    )


def _age(account: HistoryUsed, observed_at: datetime) -> str:
    """How much older than the snapshot the newest sample is; empty below a minute."""
    newest = account.last_at
    seconds = (observed_at - newest).total_seconds() if newest is not None else 0.0
    return f", the newest {format_duration(seconds)} older than the snapshot" if seconds >= 60 else ""
