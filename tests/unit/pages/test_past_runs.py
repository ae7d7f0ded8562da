"""When a rebalance will be over, and the last runs, as the page and the approval request say it."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.pages import units
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.rebalance.request import approval_body
from support.documents import report_samples as samples
from support.documents.built_report import planned


def past_run(**changes: Any) -> dict[str, Any]:
    return {
        "run_id": "scheduled__2026-04-28",
        "candidate": "balanced",
        "recorded_at": "2026-04-28T04:10:00+00:00",
        "verified": True,
        "predicted_bytes": 3 * samples.GIB,
        "copied_bytes": 3 * samples.GIB,
        "predicted_seconds": 1800.0,
        "actual_seconds": 2400.0,
        **changes,
    }


def report(ratios: list[Any], last: list[dict[str, Any]] | None = None, problems: list[str] | None = None) -> RunReport:
    document = {"ratios": ratios, "last": [past_run()] if last is None else last, "problems": problems or []}
    return planned(estimate=document)


def test_the_range_and_the_runs_that_it_rests_on_are_in_the_request_and_on_the_page() -> None:
    found = report([0.8, 1.0, 1.0, 1.0, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.6])
    words = "1 h 30 min–1 h 48 min, from 11 runs here"
    assert "**Ends** in 1 h 30 min–1 h 48 min at 95.4 MiB/s a broker, at any time (3 batches, by 11 earlier runs)" in (
        approval_body(found)
    )
    assert f"finishes in {words}" in render_file(found)


def test_with_too_few_runs_both_say_that_the_range_is_assumed() -> None:
    words = "1 h 21 min–2 h 15 min, assumed at 0.9–1.5 times the plan: 1 run here is too few to tell"
    found = report([3.0])
    assert "**Ends** in 1 h 21 min–2 h 15 min at 95.4 MiB/s a broker, at any time (3 batches, by the plan)" in (
        approval_body(found)
    )
    assert words in render_file(found)


def test_a_plan_that_copies_nothing_to_speak_of_has_no_range() -> None:
    found = report([1.0] * 9)
    leaders_only = next(candidate for candidate in found.candidates if candidate.name == "leaders_only")
    assert found.finishes_in(leaders_only) == ""


def test_the_last_runs_are_told_predicted_against_actual_and_nothing_of_theirs_is_markup() -> None:
    page = render_file(
        report(
            [],
            [past_run(), past_run(run_id=samples.HOSTILE, verified=False, actual_seconds=None)],
            ["day=2026-04-01/cut.parquet of the ledger's outcomes cannot be read"],
        )
    )
    assert "The newest 2 before this one, predicted and actual" in page
    section = page[page.index("Last runs here</h2>") :]
    for text in ("30\N{NO-BREAK SPACE}min", "40\N{NO-BREAK SPACE}min", "as approved", "not as approved", "unknown"):
        assert text in section
    assert "as planned</div>" in section, "an older version measured nothing"
    measured = render_file(report([], [past_run(unmeasured_bytes=0), past_run(unmeasured_bytes=samples.GIB)]))
    assert measured.count("as planned</div>") == 1
    assert "1.00\N{NO-BREAK SPACE}GiB as planned</div>" in measured
    assert "cut.parquet of the ledger&#39;s outcomes cannot be read" in page
    assert samples.HOSTILE not in page


def test_without_an_earlier_run_the_page_says_so_and_without_the_document_it_is_silent() -> None:
    assert "This cluster has no recorded rebalance" in render_file(report([], []))
    silent = planned()
    assert "Last runs" not in render_file(silent)
    assert "finishes in" not in approval_body(silent)


@pytest.mark.parametrize("ratios", [None, "x", [1.0, None], [True]])
def test_ratios_that_are_no_numbers_are_refused_with_file_and_place(ratios: Any) -> None:
    with pytest.raises(ArtifactError, match=r"estimate\.json: ratios"):
        report(ratios)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (2280, 3120, "38–52 min"),
        (5, 9, "5–9 s"),
        (2280, 4200, "38 min–1 h 10 min"),
        (5400, 9000, "1 h 30 min–2 h 30 min"),
        (3600, 7200, "1–2 h"),
        (600, 610, "10 min"),
    ],
)
def test_a_range_says_its_unit_once_where_it_is_the_same(low: float, high: float, text: str) -> None:
    assert units.format_range(low, high) == text
