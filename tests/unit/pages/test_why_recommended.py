"""Why a candidate is recommended, in sentences: on the page, and in the request for approval."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.documents.proposals import Beside, Furthest, Recommendation, Why
from kafka_rebalance.pages.approver_facts import recommendation_words
from kafka_rebalance.pages.page import render_page
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.rebalance.request import approval_body, approval_subject
from support.documents import report_samples as samples
from support.documents.as_in_a_file import in_json
from support.documents.built_report import planned

GIB = samples.GIB
LIGHT, OPTIMAL = Beside("light", 120 * GIB, 0.25), Beside("optimal", 300 * GIB, 0.02)


def report(found: Recommendation | None, job: str = "balance", **changes: Any) -> RunReport:
    snapshot = samples.snapshot()
    snapshot["settings"] = snapshot["settings"] | {"job": job, "drain": [3]}
    said = {} if found is None else {"recommendation": in_json(found), "recommended": found.candidate}
    proposals = samples.proposals(**said)
    for candidate in proposals["candidates"]:
        if candidate["name"] == "balanced":
            candidate.update(changes)
    return planned(snapshot=snapshot, proposals=proposals)


def page_of(found: RunReport) -> str:
    return render_page(found, static_url="/s", run_url="/r")


def test_the_reason_and_both_neighbours_are_said_on_the_page_and_in_the_request() -> None:
    found = report(Recommendation("balanced", Why.CHEAPEST, 0.1, Furthest(1.0, 0.09), 0, 0, LIGHT, OPTIMAL))
    assert recommendation_words(found) == (
        "Balanced is recommended: of the candidates that do the job within 10 %, it copies the fewest bytes.",
        "For 287 GiB copied, the highest broker goes from 1.62 to 1.04 of its share of bytes on disk.",
        "Light is the next cheaper one: it copies 120 GiB and leaves the worst broker 25 % off its share.",
        "Optimal is the next more even one: it copies 300 GiB and leaves the worst broker 2 % off its share.",
    )
    page, body = page_of(found), approval_body(found)
    assert recommendation_words(found)[0] in body
    for words in recommendation_words(found):
        assert words.replace(" ", "") in page.replace("\u00a0", "").replace(" ", "")
    assert approval_subject(found).endswith("Recommended: balanced · cccccccc")


@pytest.mark.parametrize(
    ("found", "job", "words"),
    [
        (
            Recommendation("balanced", Why.CHEAPEST, 0.1, Furthest(1.0, 0.12)),
            "balance",
            "of the candidates that do the job within 10 % or one replica, it copies the fewest bytes.",
        ),
        (
            Recommendation("light", Why.FEWEST_BYTES, 0.1, Furthest(1.0, 0.25)),
            "balance",
            "Light is recommended: the run prefers the fewest bytes (prefer), and of the candidates that do the "
            "job it copies the fewest. It leaves the worst broker 25 % off its share; the tolerance is 10 %.",
        ),
        (
            Recommendation("balanced", Why.NEAREST, 0.1, Furthest(1.0, 0.94), 7, 2),
            "drain",
            "no candidate does the job within 10 %, and this one comes nearest. For 287 GiB copied, the worst broker "
            "goes from 100 % to 94 % off its share.",
        ),
        (
            Recommendation("balanced", Why.NEAREST, 0.1, Furthest(1.0, 0.94), 7, 2),
            "drain",
            "7 replicas stay on brokers to be emptied. 2 partitions still break the rack rule.",
        ),
        (None, "balance", "Balanced is recommended: for 287 GiB copied, the highest broker goes from 1.62 to 1.04"),
    ],
)
def test_each_reason_has_words(found: Recommendation | None, job: str, words: str) -> None:
    assert words in " ".join(recommendation_words(report(found, job)))


@pytest.mark.parametrize(
    "why", [why for why in Why if why.name.startswith(("NOTHING", "NOT_", "WITHIN", "GIVEN_IS", "GIVEN_F"))]
)
def test_where_nobody_is_recommended_page_subject_and_request_say_so_and_why(why: Why) -> None:
    found = report(Recommendation(None, why, 0.1))
    (said,) = recommendation_words(found)
    assert said.startswith("Nothing is recommended: ")
    assert approval_subject(found).endswith("Nothing is recommended")
    assert said in approval_body(found)
    assert "(recommended)" not in approval_body(found)
    assert '<span class="tag">recommended</span>' not in page_of(found)


def test_a_reason_of_a_later_version_is_left_out() -> None:
    proposals = samples.proposals(recommendation={"why": "the_moon", "candidate": "balanced", "tolerance": 0.1})
    found = planned(proposals=proposals)
    assert found.recommendation is None
    assert recommendation_words(found)[0].startswith("Balanced is recommended")


def test_a_plan_that_ends_less_even_is_warned_of_with_its_figures() -> None:
    worse = {
        "metric": "disk",
        "before": {"lowest": 0.95, "highest": 1.04},
        "after": {"lowest": 0.5, "highest": 1.5},
    }
    found = report(None, less_even=worse)
    said = (
        "This plan ends less even than the cluster is now: bytes on disk 0.95–1.04 of the fair share become 0.50–1.50."
    )
    assert f"**Can go wrong** {said} **Approve another candidate, or reject.**" in approval_body(found)
    assert "**less even than now**" in approval_body(found)
    assert said in page_of(found)


def test_a_plan_that_max_bytes_stops_says_how_many_more_runs_are_needed_by_estimate() -> None:
    found = report(None, further_runs={"runs": 14, "bytes": 30 * 1024 * GIB})
    said = "About 14 more runs of that size are needed to be within 10 %: at least 30.0 TiB are left to copy."
    assert found.settings.max_bytes is not None
    assert said in approval_body(found)
    assert said in page_of(found).replace("\u00a0", " ")
