"""The first screen of a run in every state, on a desk and on a phone, in light and in dark, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from kafka_rebalance.pages.run_state import Action, RunState, Tone
from kafka_rebalance.pages.tables import CandidateTables
from kafka_rebalance.rebalance import report
from support.airflow.browser import console_errors, keep_picture, look_as, overflow
from support.airflow.web_stages import run_at
from support.airflow.web_states import CASES, Case
from support.documents import report_samples as samples
from support.documents.built_report import summary_of

pytestmark = pytest.mark.usefixtures("left_again")

HEIGHT = 844
BETWEEN = Case(RunState.EXECUTING, words="Approved and started; pauses until 20")
LOUD = (Tone.BAD, Tone.ATTENTION)
EXPECTED = (Action.ANSWER, Action.FIND_CAUSE, Action.ASK_AGAIN, Action.GO_ON, Action.VERIFY_AGAIN, Action.START_ANEW)
BOTTOM = "return arguments[0].getBoundingClientRect().bottom"


def without_moves(folder: Path, proposals: object, name: str) -> CandidateTables:
    now = [row for row in samples.loads()[name] if row["phase"] == "before"]
    return CandidateTables.of(name, [*now, *(row | {"phase": "after"} for row in now)], summary_of(()), ())


def test_every_state_of_a_run_is_looked_at() -> None:
    assert {case.state for case in CASES.values()} == set(RunState)


def test_approved_and_actual_figures_are_read_on_a_phone_without_scrolling_sideways(
    browser: Chrome, served: str
) -> None:
    assert sideways(browser, f"{served}{CASES['verified'].run().url}", "Predicted and actual") <= 0


def test_failed_checks_are_read_on_a_phone_without_scrolling_sideways(browser: Chrome, served: str) -> None:
    assert sideways(browser, f"{served}{CASES['failed'].run().url}", "Failed checks") <= 0
    keep_picture(browser, "failed-checks-390")


def sideways(browser: Chrome, url: str, table: str) -> int:
    """By how many CSS pixels the table is wider than its region on a phone."""
    look_as(browser, 390, height=HEIGHT)
    browser.get(url)
    shown = browser.find_element(By.CSS_SELECTOR, f'[aria-label="{table}"]')
    browser.execute_script("arguments[0].scrollIntoView()", shown)
    return int(browser.execute_script("return arguments[0].scrollWidth - arguments[0].clientWidth", shown))


@pytest.mark.parametrize("name", [*CASES, "between-windows"])
def test_the_first_screen_says_where_the_run_stands_and_what_one_can_press(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = CASES.get(name, BETWEEN)
    run = case.run() if case is not BETWEEN else run_at("between_windows")
    expected = case.state.tone in LOUD and case.state.actions[0] in EXPECTED
    if case.state is RunState.NOTHING_TO_MOVE:
        monkeypatch.setattr(report, "read_page_tables", without_moves)
    browser.get(f"{served}{run.url}")
    for width in (1280, 390):
        for dark in (False, True):
            look_as(browser, width, height=HEIGHT, dark=dark)
            keep_picture(browser, f"state-{name}-{width}{'-dark' if dark else ''}")
            standing = browser.find_element(By.CSS_SELECTOR, "#standing .state")
            assert standing.text.startswith(case.words or case.state.sentence)
            buttons = browser.find_elements(By.CSS_SELECTOR, ".press a.button")
            assert bool(buttons) is bool(case.state.actions)
            assert len([one for one in buttons if one.get_attribute("class") == "button"]) == expected
            for element in (standing, *buttons):
                assert browser.execute_script(BOTTOM, element) <= HEIGHT, f"{element.text}: one has to scroll"
            assert overflow(browser) <= 0, (width, dark)
    assert console_errors(browser) == []
