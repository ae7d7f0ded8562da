"""What the page says of where a run stands, for a run that goes on and for one that Airflow has ended."""

from __future__ import annotations

import re
from typing import Any

import report_samples as samples
from kafka_rebalance.report.page import NOTHING_AROUND, Around, render_page
from kafka_rebalance.report.summary import build_report

PLAN: dict[str, Any] = {"proposals": samples.proposals(), "moves": samples.all_moves()}
UNDER_WAY: dict[str, Any] = PLAN | {
    "decision": samples.decision(),
    "throttle": samples.throttle(),
    "batches": samples.batches(),
    "progress": samples.progress(),
}
ENDED = Around(is_active=False)


def text(around: Around = NOTHING_AROUND, **documents: Any) -> str:
    """The page without its tags."""
    report = build_report(samples.snapshot(), **documents)
    html = render_page(report, static_url="/static", run_url="/run", around=around)
    return re.sub("<[^>]+>", " ", html).replace("\N{NO-BREAK SPACE}", " ")


def test_a_run_that_airflow_has_ended_shows_how_far_it_came_and_nothing_as_of_now() -> None:
    active, ended = text(**UNDER_WAY), text(ENDED, **UNDER_WAY)
    for words in ("Time left", "Copied in the last minute", "29.6 MiB/s", "Throttle of one broker now", "Until then"):
        assert words in active, words
        assert words not in ended, words
    for words in ("How far it came", "The run has ended, and nobody follows its batches", "when last looked at: under"):
        assert words in ended, words
    assert "Partitions in place: 17 of 34" in ended


def test_what_follows_the_last_batch_is_said() -> None:
    done = samples.progress(state="done", partitions_done=34)
    said = "All batches are in place; leaders, throttle and verification follow."
    assert said in text(**UNDER_WAY | {"progress": done})
    assert said not in text(**UNDER_WAY)


def test_a_throttle_that_was_taken_off_is_none_of_now() -> None:
    released = samples.throttle(released_at="2026-05-03T15:39:00+00:00")
    assert "Throttle of one broker now" not in text(**UNDER_WAY | {"throttle": released})
