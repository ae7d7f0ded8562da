"""The page of a run of `kafka_log_dirs` in every state: on a desk, in Airflow's tab, on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from kafka_rebalance.documents import json_files
from kafka_rebalance.log_dirs.page import LogDirState
from kafka_rebalance.pages import page
from kafka_rebalance.pages.run_state import Tone
from support.airflow.browser import (
    console_errors,
    grave_findings,
    keep_picture,
    look_as,
    open_all,
    overflow,
    seen,
    wait_until,
)
from support.airflow.log_dir_stages import CASES, DIRS, HOSTILE, MOVES, WRITTEN
from support.airflow.web_run import NONCE_VALUE, Run

SIZES = {1440: 900, 1000: 600, 390: 844}
BOTTOM = "return arguments[0].getBoundingClientRect().bottom"


@pytest.fixture(autouse=True)
def left_again(browser: Chrome) -> Iterator[None]:
    console_errors(browser)
    yield
    browser.get("about:blank")


def test_every_state_of_a_run_is_looked_at() -> None:
    assert {case.state for case in CASES.values()} == set(LogDirState)


@pytest.mark.parametrize("name", CASES)
def test_the_first_screen_says_where_the_run_stands_and_what_one_can_press(
    browser: Chrome, served: str, name: str
) -> None:
    case = CASES[name]
    run = case.run()
    browser.get(f"{served}{run.url}")
    for width, height in SIZES.items():
        look_as(browser, width, height=height, dark=width == 1000)
        keep_picture(browser, f"log-dirs-{name}-{width}")
        standing = browser.find_element(By.CSS_SELECTOR, "#standing .state")
        assert standing.text == case.state.sentence
        buttons = browser.find_elements(By.CSS_SELECTOR, ".press a.button")
        assert len(buttons) == len(case.state.actions)
        for element in (standing, *buttons):
            assert browser.execute_script(BOTTOM, element) <= height, f"{element.text}: one has to scroll"
        assert overflow(browser) <= 0, width
    assert (case.state.tone is Tone.BAD) == (name in ("failed", "broken-off"))
    assert console_errors(browser) == []


@pytest.mark.parametrize(("width", "screens"), [(1440, 1), (1000, 1), (390, 2)])
def test_the_first_screen_has_what_one_approves_by(browser: Chrome, served: str, width: int, screens: int) -> None:
    look_as(browser, width, height=SIZES[width])
    browser.get(f"{served}{CASES['waiting'].run().url}")
    glance = browser.find_element(By.CSS_SELECTOR, ".glance")
    figures = glance.find_elements(By.CSS_SELECTOR, ".figures div")
    names = [one.find_element(By.TAG_NAME, "dt").text for one in figures]
    assert names == ["Copies", "Takes", "Fullest disk meanwhile", "Fullest log dir", "Stay outside the band"]
    found = [*figures, *glance.find_elements(By.CSS_SELECTOR, ".risks li")]
    found.append(browser.find_element(By.CSS_SELECTOR, "[aria-label='Log dirs'] tbody tr"))
    for element in found:
        assert browser.execute_script(BOTTOM, element) <= screens * SIZES[width], f"{element.text}: one has to scroll"


@pytest.mark.parametrize("name", ["waiting", "copying", "failed"])
def test_an_opened_page_fits_and_is_accessible(browser: Chrome, served: str, name: str) -> None:
    run = CASES[name].run()
    browser.get(f"{served}{run.url}")
    open_all(browser)
    for width, dark in ((390, True), (1000, False)):
        look_as(browser, width, height=SIZES[width], dark=dark)
        keep_picture(browser, f"log-dirs-{name}-open-{width}", whole=True)
        assert overflow(browser) <= 0, width
        assert grave_findings(browser) == []
    assert console_errors(browser) == []


def test_progress_shows_on_a_page_that_is_left_open(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "REFRESH_SECONDS", 1)
    case = CASES["copying"]
    run = case.run()
    look_as(browser, 1000)
    browser.get(f"{served}{run.url}")
    assert f"Replicas in place: 4 of {len(MOVES)}" in seen(browser)
    later = json_files.read_json(run.folder, json_files.PROGRESS) | {"partitions_done": 7}
    json_files.write_json(run.folder, json_files.PROGRESS, later)
    wait_until(browser, lambda: f"Replicas in place: 7 of {len(MOVES)}" in seen(browser), "the page stays behind")
    for name, content in CASES["verified"]._files(run).items():
        json_files.write_json(run.folder, name, content)
    wait_until(browser, lambda: "Done and verified" in seen(browser), "the end does not show")
    assert console_errors(browser) == []


def test_copies_that_nobody_follows_are_told(get: Any) -> None:
    quiet = replace(CASES["copying"], looked_seconds_ago=1200)
    assert "Nobody has looked at the copies for 20" in get(quiet.run().url).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "Nobody has looked" not in get(CASES["copying"].run().url).text


def test_what_the_cluster_says_is_escaped(get: Any) -> None:
    run = CASES["waiting"].run()
    hostile = replace(WRITTEN, dirs=(replace(DIRS[0], path=HOSTILE), *DIRS[1:]), reason="<b>now</b>")
    json_files.write_json(run.folder, json_files.LOG_DIRS, json_files.plain(hostile))
    html = get(run.url).text
    assert "alert(1)" in html
    assert "<script>alert" not in html
    assert "<b>now</b>" not in html


def test_a_run_without_a_folder_and_one_that_names_anothers_folder_show_nothing(get: Any) -> None:
    nothing = get(Run("kafka_log_dirs").with_tasks("plan").url)
    assert nothing.status_code == 200
    assert "No plan yet" in nothing.text
    other = CASES["waiting"].run()
    thief = Run("kafka_log_dirs").with_tasks("plan").with_xcom(run_folder=str(other.folder), nonce=NONCE_VALUE)
    answer = get(thief.url)
    assert answer.status_code == 403
    assert WRITTEN.reason not in answer.text
    assert get(CASES["waiting"].run().url, user=None).status_code == 401
