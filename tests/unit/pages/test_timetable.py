"""The schedule on the page: who receives and sends when, and when each batch begins."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.pages.page import plot_picture, render_file, render_page
from kafka_rebalance.pages.plots import timetable_plot
from kafka_rebalance.pages.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import planned


def timetable(**changes: Any) -> dict[str, Any]:
    """Broker 1 sends all of it, broker 5 receives most."""
    of_time = [1.0] * 30 + [0.5] * 30
    lane = {"first_batch": 1, "last_batch": 3, "busy": 0.75, "in": [0.0] * 60, "out": of_time}
    return {
        "broker_count": 6,
        "brokers": [
            lane | {"broker": 1, "received_bytes": 0, "sent_bytes": 287 * samples.GIB},
            lane | {"broker": 5, "received_bytes": 190 * samples.GIB, "sent_bytes": 0, "last_batch": 1, "in": of_time},
        ],
        "batch_count": 3,
        "batches": [
            {"number": 1, "partitions": 12, "bytes": 200 * samples.GIB, "begins": 0.0, "lasts": 0.5, "busiest": 1},
            {"number": 2, "partitions": 12, "bytes": 87 * samples.GIB, "begins": 0.5, "lasts": 0.5, "busiest": 5},
            {"number": 3, "partitions": 10, "bytes": 0, "begins": 1.0, "lasts": 0.0, "busiest": None},
        ],
    } | changes


def report(**changes: Any) -> RunReport:
    return planned(proposals=samples.proposals_of(timetable=timetable(**changes)))


def plain(page: str) -> str:
    return page.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.slow
def test_the_page_says_who_works_when_and_when_each_batch_begins() -> None:
    page = plain(render_file(report()))
    assert "The 2 of 6 brokers with most to receive or send" in page
    assert '>5</th><td class="number">190 GiB</td><td class="number">0 B</td><td class="number">1</td>' in page
    assert '>1–3</td><td class="number">75 %</td>' in page
    assert '>2</th><td class="number">45 min</td><td class="number">45 min</td><td class="number">12</td>' in page
    assert '<td class="number">0 B</td><td class="number">–</td>' in page


def test_each_batch_begins_after_what_the_controller_needed_for_those_before() -> None:
    plan = samples.proposals_of(timetable=timetable(), makespan_seconds=60.0, makespan_bound_seconds=60.0)
    page = plain(render_file(planned(proposals=plan)))
    assert '>2</th><td class="number">35 s</td><td class="number">35 s</td>' in page


def test_shares_are_said_where_no_throttle_makes_times_of_them() -> None:
    found = report()
    plan = samples.proposals_of(timetable=timetable(), makespan_seconds=None, makespan_bound_seconds=None)
    untimed = planned(proposals=plan)
    assert untimed.focus is not None
    assert found.focus is not None
    assert '>2</th><td class="number">50 %</td>' in plain(render_file(untimed))
    assert "% of the copying" in str(timetable_plot(untimed.focus.timetable, None).svg())  # type: ignore[union-attr]
    assert "minutes" in str(timetable_plot(found.focus.timetable, 5400.0).svg())  # type: ignore[union-attr]


def test_the_picture_has_its_own_address_on_the_live_page() -> None:
    found = report()
    page = render_page(found, static_url="/static", run_url="/run")
    focus = found.focus
    assert focus is not None
    plot = timetable_plot(focus.timetable, focus.makespan_seconds)
    assert plot is not None
    for number in map(str, range(10)):
        picture = plot_picture(focus, number)
        if picture == plot.svg().encode():
            assert f"/run/plot?candidate=balanced&amp;number={number}" in page
            return
    pytest.fail("no picture of that number")


def test_nothing_is_said_of_a_plan_that_copies_nothing_or_is_of_an_earlier_version() -> None:
    assert timetable_plot(None, 10.0) is None
    page = render_file(planned())
    assert "<h3>Schedule</h3>" not in page
