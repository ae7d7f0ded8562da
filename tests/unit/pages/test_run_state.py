"""What the page says of where a run stands, for a run that goes on and for one that Airflow has ended."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from kafka_rebalance.pages.page import render_page
from kafka_rebalance.pages.run_state import (
    Action,
    Moves,
    RequestAnswer,
    RunFacts,
    RunState,
    Tone,
    Verified,
    run_facts,
    run_state,
)
from kafka_rebalance.run.approval_rules import REJECT
from support.documents import report_samples as samples
from support.documents.built_report import build_report, files_of

PLAN: dict[str, Any] = {"proposals": samples.proposals(), "moves": samples.all_moves()}
UNDER_WAY: dict[str, Any] = PLAN | {
    "decision": samples.decision(),
    "throttle": samples.throttle(),
    "batches": samples.batches(),
    "progress": samples.progress(),
}


def text(*, is_active: bool = True, **documents: Any) -> str:
    """The page without its tags."""
    report = build_report(samples.snapshot(), **documents).in_airflow(is_active=is_active)
    html = render_page(report, static_url="/static", run_url="/run")
    return re.sub("<[^>]+>", " ", html).replace("\N{NO-BREAK SPACE}", " ")


def test_a_run_that_airflow_has_ended_shows_how_far_it_came_and_nothing_as_of_now() -> None:
    active, ended = text(**UNDER_WAY), text(is_active=False, **UNDER_WAY)
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


NOTHING_MOVES = "The run does not ask for approval: no candidate moves anything."


@pytest.mark.parametrize(
    ("documents", "active", "ended"),
    [
        ({}, "There is no plan to decide on yet.", "The run ended without a decision."),
        (PLAN, "answer under Browse → Required Actions", "The run ended without a decision."),
        ({"proposals": proposals(moved_replicas=0, leader_changes=0, batches=0)}, NOTHING_MOVES, NOTHING_MOVES),
        ({"proposals": proposals(status="infeasible")}, NOTHING_MOVES, NOTHING_MOVES),
    ],
)
def test_why_there_is_no_decision_is_said_of_a_run_that_goes_on_and_of_one_that_ended(
    documents: dict[str, Any], active: str, ended: str
) -> None:
    report = build_report(samples.snapshot(), **documents)
    assert active in report.state.no_decision
    assert ended in report.in_airflow(is_active=False).state.no_decision
    assert ended in text(is_active=False, **documents)


def test_of_a_run_that_ended_before_its_plan_nothing_is_announced() -> None:
    assert "There is no plan yet. The task plan writes it" in " ".join(text(proposals=None).split())
    ended = text(is_active=False, proposals=None)
    assert "The run has made no plan." in ended
    assert "There is no plan yet" not in ended
    assert "none yet" not in ended


def test_a_cluster_without_a_policy_says_where_to_read_on_and_offers_a_new_plan() -> None:
    assert RunState.READ_ONLY.sentence.endswith("see Limits")
    assert RunState.READ_ONLY.actions == (Action.START_ANEW,)


def test_what_follows_the_last_batch_is_said() -> None:
    done = samples.progress(state="done", partitions_done=34)
    said = "All batches are in place. The run now removes the throttle, elects leaders and verifies the end."
    assert said in text(**UNDER_WAY | {"progress": done})
    assert said not in text(**UNDER_WAY)


def test_a_throttle_that_was_taken_off_is_none_of_now() -> None:
    released = samples.throttle(released_at="2026-05-03T15:39:00+00:00")
    assert "Throttle of one broker now" not in text(**UNDER_WAY | {"throttle": released})


def test_a_replica_that_is_not_in_sync_at_the_end_is_no_failure_while_it_is_verified_again() -> None:
    behind = UNDER_WAY | {"verification": samples.verification(passed=False) | {"again": True}}
    assert "the run verifies again" in text(**behind)
    assert "Verification failed" not in text(**behind)
    assert "verification failed: replicas were not in sync" in text(is_active=False, **behind)
    assert build_report(samples.snapshot(), **behind).state.changes_by_itself


MISSING = {"subject": "/admin", "problem": "this ZooKeeper user may not write it", "remedy": "Give it the right"}
OF_FACTS = ("snapshot", "proposals", "segments", "decision", "batches", "verification")
WITHOUT_RIGHTS = samples.snapshot() | {"missing_rights": [MISSING]}
NOT_STARTED = {"batches": [], "stopped": {"at": "2026-05-03T15:05:00+00:00", "why": "uma asked to stop"}}


@pytest.mark.parametrize(
    ("documents", "active", "ended"),
    [
        ({"proposals": None}, RunState.PLANNING, RunState.ENDED_WITHOUT_PLAN),
        ({"snapshot": samples.snapshot(policy=None)}, RunState.READ_ONLY, RunState.READ_ONLY),
        ({"snapshot": WITHOUT_RIGHTS}, RunState.RIGHTS_MISSING, RunState.RIGHTS_MISSING),
        ({}, RunState.PLANNED, RunState.ENDED_UNDECIDED),
        ({"proposals": proposals(status="infeasible")}, RunState.NOTHING_TO_MOVE, RunState.NOTHING_TO_MOVE),
        ({"decision": samples.decision(REJECT)}, RunState.REJECTED, RunState.REJECTED),
        ({"decision": {"choice": None}}, RunState.UNANSWERED, RunState.UNANSWERED),
        ({"decision": samples.decision()}, RunState.APPROVED, RunState.ENDED_BEFORE_BATCHES),
        (
            {"decision": samples.decision(), "batches": NOT_STARTED},
            RunState.APPROVED,
            RunState.ENDED_BEFORE_BATCHES,
        ),
        ({"decision": samples.decision(), "batches": samples.batches()}, RunState.EXECUTING, RunState.BROKEN_OFF),
        ({"verification": samples.verification(passed=True)}, RunState.VERIFIED, RunState.VERIFIED),
        ({"verification": samples.verification()}, RunState.NOT_AS_APPROVED, RunState.NOT_AS_APPROVED),
        ({"verification": samples.verification() | {"again": True}}, RunState.CATCHING_UP, RunState.NOT_IN_SYNC),
    ],
)
def test_the_state_is_told_by_files_and_by_whether_airflow_has_ended_the_run(
    documents: dict[str, Any], active: RunState, ended: RunState
) -> None:
    given = {"snapshot": samples.snapshot(), "proposals": samples.proposals()} | documents
    files = files_of(**given)
    facts: dict[str, Any] = {name: getattr(files, name) for name in OF_FACTS}
    for is_active, state in ((True, active), (False, ended)):
        assert run_state(run_facts(**facts, is_active=is_active, has_open_request=False)) is state
        assert build_report(**given).in_airflow(is_active=is_active, has_open_request=False).state is state


def test_a_request_that_is_open_waits_though_the_files_of_the_plan_were_not_read() -> None:
    assert run_state(RunFacts(has_open_request=True)) is RunState.WAITING
    assert run_state(RunFacts(has_open_request=True, is_active=False)) is RunState.ENDED_WITHOUT_PLAN
    assert run_state(RunFacts(has_plan=True)) is RunState.WAITING, "in the file nobody knows of requests"


EVERY = [
    RunFacts(*facts)
    for facts in itertools.product(
        (True, False), (None, True, False), (True, False), (True, False), (True, False), Moves,
        (None, *RequestAnswer), (0, 2), (None, *Verified),
    )
]  # fmt: skip


def test_of_every_combination_of_facts_no_state_promises_what_the_facts_deny() -> None:
    for facts in EVERY:
        state = run_state(facts)
        if state.changes_by_itself:
            assert facts.is_active, facts
        if facts.verified is None and (facts.answer is not RequestAnswer.APPROVED or not facts.batches):
            assert not state.is_unverified, facts
            assert not state.is_judged, facts
        if facts.answer is None and facts.verified is None:
            assert state.no_decision, facts
        else:
            assert not state.no_decision, facts
        if state.tone is Tone.GOOD:
            assert facts.verified is Verified.PASSED, facts
    assert {run_state(facts) for facts in EVERY} == set(RunState), "every state can be reached"


def test_a_run_is_answered_stopped_and_cancelled_only_while_it_goes_on_and_anew_only_afterwards() -> None:
    for facts in EVERY:
        allowed = set(run_state(facts).actions)
        if not facts.is_active:
            assert not allowed & {Action.ANSWER, Action.STOP, Action.SET_THROTTLE}, facts
        if Action.START_ANEW in allowed:
            assert facts.verified in (None, Verified.FAILED), facts
        if Action.ROLL_BACK in allowed:
            assert facts.verified is not None or facts.batches, facts


def test_the_page_says_what_a_person_may_do_now() -> None:
    assert RunState.EXECUTING.next_steps == (
        "The Dag kafka_rebalance_cancel can stop the run after its batch, cancel the reassignment or change the "
        "throttle."
    )
    assert RunState.BROKEN_OFF.next_steps == (
        "The log of the task that failed says why. "
        "To continue with the approved plan, clear the task hold_throttle and all tasks after it. "
        "The Dag kafka_rebalance_cancel can cancel the reassignment or move the replicas back."
    )
    for state in RunState:
        assert bool(state.next_steps) == bool(set(state.actions) - {Action.ANSWER}), state
