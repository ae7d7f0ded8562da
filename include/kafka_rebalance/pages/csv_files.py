"""The CSV files of a candidate. People open them with a spreadsheet, which computes cells that look like formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from kafka_rebalance.pages.broker_loads import BrokerChange

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

CSV_HEAD = (
    "broker", "rack", "disk_capacity_bytes", "bytes_before", "bytes_at_most", "bytes_after", "leaders_before",
    "leaders_after", "replicas_before", "replicas_after", "bytes_in_per_second_before", "bytes_in_per_second_after",
    "nic_in_bytes_per_second", "bytes_out_per_second_before", "bytes_out_per_second_after", "nic_out_bytes_per_second",
)  # fmt: skip


def brokers_csv(brokers: Iterable[BrokerChange]) -> str:
    """One line for each broker; an unknown value is empty."""
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
    return f"moves-{candidate}.csv"


def brokers_file(candidate: str) -> str:
    return f"brokers-{candidate}.csv"


def cell(text: str) -> str:
    """The text, after an apostrophe if a spreadsheet would compute it: a topic or rack may have such a name."""
    return f"'{text}" if text.startswith(_FORMULA) else text
