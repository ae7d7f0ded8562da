"""What the page says of a run's window once it was approved: whether it ends in time, and what does not start."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_rebalance.pages.progress import live_words
from kafka_rebalance.pages.windows import WindowWords
from support.documents import report_samples as samples
from support.documents.built_report import build_report

RATE = 50_000_000  # bytes per second, as the samples' throttle
MINUTE = 60 * RATE
# 82 of 287 GiB and four batches are left at 15:10:31: 12 min to 1 h 17 min, as the page has it.


def window(finish_by: str | None, not_before: str | None = None, **documents: Any) -> WindowWords | None:
    """What is said while batch 2 is under way and three come that copy for 10, 20 and 5 minutes."""
    times = {"finish_by": finish_by, "not_before": not_before}
    asked = {key: None if at is None else f"2026-05-03T{at}+00:00" for key, at in times.items()}
    under_way = {
        "proposals": samples.proposals(),
        "moves": samples.all_moves(),
        "decision": samples.decision(),
        "throttle": samples.throttle(),
        "batches": samples.batches(),
        "progress": noted(),
    }
    report = build_report(samples.snapshot(window=asked), **{**under_way, **documents})
    return live_words(report, datetime(2026, 5, 3, 15, 11, tzinfo=UTC)).window


def noted(**changes: Any) -> dict[str, Any]:
    busiest = {"busiest_bytes": 15 * MINUTE, "later_busiest_bytes": [10 * MINUTE, 20 * MINUTE, 5 * MINUTE]}
    return samples.progress(**busiest | changes)


@pytest.mark.parametrize(
    ("finish_by", "tone", "words"),
    [
        ("16:29:00", "quiet", "the run will end in time, by 2026-05-03 16:28:09 UTC at the latest"),
        ("16:26:00", "ask", "may not end in time. Of the 3 later batches, up to 1 will not start"),
        ("16:10:00", "ask", "may not end in time. Of the 3 later batches, up to 2 will not start"),
        ("15:50:00", "ask", "may not end in time. Of the 3 later batches, up to 2 will not start"),
        ("15:30:00", "problem", "cannot end in time. Of the 3 later batches, 2 to 3 will not start"),
        ("15:12:00", "problem", "cannot end in time. None of the 3 later batches will start, and their partitions"),
    ],
)
def test_the_time_left_is_held_against_the_window_batch_by_batch(finish_by: str, tone: str, words: str) -> None:
    found = window(finish_by)
    assert found is not None
    assert (found.tone, words in found.text) == (tone, True), found.text
    assert found.text.startswith(f"Window until 2026-05-03 {finish_by} UTC: the run ")


def test_notes_of_an_older_version_tell_the_end_and_no_number_of_batches() -> None:
    found = window("15:30:00", progress=samples.progress())
    assert found is not None
    assert found.tone == "ask"
    assert found.text.endswith("may not end in time. Batches that would end later do not start.")


def test_a_run_that_copies_nothing_is_not_over_at_once() -> None:
    proposals = samples.proposals_of(batches=120, makespan_seconds=0.0, makespan_bound_seconds=0.0)
    nothing = {"partitions_done": 5, "partitions_total": 1200, "bytes_copied": 0, "bytes_total": 0}
    progress = noted(batches=120, this_batch=nothing, busiest_bytes=0, later_busiest_bytes=[0] * 118, **nothing)
    found = window("15:15:00", proposals=proposals, progress=progress)
    assert found is not None
    assert found.tone == "problem"
    assert "cannot end in time. Of the 118 later batches" in found.text


def test_a_run_that_has_not_begun_is_held_against_its_window_from_when_it_may_begin() -> None:
    nothing = {"batches": None, "progress": None, "throttle": None}
    found = window("23:00:00", "22:00:00", **nothing)
    assert found is not None
    assert found.tone == "problem", "3 h by the plan do not fit into one"
    assert found.text.startswith("Window from 2026-05-03 22:00:00 UTC until 2026-05-03 23:00:00 UTC:")
    quiet = window(None, "22:00:00", **nothing)
    assert quiet == WindowWords("Window from 2026-05-03 22:00:00 UTC.")


def test_between_two_batches_what_is_left_counts_from_now() -> None:
    waits = noted(state="waiting", waiting_for=["Broker 4 is away."], batch=1, this_batch=None)
    found = window("15:45:00", progress=waits)
    assert found is not None
    assert found.tone == "problem"
    assert "cannot end in time. Of the 3 later batches, 2 will not start" in found.text


@pytest.mark.parametrize(
    ("finish_by", "words"),
    [("16:15:00", "The last batch may not start"), ("15:12:00", "The last batch will not start")],
)
def test_a_single_batch_is_not_counted(finish_by: str, words: str) -> None:
    found = window(finish_by, progress=noted(later_busiest_bytes=[35 * MINUTE]))
    assert found is not None
    assert words in found.text


def test_the_batch_under_way_runs_to_its_end_whatever_the_window() -> None:
    found = window("15:30:00", progress=noted(later_busiest_bytes=[]))
    assert found is not None
    assert "The window stops no batch: the batch under way runs to its end" in found.text


def test_nothing_is_said_without_a_window_or_when_no_batch_will_be_begun() -> None:
    assert window(None) is None
    stopped = {**samples.batches(), "stopped": {"at": "2026-05-03T15:12:00+00:00", "why": "olive asked."}}
    assert window("15:30:00", batches=stopped) is None
    assert window("15:30:00", verification=samples.verification(passed=True)) is None
