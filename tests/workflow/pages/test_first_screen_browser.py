"""What a run's page says before anybody scrolls or opens anything, in a real browser at the size of Airflow's tab."""

from __future__ import annotations

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from kafka_rebalance.workflow.web import run_records
from support.airflow.browser import console_errors, keep_picture, look_as, overflow
from support.airflow.web_stages import STAGES, at_the_approval, run_at

pytestmark = pytest.mark.usefixtures("left_again")

TAB = (1000, 600)  # what Airflow leaves to the tab of a run in a window of 1440 x 900
PHONE = (390, 844)
BOTTOM = "return arguments[0].getBoundingClientRect().bottom"


@pytest.mark.parametrize("stage", STAGES)
def test_a_closed_page_is_at_most_three_screens_high(browser: Chrome, served: str, stage: str) -> None:
    url = f"{served}{run_at(stage).url}"
    look_as(browser, TAB[0], height=TAB[1])
    browser.get(url)
    keep_picture(browser, f"closed-{stage}-1000", whole=True)
    assert browser.execute_script("return document.documentElement.scrollHeight") <= 3 * TAB[1]


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize(("width", "height", "screens"), [(1280, 844, 1), (*TAB, 1), (*PHONE, 2)])
def test_the_first_screen_at_the_approval_has_all_that_one_decides_by(
    browser: Chrome,
    served: str,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    height: int,
    screens: int,
    is_paused: bool,
) -> None:
    """`make pictures` keeps the README's picture."""
    monkeypatch.setattr(run_records, "is_paused", lambda session, dag_id: is_paused)
    look_as(browser, width, height=height)
    browser.get(f"{served}{at_the_approval().url}")
    keep_picture(
        browser, "run-at-the-approval" + ("-paused" if is_paused else "") + ("" if width == 1280 else f"-{width}")
    )
    assert len(browser.find_elements(By.CSS_SELECTOR, "#standing .ask")) == is_paused
    found = {
        words: browser.find_element(By.XPATH, f"//*[normalize-space(text())='{words}']")
        for words in (
            "Waits for approval", "Approve or reject", "Brokers 5 and 6 are new and hold nothing", "If nothing is done:"
        )
    }  # fmt: skip
    glance = browser.find_element(By.CSS_SELECTOR, ".glance.default")
    found |= {figure.text: figure for figure in glance.find_elements(By.CSS_SELECTOR, ".figures div")}
    found["recommended"] = glance.find_element(By.CSS_SELECTOR, ".switch .tag")
    found["the picture"] = glance.find_element(By.TAG_NAME, "img")
    found |= {risk.text: risk for risk in glance.find_elements(By.CSS_SELECTOR, ".risks li")}
    assert len(found) == 5 + 5 + 1 + 1
    for words, element in found.items():
        assert element.is_displayed(), words
        assert browser.execute_script(BOTTOM, element) <= screens * height, f"{words}: one has to scroll"
    assert overflow(browser) <= 0
    assert console_errors(browser) == []


def test_the_button_leads_to_the_request(browser: Chrome, served: str) -> None:
    run = at_the_approval()
    look_as(browser, *TAB[:1], height=TAB[1])
    browser.get(f"{served}{run.url}")
    button = browser.find_element(By.CSS_SELECTOR, "a.button")
    assert str(button.get_attribute("href")).endswith(
        f"/dags/kafka_rebalance/runs/{run.url.split('/')[-1]}/tasks/approve/required_actions"
    )


@pytest.mark.parametrize("scripts", [True, False])
def test_figures_and_picture_change_with_the_candidate(browser: Chrome, served: str, scripts: bool) -> None:
    look_as(browser, TAB[0], height=TAB[1])
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    try:
        browser.get(f"{served}{at_the_approval().url}")
        shown = {}
        for name in ("Balanced", "Light", "Leaders only", "Balanced"):
            (glance,) = (one for one in browser.find_elements(By.CSS_SELECTOR, ".glance") if one.is_displayed())
            glance.find_element(By.PARTIAL_LINK_TEXT, name).click()
            (glance,) = (one for one in browser.find_elements(By.CSS_SELECTOR, ".glance") if one.is_displayed())
            assert glance.get_attribute("aria-label") == f"{name} at a glance"
            assert glance.find_element(By.CSS_SELECTOR, ".switch [aria-current]").text.startswith(name)
            picture = glance.find_element(By.TAG_NAME, "img")
            shown[name] = (glance.find_element(By.CSS_SELECTOR, ".figures").text, picture.get_attribute("src"))
            keep_picture(browser, f"candidate-{name.lower().replace(' ', '-')}-1000")
        assert len({figures for figures, _ in shown.values()}) == len({source for _, source in shown.values()}) == 3
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
