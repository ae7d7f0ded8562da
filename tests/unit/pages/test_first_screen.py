"""The first screen of a run's page: its sentence, five figures with the word that judges each, and buttons."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafka_rebalance.pages.first_screen import (
    KeyFigure,
    headline,
    key_figures,
    limits_sum,
    looks_of,
    moves_sum,
    next_steps,
)
from kafka_rebalance.pages.page import InAirflow, render_file, render_page
from kafka_rebalance.pages.run_state import Action, RunState, Tone
from support.documents import report_samples as samples
from support.documents.built_report import planned
from support.documents.report_samples import GIB

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


COPIES, TAKES, DISK, EVEN, LOSS = range(5)


def figures(
    *, snapshot: dict[str, Any] | None = None, moves: dict[str, Any] | None = None, **changes: Any
) -> tuple[KeyFigure, ...]:
    """Of `balanced`, with these values of the plan changed."""
    others = {name: given for name, given in (("snapshot", snapshot), ("moves", moves)) if given}
    report = planned(proposals=samples.proposals_of(**changes), **others)
    assert report.focus is not None
    return key_figures(report, report.focus)


def test_each_figure_has_a_unit_a_word_and_what_it_is_measured_against() -> None:
    assert [(one.name, one.value, one.word, one.note) for one in figures()] == [
        ("Copies", "287 GiB", "near the least", "34 moves, within 3 % of the least possible"),
        ("Takes", "1 h 21 min–2 h 15 min", "at any time", "3 batches, by the plan"),
        ("Fullest disk meanwhile", "71 %", "has room", "broker 1, 90 % allowed"),
        ("Highest broker", "1.62 → 1.04", "even", "of its share of bytes on disk"),
        ("If a broker fails", "37 partitions", "worse", "refuse acks=all; today 35"),
    ]


def test_a_candidate_that_moves_nothing_takes_no_time_and_leaves_everything_as_it_is() -> None:
    """One that is not possible has no time and no worst case either. Nothing of this is unknown."""
    nothing: dict[str, Any] = {
        "moved_bytes": 0,
        "moved_bytes_bound": 0,
        "batches": 0,
        "makespan_seconds": None,
        "worst_case": None,
    }
    found = figures(moves=dict.fromkeys(samples.DIGESTS, ()), **nothing)
    assert [(one.value, one.word) for one in found if one.name in ("Takes", "If a broker fails")] == [
        ("no time", "nothing moves"),
        ("as now", "unchanged"),
    ]


@pytest.mark.parametrize(
    ("moved", "bound", "word", "tone"),
    [
        (100 * GIB, 100 * GIB, "least", Tone.GOOD),
        (101 * GIB, 100 * GIB, "least", Tone.GOOD),
        (108 * GIB, 100 * GIB, "near the least", Tone.GOOD),
        (120 * GIB, 100 * GIB, "above the least", Tone.ATTENTION),
        (100 * GIB, None, "unproven", Tone.CALM),
        (0, 0, "least", Tone.GOOD),
    ],
)
def test_bytes_are_judged_by_the_least_possible(moved: int, bound: int | None, word: str, tone: Tone) -> None:
    found = figures(moved_bytes=moved, moved_bytes_bound=bound)[COPIES]
    assert (found.word, found.tone) == (word, tone)


@pytest.mark.parametrize(
    ("hours", "word", "tone"),
    [(3, "fits", Tone.GOOD), (2, "may not fit", Tone.ATTENTION), (1, "does not fit", Tone.BAD)],
)
def test_time_is_judged_by_the_window(hours: int, word: str, tone: Tone) -> None:
    observed = "2026-05-03T14:32:10+00:00"
    until = f"2026-05-03T{14 + hours}:32:10+00:00"
    found = figures(snapshot=samples.snapshot(observed_at=observed, window={"not_before": None, "finish_by": until}))
    assert (found[TAKES].word, found[TAKES].tone) == (word, tone)


def test_what_is_not_known_is_not_judged() -> None:
    unknown = figures(
        makespan_seconds=None, peak_disk_fraction=None, worst_case=None, scores={"before": {}, "after": {}}
    )
    assert [one.word for one in unknown[1:]] == ["unknown"] * 4
    assert {one.tone for one in unknown[1:]} == {Tone.CALM}


@pytest.mark.parametrize(("peak", "word", "tone"), [(0.90, "has room", Tone.GOOD), (0.91, "too full", Tone.BAD)])
def test_the_fullest_disk_is_judged_by_what_has_to_stay_free(peak: float, word: str, tone: Tone) -> None:
    found = figures(peak_disk_fraction=peak)[DISK]
    assert (found.word, found.tone) == (word, tone)


@pytest.mark.parametrize(
    ("today", "during", "after", "word", "tone"),
    [
        (0, 0, 0, "harmless", Tone.GOOD),
        (4, 4, 0, "as today", Tone.CALM),
        (4, 5, 0, "worse", Tone.ATTENTION),
        (4, 4, 5, "worse later", Tone.ATTENTION),
    ],
)
def test_a_loss_is_judged_by_the_worst_of_today(today: int, during: int, after: int, word: str, tone: Tone) -> None:
    course = {
        "today": samples.loss(3, today), "during": samples.loss(1, during, 2), "after": samples.loss(2, after),
    }  # fmt: skip
    worst = {"broker": course, "rack": None, "min_insync_unknown": 0, "under_now": 0}
    found = figures(worst_case=worst)[LOSS]
    assert (found.word, found.tone) == (word, tone)


def test_a_plan_that_ends_less_even_is_worse_whatever_else_it_gains() -> None:
    worse = {"metric": "leaders", "before": {"lowest": 0.9, "highest": 1.1}, "after": {"lowest": 0.5, "highest": 1.7}}
    found = figures(less_even=worse)[EVEN]
    assert (found.value, found.word, found.tone) == ("1.10 → 1.70", "worse", Tone.BAD)


def test_headings_sum_up_what_is_closed_and_one_look_is_shown_first() -> None:
    report = planned()
    looks = looks_of(report)
    assert [(look.number, look.candidate.name, look.is_default) for look in looks] == [
        (1, "leaders_only", False), (2, "light", False), (3, "balanced", True)
    ]  # fmt: skip
    assert moves_sum(looks[2].candidate) == "34 moves of 2 topics, 287 GiB"
    assert moves_sum(looks[0].candidate).endswith("no copies")
    assert limits_sum(report) == "at most 100 % used, throttle of one broker"


def test_the_switch_says_of_each_candidate_that_is_not_possible_that_it_is_not() -> None:
    plan = samples.proposals()
    plan["candidates"][1]["status"] = "infeasible"
    html = render_file(planned(proposals=plan))
    switch = html.partition('<nav class="switch"')[2].partition("</nav>")[0]
    tags = re.findall(r">(\w[\w ]*) <span class=\"tag[^>]*>([^<]+)<", switch)
    assert tags == [("Light", "not possible"), ("Balanced", "recommended")]


PAGES = {action: f"/airflow/{action}" for action in Action}
FAILED = planned(
    decision=samples.decision(),
    batches=samples.batches(),
    verification=samples.verification(),
).in_airflow(is_active=False)


@pytest.mark.parametrize("state", RunState)
def test_a_button_leads_to_each_thing_that_a_person_may_do(state: RunState) -> None:
    steps = next_steps(state, PAGES)
    assert bool(steps) == bool(state.actions)
    if Action.STOP in state.actions:
        assert [(step.words, step.how) for step in steps] == [("Stop, cancel or throttle", "")]
    else:
        assert {step.url for step in steps} == {PAGES[action] for action in state.actions}
        assert all(step.how for step in steps if step.url != PAGES[Action.ANSWER]), "the page alone does not say it"


@pytest.mark.parametrize("state", RunState)
def test_a_button_that_stops_or_undoes_a_run_is_never_the_expected_one(state: RunState) -> None:
    undoes = {"Stop, cancel or throttle", "Give leadership back", "Move the replicas back", "Cancel the copies"}
    assert all(step.is_expected == (step.words not in undoes) for step in next_steps(state, PAGES))


def test_a_step_without_a_page_in_airflow_has_no_button() -> None:
    assert next_steps(RunState.WAITING, {}) == ()


def test_after_a_failed_verification_the_page_has_buttons_and_the_file_has_sentences() -> None:
    html = render_page(FAILED, static_url="/static", run_url="/run", airflow=InAirflow(pages=PAGES))
    buttons = re.findall(r'<a class="button[^"]*" href="([^"]+)" data-airflow>([^<]+)</a>', html)
    assert buttons == [
        ("/airflow/go_on", "Go on with the plan"),
        ("/airflow/verify_again", "Verify again"),
        ("/airflow/roll_back", "Move the replicas back"),
        ("/airflow/start_anew", "Plan again"),
    ]
    assert "To verify again, clear the task verify." not in html
    alone = render_file(FAILED)
    assert 'class="button' not in alone
    assert "To verify again, clear the task verify." in alone
