"""Candidates side by side: the plot of four and more, and why one of them has no button."""

from __future__ import annotations

import base64
from typing import Any
from xml.etree import ElementTree

from kafka_rebalance.pages.approver_facts import why_aside
from kafka_rebalance.pages.page import render_page
from kafka_rebalance.pages.plots import FEWEST, Point, candidates_plot, front_points
from kafka_rebalance.pages.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import build_report

GIB = samples.GIB


def candidate(name: str, copied: int, off: float | None, leader_changes: int = 6) -> dict[str, Any]:
    """One of proposals.json whose furthest broker is that far off its share in the end."""
    (made,) = (one for one in samples.proposals()["candidates"] if one["name"] == "balanced")
    score = {"max_over_mean": 1 + (off or 0), "min_over_mean": 0.95, "cv": 0.1}
    known = () if off is None else ("disk", "leaders", "replicas")
    scores = {**made["scores"], "after": dict.fromkeys(known, score)}
    changes = {"moved_bytes": copied, "leader_changes": leader_changes, "digest": f"{copied:064x}"}
    return {**made, "name": name, "scores": scores, **changes}


def report(*candidates: dict[str, Any]) -> RunReport:
    moves = {one["name"]: samples.moves() for one in candidates}
    ranking = ["balanced", "light", "leaders_only"]
    plan = samples.proposals(candidates=list(candidates), recommended="balanced", ranking=ranking)
    return build_report(samples.snapshot(), proposals=plan, moves=moves)


FOUR = (
    candidate("leaders_only", 0, 0.62),
    candidate("light", 100 * GIB, 0.21),
    candidate("balanced", 287 * GIB, 0.05),
    candidate("optimal", 260 * GIB, 0.1, leader_changes=18),
)


def test_four_candidates_are_drawn_with_their_figures_as_text_and_the_front_named() -> None:
    plot = candidates_plot(report(*FOUR, candidate("given", 300 * GIB, 0.3)).candidates)
    assert plot is not None
    for words in ("today 0 B and 100 %", "optimal 260 GiB and 10 %", "given 300 GiB and 30 %"):
        assert words in plot.description
    assert "No other beats leaders_only, light, optimal, balanced in both" in plot.description
    drawn = ElementTree.fromstring(base64.b64decode(plot.source.split(",")[1]))
    texts = {element.text for element in drawn.iter()}
    assert {"today", "leaders_only", "light", "balanced", "optimal", "given", "bytes copied (GiB)"} <= texts


def test_fewer_candidates_or_unknown_scores_are_left_to_the_table() -> None:
    assert candidates_plot(report(*FOUR[: FEWEST - 1]).candidates) is None
    assert candidates_plot(report(*FOUR[:3], candidate("optimal", 1, None)).candidates) is None
    assert candidates_plot(report(*FOUR[:3], {**FOUR[3], "status": "infeasible"}).candidates) is None


CURVE = [{"bytes": part * 287 * GIB // 4, "off": 1.3 - 0.3125 * part} for part in range(5)]


def test_the_curve_of_one_search_is_the_line_and_the_recommended_candidate_is_ringed() -> None:
    found = report({**FOUR[2], "evenness_by_bytes": CURVE}, FOUR[0])
    plot = candidates_plot(found.candidates, found.recommended)
    assert plot is not None, "with a curve, two candidates are enough"
    assert plot.note.startswith("the line is balanced, stopped after a part of its bytes")
    assert "its bytes: 0 B and 130 %, 71.8 GiB and 99 %" in plot.description
    assert plot.description.endswith("287 GiB and 5 %. Recommended is balanced.")
    without_ring = candidates_plot(found.candidates)
    assert without_ring is not None
    marks = [ElementTree.fromstring(base64.b64decode(one.source.split(",")[1])) for one in (plot, without_ring)]
    counts = [sum(element.tag.endswith("use") for element in mark.iter()) for mark in marks]
    assert counts[0] == counts[1] + 1


def test_the_front_holds_what_none_betters_in_both() -> None:
    points = [Point("a", 0, 0.6), Point("b", 5, 0.2), Point("c", 6, 0.2), Point("d", 5, 0.2), Point("e", 9, 0.1)]
    assert [point.name for point in front_points(points)] == ["a", "b", "d", "e"]


def test_a_candidate_without_a_button_says_what_it_is_better_and_worse_in() -> None:
    assert why_aside(report(*FOUR)) == {
        "optimal": "Against balanced: copies 27.0 GiB less, less even (furthest broker 10 % off its share, not 5 %), "
        "12 leader changes more. No button in the request, which has room for 3: name it in candidates to have one."
    }
    assert why_aside(report(*FOUR[:3])) == {}


def test_the_page_shows_both() -> None:
    page = render_page(report(*FOUR), static_url="/s", run_url="/r")
    assert "Bytes copied against what is left uneven" in page
    assert "Against balanced: copies 27.0" in page
    assert "Bytes copied against what is left uneven" not in render_page(
        report(*FOUR[:3]), static_url="/s", run_url="/r"
    )
