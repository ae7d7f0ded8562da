"""The first sentence of a run's page."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.pages.first_screen import headline
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_state import RunState
from support.documents import report_samples as samples
from support.documents.built_report import planned

LEFT = [str(move.topic_partition) for move in samples.moves()[17:]]
APPROVED: dict[str, Any] = {"decision": samples.decision()}
PAUSED = APPROVED | {
    "batches": samples.batches()
    | {"pauses": [{"at": "2026-05-03T15:07:30+00:00", "ended_at": None, "until": "2026-05-03T23:00:00+00:00"}]}
}


def said(*, is_active: bool = True, **documents: Any) -> str:
    return headline(planned(**documents).in_airflow(is_active=is_active))


def test_a_run_that_pauses_says_until_when_and_one_that_has_ended_does_not() -> None:
    assert said(**PAUSED) == "Approved and started; pauses until 2026-05-03 23:00:00 UTC"
    assert said(is_active=False, **PAUSED) == RunState.BROKEN_OFF.sentence


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (LEFT, "Stopped: 17 of 34 approved moves were not made"),
        (LEFT[:1], "Stopped: 1 of 34 approved moves was not made"),
        ([], RunState.NOT_AS_APPROVED.sentence),
    ],
)
def test_a_run_that_was_stopped_says_how_much_of_it_was_not_made(left: list[str], words: str) -> None:
    verification = samples.verification() | {"not_moved": {"why": "uma asked.", "partitions": left}}
    assert said(is_active=False, **APPROVED, batches=samples.batches(), verification=verification) == words


def test_a_job_that_no_candidate_can_do_is_not_called_one_with_nothing_to_move() -> None:
    made = samples.proposals_of(status="infeasible", moved_replicas=0, leader_changes=0, batches=0)
    assert said(proposals=made) == "Not possible: no candidate does the job within its limits"
    made["candidates"][0]["status"] = "ok"
    assert said(proposals=made) == RunState.NOTHING_TO_MOVE.sentence


def test_an_approved_run_names_the_candidate() -> None:
    assert said(**APPROVED) == f"{RunState.APPROVED.sentence} (balanced)"


def test_why_a_run_was_stopped_stands_above_everything_that_is_closed() -> None:
    stopped = samples.batches() | {"stopped": {"at": "2026-05-03T15:08:00+00:00", "why": "As uma asked."}}
    ended = {"batches": stopped, "verification": samples.verification()}
    html = render_file(planned(**APPROVED | ended).in_airflow(is_active=False))
    assert "As uma asked." in html.partition("<details")[0]


def test_a_candidate_that_failed_is_named_where_no_other_moves_anything() -> None:
    made = samples.proposals_of(moved_replicas=0, leader_changes=0, batches=0)
    first = made["candidates"][0]
    first |= {"status": "failed", "note": "ZeroDivisionError: division by zero"}
    words = said(proposals=made)
    assert words == f"Planning of {first['name']} failed, and no other candidate moves anything"


def test_the_page_tags_a_failed_candidate_and_escapes_its_error() -> None:
    made = samples.proposals()
    made["candidates"][0] |= {"status": "failed", "note": "KeyError: '<b>orders'"}
    page = render_file(planned(proposals=made))
    assert '<span class="tag bad">failed</span>' in page
    assert "KeyError: &#39;&lt;b&gt;orders" in page
    assert "<b>orders" not in page
