"""Brokers of a large cluster: which are shown, in which order they are paged, and the racks that change."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.pages.page import details_of, render_brokers
from kafka_rebalance.pages.tables import (
    BROKER_SORTS,
    CHANGED,
    MOST_LISTED,
    PAGE_ROWS,
    WORST,
    BrokerChange,
    Load,
    Query,
    broker_changes,
    brokers_csv,
    brokers_page,
    listed_brokers,
    rack_changes,
)
from support.documents import report_samples as samples
from support.documents.built_report import planned

GIB = samples.GIB


def broker(number: int, before: int, after: int, peak: int | None = None, rack: str | None = None) -> BrokerChange:
    return BrokerChange(number, rack, 1000, Load(1, 1, before, None), Load(1, 1, after, None), peak)


def tables_of(changes: Sequence[BrokerChange]) -> str:
    """The page of all brokers."""
    found = brokers_page(changes, Query("balanced", "broker"))
    page = render_brokers(found, "orders", "Balanced", static_url="/static", run_url="/run")
    return page.replace("\N{NO-BREAK SPACE}", " ")


def was(before: str, after: str) -> str:
    return f'<span class="was">{before}</span> → {after}'


def ids(brokers: Any) -> list[int]:
    return [one.broker for one in brokers]


def test_of_many_brokers_the_fullest_and_those_that_change_most_are_shown_fullest_first() -> None:
    level = [broker(number, 500, 500) for number in range(1, 901)]
    filled = [broker(number, 100, 105, 1850 - number) for number in range(901, 911)]  # full only while it runs
    emptied = [broker(number, 400, 0) for number in range(911, 921)]
    assert ids(listed_brokers([*level, *filled, *emptied])) == [*range(901, 911), *range(911, 921)]
    assert len(filled) == WORST
    assert len(emptied) == CHANGED


def test_few_brokers_are_shown_all_in_the_order_of_their_ids() -> None:
    few = [broker(number, number, 0) for number in range(1, MOST_LISTED + 1)]
    assert ids(listed_brokers(few)) == ids(few)


def test_the_page_says_how_many_of_how_many_brokers_it_shows() -> None:
    report = planned(loads=samples.loads(300))
    assert report.focus is not None
    details = details_of(report.focus)
    assert details.brokers_caption.startswith(f"{len(details.brokers)} of 300 brokers: the 10 whose disks get fullest")
    assert len(details.brokers) <= WORST + CHANGED


@pytest.mark.parametrize("sort", BROKER_SORTS)
def test_all_pages_together_are_all_brokers(sort: str) -> None:
    all_of_them = [broker(number, 900 - number, number % 7, rack="a") for number in range(1, 251)]
    pages = [brokers_page(all_of_them, Query("light", sort, page=page)) for page in (1, 2, 3)]
    found = [one for page in pages for one in page.brokers]
    assert len(pages[0].brokers) == PAGE_ROWS
    assert sorted(ids(found)) == ids(all_of_them)
    assert ids(found)[0] == 1
    assert brokers_page(all_of_them, Query("light", sort, page=50)).brokers == pages[-1].brokers


def test_a_rack_is_shown_only_where_something_changes() -> None:
    brokers = [broker(1, 10, 20, rack="a"), broker(2, 20, 10, rack="a"), broker(3, 5, 9, rack="b"), broker(4, 1, 2)]
    assert [
        (rack.rack, rack.brokers, rack.before.size_bytes, rack.after.size_bytes) for rack in rack_changes(brokers)
    ] == [("b", 1, 5, 9)]
    assert rack_changes([replace(one, rack=None) for one in brokers]) == ()


def test_the_peak_of_each_disk_is_read_with_its_broker() -> None:
    changes = broker_changes("balanced", samples.loads()["balanced"], {1: 860 * GIB})
    assert [one.peak_bytes for one in changes[:2]] == [860 * GIB, None]
    assert changes[0].most_bytes == 860 * GIB
    assert changes[1].most_bytes == max(changes[1].before.size_bytes, changes[1].after.size_bytes)


def test_bytes_in_and_out_are_held_against_the_network_where_it_is_known() -> None:
    changes = broker_changes("balanced", samples.loads()["balanced"])
    page = tables_of(changes)
    first = page.split("<tr>")[2]
    assert was("46.5 MiB/s", "31.0 MiB/s") in first
    assert was("39 %", "26 %") + " of network" in first
    assert was("111 MiB/s", "74.0 MiB/s") in first
    assert was("93 %", "62 %") + " of network" in first
    assert page.split("<tr>")[3].count("capacity unknown") == 2, "the network of broker 2"
    rows = list(csv.DictReader(io.StringIO(brokers_csv(changes))))
    assert float(rows[0]["bytes_out_per_second_after"]) == 74 * samples.MIB
    assert [row["nic_out_bytes_per_second"] for row in rows[:2]] == [str(119.0 * samples.MIB), ""]


def test_a_plan_that_knows_no_network_has_no_columns_for_it() -> None:
    later = ("bytes_out_per_second", "nic_in_bytes_per_second", "nic_out_bytes_per_second")
    older = [{k: v for k, v in row.items() if k not in later} for row in samples.loads()["balanced"]]
    page = tables_of(broker_changes("balanced", older))
    assert "Bytes in</th>" in page
    assert "of network" not in page
    assert "Bytes out" not in page
    assert was("81 %", "54 %") + " of disk" in page
