"""Our pages in a real browser, served by the real Airflow app: each stage, at two widths, in light and in dark."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from kafka_rebalance.documents import json_files
from kafka_rebalance.pages import page
from kafka_rebalance.rebalance import drift
from support.airflow.browser import (
    DEADLINE_SECONDS,
    console_errors,
    grave_findings,
    keep_picture,
    look_as,
    open_all,
    overflow,
    seen,
    wait_until,
)
from support.airflow.web_run import Run, waiting
from support.airflow.web_stages import STAGES, of_today, run_at
from support.documents import report_samples as samples

pytestmark = pytest.mark.usefixtures("left_again")

WIDTHS = (1280, 390)
# axe takes seconds: it looks at stages that have every part of the page between them, at each width, light and dark.
JUDGED = {("waiting", 1280, False), ("paused", 390, True), ("failed", 1280, False)}


@pytest.mark.parametrize("stage", STAGES)
def test_a_runs_page_fits_is_accessible_and_logs_no_error(browser: Chrome, served: str, stage: str) -> None:
    browser.get(f"{served}{run_at(stage).url}")
    open_all(browser)
    for width in WIDTHS:
        for dark in (False, True):
            look_as(browser, width, dark=dark)
            assert overflow(browser) <= 0, (width, dark)
            keep_picture(browser, f"{stage}-{width}-{'dark' if dark else 'light'}", whole=True)
            if (stage, width, dark) in JUDGED:
                assert grave_findings(browser) == []
    assert console_errors(browser) == []


def test_a_refresh_takes_nothing_away_from_who_reads(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "REFRESH_SECONDS", 1)
    run = Run().ready()
    json_files.write_json(run.folder, json_files.DECISION, samples.decision())
    many = [samples.traffic(broker, (1, 2, None), (0, 0, None)) for broker in range(1, 31)]

    def note(**changes: Any) -> None:
        noted = of_today(samples.progress(brokers=many, **changes))
        json_files.write_json(run.folder, json_files.PROGRESS, noted)

    look_as(browser, 1280)
    browser.get(f"{served}{run.url}")
    assert "Approved, not started yet" in seen(browser)
    json_files.write_json(run.folder, json_files.BATCHES, of_today(samples.batches()))
    note()
    wait_until(browser, lambda: "was started and is not verified yet" in seen(browser), "the page stays behind")
    table = browser.find_element(By.CSS_SELECTOR, '[aria-label="Brokers while it runs"]')
    browser.execute_script("arguments[0].focus(); arguments[0].scrollTop = 120; scrollTo(0, 200)", table)
    details = browser.find_element(By.XPATH, "//details[summary[contains(., 'longest in their phase')]]")
    browser.execute_script("arguments[0].open = true", details)

    note(partitions_done=18, anomalies=["Something new is wrong.", "And more."])
    wait_until(browser, lambda: "Partitions in place: 18 of 34" in seen(browser), "the page is not refreshed")
    assert "Something new is wrong." in seen(browser)
    assert details.get_attribute("open") == "true"
    state = "return [document.activeElement === arguments[0], arguments[0].scrollTop, Math.round(scrollY) > 0]"
    assert browser.execute_script(state, table) == [True, 120, True]

    select = "getSelection().selectAllChildren(arguments[0])"
    browser.execute_script(select, browser.find_element(By.XPATH, "//p[text()='Something new is wrong.']"))
    note(partitions_done=19)
    wait_until(browser, lambda: "while you have text selected" in seen(browser), "a selection does not hold the update")
    assert browser.execute_script("return getSelection().toString()") == "Something new is wrong."
    browser.execute_script("getSelection().removeAllRanges()")
    wait_until(browser, lambda: "Partitions in place: 19 of 34" in seen(browser), "the page is not refreshed again")
    assert "Something new is wrong." not in seen(browser)

    json_files.write_json(run.folder, json_files.VERIFICATION, samples.verification(passed=True))
    wait_until(browser, lambda: "Done and verified" in seen(browser), "the end does not show")
    assert "Predicted and actual" in seen(browser)
    assert "Updates every" not in seen(browser)
    assert console_errors(browser) == []


def test_a_comparison_that_comes_after_the_run_has_begun_is_passed_over(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ANSWER_SECONDS", 1)
    begun, go_on = threading.Event(), threading.Event()

    def read(*_: object) -> str:
        begun.set()
        go_on.wait(DEADLINE_SECONDS)
        return "too late"

    monkeypatch.setattr(drift, "read_drift", read)
    run = Run().ready()
    look_as(browser, 1280)
    browser.get(f"{served}{run.url}")
    assert begun.wait(DEADLINE_SECONDS)
    json_files.write_json(run.folder, json_files.DECISION, of_today(samples.decision()))
    json_files.write_json(run.folder, json_files.BATCHES, of_today(samples.batches()))
    wait_until(browser, lambda: not browser.find_elements(By.ID, "drift"), "the comparison stays")
    go_on.set()
    came = "return performance.getEntriesByType('resource').some((one) => one.name.endsWith('/drift'))"
    wait_until(browser, lambda: browser.execute_script(came), "the comparison does not come")
    assert console_errors(browser) == []


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("balanced", "Approved, not started yet (balanced)"),
        ("Reject", "Rejected: nothing was written to the cluster"),
    ],
)
def test_an_answer_shows_on_a_page_that_is_left_open_and_takes_nothing_away(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch, choice: str, words: str
) -> None:
    monkeypatch.setattr(page, "ANSWER_SECONDS", 1)
    run = Run().ready()
    waiting(run)
    look_as(browser, 1280)
    browser.get(f"{served}{run.url}")
    wait_until(browser, lambda: "Updates by itself once somebody answers." in seen(browser), "the page does not ask")
    moves = browser.find_element(By.CSS_SELECTOR, "details.more[data-load*='/moves?']")
    open_part(browser, moves)
    search = moves.find_element(By.CSS_SELECTOR, "input[type=search]")
    search.send_keys("broker")
    where = "return Math.round(arguments[0].getBoundingClientRect().top)"
    before = browser.execute_script(where, search)
    assert browser.execute_script("return Math.round(scrollY)") > 0

    json_files.write_json(run.folder, json_files.DECISION, of_today(samples.decision(choice)))
    wait_until(browser, lambda: words in seen(browser), "the answer does not show")
    everything = browser.find_element(By.TAG_NAME, "main").get_attribute("textContent")
    assert "Fine before the evening peak" in everything, "the decision's own section is there too"
    assert "Waits for approval" not in seen(browser)
    state = "return [document.activeElement === arguments[0], arguments[0].value, arguments[1].open]"
    assert browser.execute_script(state, search, moves) == [True, "broker", True]
    now = browser.execute_script(where, search)
    assert abs(now - before) <= 1, "what is read has stayed where it was, but for a part of a pixel"
    keep_picture(browser, f"answered-{choice}")
    assert console_errors(browser) == []


def test_an_answer_for_another_plan_than_the_one_that_is_read_is_told_and_linked(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ANSWER_SECONDS", 1)
    run = Run().ready()
    look_as(browser, 1280)
    browser.get(f"{served}{run.url}")
    open_part(browser, browser.find_element(By.CSS_SELECTOR, "details.more[data-load*='/moves?']"))
    json_files.write_json(run.folder, json_files.DECISION, of_today(samples.decision("light")))
    wait_until(browser, lambda: "Approved, not started yet (light)" in seen(browser), "the answer does not show")
    assert browser.find_elements(By.CSS_SELECTOR, "details[open] input[type=search]"), "the moves that were read stay"
    for width, dark in ((1280, False), (390, True)):
        look_as(browser, width, dark=dark)
        keep_picture(browser, f"answered-light-{width}")
        assert overflow(browser) <= 0
    browser.find_element(By.LINK_TEXT, "Show the run as it is now").click()
    wait_until(browser, lambda: "Light" in approved_parts(browser), "the link leads elsewhere")
    assert "The run now has another plan than this page shows" not in seen(browser)
    assert console_errors(browser) == []


def approved_parts(browser: Chrome) -> str:
    """What the page says was approved, in the heading of that part."""
    return " ".join(one.text for one in browser.find_elements(By.XPATH, "//summary[h2='What was approved']"))


def open_part(browser: Chrome, part: WebElement) -> None:
    """Opens a part that is fetched when it is opened, by a click, and waits for it."""
    open_around = "for (let one = arguments[0]; (one = one.parentElement?.closest('details')); ) one.open = true"
    browser.execute_script(open_around, part)
    summary = part.find_element(By.TAG_NAME, "summary")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", summary)
    summary.click()
    wait_until(browser, lambda: part.find_elements(By.CSS_SELECTOR, "[data-place] table"), "the part is not loaded")


def test_moves_are_searched_sorted_and_paged_by_clicks(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_rebalance.pages.tables.PAGE_ROWS", 10)
    monkeypatch.setattr("kafka_rebalance.pages.tables.PAGE_ROWS", 10)
    look_as(browser, 1280)
    browser.get(f"{served}{run_at('waiting').url}")
    part = browser.find_element(By.CSS_SELECTOR, "details.more[data-load*='/moves?']")
    open_part(browser, part)

    def told() -> str:
        return part.find_element(By.CSS_SELECTOR, "[role=status]").text.replace("\N{NO-BREAK SPACE}", " ")

    def rows() -> list[list[str]]:
        return [
            [cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")]
            for row in part.find_elements(By.CSS_SELECTOR, "tbody tr")
        ]

    assert told().startswith("34 moves, ")
    first = rows()
    assert len(first) == 10
    part.find_element(By.LINK_TEXT, "next").click()
    wait_until(browser, lambda: "page 2 of 4" in part.text.replace("\N{NO-BREAK SPACE}", " "), "the page is not turned")
    assert not {row[0] for row in rows()} & {row[0] for row in first}
    focused = "return document.activeElement.getAttribute('aria-label')"
    assert browser.execute_script(focused) == "Moves found of balanced", "the reader goes on in the table"

    part.find_element(By.CSS_SELECTOR, "select[name=sort] option[value=batch]").click()
    search = part.find_element(By.CSS_SELECTOR, "input[type=search]")
    search.send_keys("leaders of broker", Keys.ENTER)
    leaders = [move for move in samples.moves() if move.reason.startswith("leaders")]
    wait_until(browser, lambda: told().startswith(f"{len(leaders)} of 34 moves"), "the search finds something else")
    batches = [int(row[4]) for row in rows()]
    assert batches == sorted(move.batch for move in leaders)
    assert {row[5] for row in rows()} == {"leaders of broker 1"}
    assert browser.execute_script("return document.activeElement.value") == "leaders of broker", "one goes on typing"
    browser.switch_to.active_element.send_keys(Keys.CONTROL, "a")
    browser.switch_to.active_element.send_keys("no such topic", Keys.ENTER)
    wait_until(browser, lambda: "No move contains all of these words." in part.text, "something is found of nothing")
    assert console_errors(browser) == []
