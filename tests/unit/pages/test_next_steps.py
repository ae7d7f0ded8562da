"""The buttons of the first screen."""

from __future__ import annotations

import re

import pytest

from kafka_rebalance.pages.first_screen import next_steps
from kafka_rebalance.pages.page import InAirflow, render_file, render_page
from kafka_rebalance.pages.run_state import Action, RunState
from support.documents import report_samples as samples
from support.documents.built_report import planned

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
    undoes = {"Stop, cancel or throttle", "Move the replicas back", "Cancel the copies"}
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
