"""Text in the cells of a CSV file, which people open with a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from kafka_rebalance.report.candidate.broker_loads import BrokerChange

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


CSV_HEAD = (
    "broker", "rack", "disk_capacity_bytes", "bytes_before", "bytes_at_most", "bytes_after", "leaders_before",
    "leaders_after", "replicas_before", "replicas_after", "bytes_in_per_second_before", "bytes_in_per_second_after",
    "nic_in_bytes_per_second", "bytes_out_per_second_before", "bytes_out_per_second_after", "nic_out_bytes_per_second",
)  # fmt: skip


def brokers_csv(brokers: Iterable[BrokerChange]) -> str:
    """All brokers, one line each; what is unknown is empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(CSV_HEAD)
    for one in brokers:
        writer.writerow(
            (
                one.broker, cell(one.rack or ""), one.disk_capacity_bytes, one.before.size_bytes, one.peak_bytes,
                one.after.size_bytes, one.before.leaders, one.after.leaders, one.before.replicas, one.after.replicas,
                one.before.bytes_in_per_second, one.after.bytes_in_per_second, one.nic_in_bytes_per_second,
                one.before.bytes_out_per_second, one.after.bytes_out_per_second, one.nic_out_bytes_per_second,
            )
        )  # fmt: skip
    return text.getvalue()


def moves_file(candidate: str) -> str:
    """The name of the file with all moves of the candidate."""
    return f"moves-{candidate}.csv"


def brokers_file(candidate: str) -> str:
    """The name of the file with all brokers of the candidate."""
    return f"brokers-{candidate}.csv"


def cell(text: str) -> str:
    """The text; behind an apostrophe where a spreadsheet would compute it: topics and racks may be named so."""
    return f"'{text}" if text.startswith(_FORMULA) else text
