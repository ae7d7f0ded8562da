"""What the page says of where a run stands, for a run that goes on and for one that Airflow has ended."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafka_rebalance.report.page import NOTHING_AROUND, Around, render_page
from kafka_rebalance.report.run.from_documents import build_report
from kafka_rebalance.report.run.no_decision import undecided
from support.documents import report_samples as samples

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


def proposals(**changes: Any) -> dict[str, Any]:
    """Whose candidates are all like this."""
    made = samples.proposals()
    return made | {"candidates": [one | changes for one in made["candidates"]]}


NOTHING_MOVES = "no request is made: no candidate moves anything."


@pytest.mark.parametrize(
    ("documents", "active", "ended"),
    [
        ({}, "Nothing can be decided before the plan is made.", "It ended without a decision."),
        (PLAN, "The request comes, or is, under Browse, Required Actions", "It ended without a decision."),
        ({"proposals": proposals(moved_replicas=0, leader_changes=0, batches=0)}, NOTHING_MOVES, NOTHING_MOVES),
        ({"proposals": proposals(status="infeasible")}, NOTHING_MOVES, NOTHING_MOVES),
    ],
)
def test_why_there_is_no_decision_is_said_of_a_run_that_goes_on_and_of_one_that_ended(
    documents: dict[str, Any], active: str, ended: str
) -> None:
    report = build_report(samples.snapshot(), **documents)
    assert active in undecided(report, is_active=True)
    assert ended in undecided(report, is_active=False)
    assert ended in text(ENDED, **documents)


def test_what_follows_the_last_batch_is_said() -> None:
    done = samples.progress(state="done", partitions_done=34)
    said = "All batches are in place; leaders, throttle and verification follow."
    assert said in text(**UNDER_WAY | {"progress": done})
    assert said not in text(**UNDER_WAY)


def test_a_throttle_that_was_taken_off_is_none_of_now() -> None:
    released = samples.throttle(released_at="2026-05-03T15:39:00+00:00")
    assert "Throttle of one broker now" not in text(**UNDER_WAY | {"throttle": released})


def test_a_replica_that_is_not_in_sync_at_the_end_is_no_failure_while_it_is_verified_again() -> None:
    behind = UNDER_WAY | {"verification": samples.verification(passed=False) | {"again": True}}
    assert "it is verified again" in text(**behind)
    assert "Verification failed" not in text(**behind)
    assert "verification failed: replicas were not in sync" in text(ENDED, **behind)
    assert build_report(samples.snapshot(), **behind).changes_by_itself
