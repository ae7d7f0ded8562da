"""What approver and page read of the policy's windows: which apply, how many openings the run takes, what stops it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.pages.approver_facts import brief
from kafka_rebalance.pages.first_screen import key_figures
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.progress import compared, live_words
from kafka_rebalance.pages.risks import risks
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.windows import WindowWords
from kafka_rebalance.rebalance.request import approval_body
from support.documents import report_samples as samples
from support.documents.built_report import build_report, planned

NIGHTS = "daily 22:00-06:00 Europe/Berlin"
NONE = {"not_before": None, "finish_by": None}
NOW = datetime(2026, 5, 3, 15, 11, tzinfo=UTC)  # observed at 14:32:10, approved at 14:40:02
MINUTE = 60 * 50_000_000  # bytes at the samples' throttle


def report(*windows: str, takes: bool = True, **documents: Any) -> RunReport:
    """Three batches of 30 min, 45 min at the slow estimate. `takes`: the run takes these windows of its policy."""
    policy = {**samples.snapshot()["policy"], "windows": list(windows)}
    window = {**NONE, "recurring": list(windows)} if takes else NONE
    return planned(snapshot=samples.snapshot(window=window, policy=policy), **documents)


def said(found: RunReport) -> str:
    words = dict(brief(found).verdict)["Window"]
    assert f"**Window** {words}" in approval_body(found)
    return words


def live(*windows: str, **documents: Any) -> WindowWords:
    """While batch 2 is under way, and three come that copy for 10, 20 and 5 minutes."""
    busiest = {"busiest_bytes": 15 * MINUTE, "later_busiest_bytes": [10 * MINUTE, 20 * MINUTE, 5 * MINUTE]}
    under_way = {
        "decision": samples.decision(),
        "throttle": samples.throttle(),
        "batches": samples.batches(),
        "progress": samples.progress(**busiest),
    }
    found = live_words(report(*windows, **{**under_way, **documents}), NOW).window
    assert found is not None
    return found


def first_figure_of_time(found: RunReport) -> str:
    assert found.focus is not None
    return key_figures(found, found.focus).takes.word


def test_the_first_screen_says_whether_the_plan_fits_the_windows_and_what_stops_it() -> None:
    assert first_figure_of_time(report(NIGHTS)) == "fits"
    assert first_figure_of_time(report("daily 22:00-23:45 UTC")) == "takes 2 windows"
    for windows, why in (
        ("daily 22:00-22:30 UTC", "0 of 3 batches: no window has room for the next one."),
        ("daily 22:00-23:00 UTC", "2 of 3 batches: the approval ends before the next window."),
    ):
        found = report(windows)
        assert first_figure_of_time(found) == "does not fit"
        assert found.focus is not None
        assert f"It may stop after {why}" in [one.text for one in risks(found, found.focus)]


def test_an_approver_reads_which_window_applies_and_that_the_plan_fits_it() -> None:
    assert said(report(NIGHTS)) == (
        "daily 22:00-06:00 Europe/Berlin; opens at 2026-05-03 20:00:00 UTC, and an earlier approval expires as if it "
        "was given then; fits one opening: even at the slow estimate it ends by 2026-05-03 22:15:22 UTC"
    )


def test_an_approver_reads_how_many_openings_the_plan_takes_and_what_stays_between_them() -> None:
    assert said(report("daily 15:00-16:40 UTC")).endswith(
        "takes up to 2 openings: even at the slow estimate it ends by 2026-05-04 15:45:07 UTC. Between them it keeps "
        "the cluster's lock and no throttle"
    )


def test_an_approver_reads_after_which_batch_the_approval_ends() -> None:
    assert said(report("Mon 22:00-23:00 UTC")).endswith(
        "the run may stop after 1 of 3 batches: the approval ends before the next opening with room. "
        "approval_expires_after_seconds of the policy decides that"
    )


def test_an_approver_reads_that_a_batch_is_longer_than_every_opening() -> None:
    assert said(report("daily 22:00-22:30 UTC")).endswith(
        "the run may stop after 0 of 3 batches: the next one may take 45 min, and no opening is so long. A higher "
        "throttle makes it shorter"
    )


def test_an_approver_reads_that_a_run_works_outside_the_policys_windows() -> None:
    assert said(report(NIGHTS, takes=False)) == "outside the policy's windows (daily 22:00-06:00 Europe/Berlin)"
    assert "Window" not in dict(brief(build_report(samples.snapshot(), proposals=samples.proposals())).verdict)


def test_batches_that_the_timetable_lists_have_its_times_and_the_others_share_the_rest() -> None:
    slots = [{"number": 1, "partitions": 1, "bytes": 1, "begins": 0.0, "lasts": 0.5, "busiest": 1}]
    lanes: dict[str, Any] = {"broker_count": 0, "brokers": [], "batch_count": 3, "batches": slots}
    focus = report(NIGHTS, proposals=samples.proposals_of(timetable=lanes)).focus
    assert focus is not None
    assert focus.batch_seconds == (2705.0, 1355.0, 1355.0)
    assert sum(focus.batch_seconds) == focus.planned_seconds


@pytest.mark.parametrize(
    ("window", "tone", "words"),
    [
        (
            "daily 14:00-20:00 UTC",
            "quiet",
            "Window daily 14:00-20:00 UTC: open until 2026-05-03 20:00:00 UTC. What is left fits one opening: even "
            "at the slow estimate it ends by 2026-05-03 16:16:28 UTC.",
        ),
        (
            "daily 14:00-15:50 UTC",
            "quiet",
            "Window daily 14:00-15:50 UTC: open until 2026-05-03 15:50:00 UTC. What is left takes up to 2 openings: "
            "even at the slow estimate it ends by 2026-05-04 14:37:45 UTC. Between them it keeps the cluster's lock "
            "and no throttle.",
        ),
        (
            "daily 22:00-22:15 UTC",
            "problem",
            "Window daily 22:00-22:15 UTC: opens at 2026-05-03 22:00:00 UTC. The run may stop after 0 of 3 batches: "
            "the next one may take 15 min, and no opening is so long. A higher throttle makes it shorter.",
        ),
    ],
)
def test_while_it_runs_the_page_holds_the_later_batches_against_the_windows(window: str, tone: str, words: str) -> None:
    assert live(window) == WindowWords(words, tone)


def test_the_page_of_a_run_that_pauses_says_until_when_and_what_it_keeps() -> None:
    pauses = [{"at": "2026-05-03T15:05:00+00:00", "ended_at": None, "until": "2026-05-03T20:00:00+00:00"}]
    found = live(NIGHTS, batches={**samples.batches(), "pauses": pauses})
    assert found.text.startswith(
        "The run pauses until 2026-05-03 20:00:00 UTC, when its window opens. It keeps the cluster's lock, and its "
        "throttle is put back. To give the cluster to other runs, stop it with kafka_rebalance_cancel."
    )
    assert found.tone == "ask"
    over = [{**pauses[0], "ended_at": "2026-05-03T15:10:00+00:00"}]
    assert live(NIGHTS, batches={**samples.batches(), "pauses": over}).text.startswith("Window daily")
    page = render_file(report(NIGHTS, decision=samples.decision(), batches={**samples.batches(), "pauses": pauses}))
    assert "The run pauses until" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "Paused: the next batch would not end before the window closes" in page
    assert "Went on: the window is open" not in page
    page = render_file(report(NIGHTS, decision=samples.decision(), batches={**samples.batches(), "pauses": over}))
    assert "Went on: the window is open" in page


def test_the_page_says_once_for_what_the_run_waits() -> None:
    waits = {"state": "waiting", "waiting_for": ["No batch begins before tonight"]}
    given: dict[str, Any] = {"decision": samples.decision(), "batches": samples.batches()}
    for until in ({}, {"waiting_until": "2026-05-03T20:00:00+00:00"}):
        found = report(NIGHTS, progress=samples.progress(**waits, **until), **given)
        page = render_file(found.in_airflow(is_active=True))
        assert ("No batch begins before tonight" in page) == (not until)


def test_the_page_names_no_throttle_while_it_is_put_back() -> None:
    under_way: dict[str, Any] = {name: getattr(samples, name)() for name in ("decision", "batches", "progress")}
    for suspended_at in (None, "2026-05-03T15:05:00+00:00"):
        found = report(NIGHTS, throttle=samples.throttle(suspended_at=suspended_at), **under_way)
        page = render_file(found.in_airflow(is_active=True))
        assert ("Throttle of one broker now" in page) == (suspended_at is None)


def test_the_time_that_a_run_took_is_without_its_pauses() -> None:
    batches = samples.batches()
    pauses = [{"at": "2026-05-03T14:45:00+00:00", "ended_at": "2026-05-03T14:55:00+00:00", "until": None}]
    lines = {}
    for notes in (batches, {**batches, "pauses": pauses}):
        found = report(NIGHTS, decision=samples.decision(), verification=samples.verification(), batches=notes)
        (time,) = (line for line in compared(found) if line.what == "Time")
        lines["pauses" in notes] = time
    assert (lines[False].actual, lines[True].actual) == ("21 min", "11 min")
    assert "without 10 min in which it waited for its window" in lines[True].note


def test_a_window_that_nobody_can_read_is_an_error_of_ours() -> None:
    with pytest.raises(SettingsError, match="A recurring window is not days"):
        build_report(samples.snapshot(window={**NONE, "recurring": ["at night"]}))
