"""The clusters' page in a real browser: the table on a screen and on a phone, in light and in dark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from kafka_rebalance.pages import page
from kafka_rebalance.pages.fleet import Health
from support.airflow.airflow_home import RUNS
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
from support.airflow.web_fleet import forget_all, twelve
from support.airflow.web_run import janitor_report, waiting
from support.airflow.web_stages import run_at

WIDTHS = (1280, 390)
VIEWS = ((1280, False), (1280, True), (1000, False), (390, True), (390, False))  # width, dark
JUDGED = {(1280, True), (390, False)}  # by axe, which takes seconds


@pytest.fixture(autouse=True)
def _leave_each_page(browser: Chrome, tables: None) -> Iterator[None]:
    """A page that is left open goes on asking: without the samples of `tables` it would be answered 503."""
    console_errors(browser)
    yield
    browser.get("about:blank")
    forget_all()


def rows(browser: Chrome) -> list[list[str]]:
    """The texts of the table's cells, without the details."""
    found = browser.find_elements(By.CSS_SELECTOR, ".fleet tbody > tr:first-child")
    return [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in found]


def test_the_first_screen_says_of_twelve_clusters_which_one_needs_somebody_why_and_what_to_press(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCREENSHOTS=docs/img makes the picture of docs/running.md anew."""
    expected = twelve(monkeypatch)
    look_as(browser, 1280, height=720)
    browser.get(f"{served}/kafka-rebalance/clusters")
    shown = [[text.replace("\N{NO-BREAK SPACE}", " ") for text in row] for row in rows(browser)]
    healths = [row[1].splitlines()[0] for row in shown]
    assert healths == sorted(expected.values(), key=[*map(str, Health)].index)
    assert {row[0]: health for row, health in zip(shown, healths, strict=True)} == expected
    by_name = {row[0]: row[1:] for row in shown}
    assert by_name["eu-audit"][:2] == ["unknown\nIts newest check cannot be read", "see the details"]
    assert by_name["eu-billing"][:2] == ["act\nVerification failed", "Open the run"]
    assert by_name["eu-clicks"][0] == "act\nThe disk of broker 11 is full in 3 d"
    assert by_name["eu-clicks"][4] == "88 %, broker 11\nfull in 3 d"
    assert by_name["eu-payments"][1] == "Make a plan\nread-only"
    assert by_name["eu-payments"][4] == "86 %, /data2 of broker 7\nfull in 24 d"
    assert by_name["us-billing"][1].startswith("Answer\nasked ")
    assert by_name["us-clicks"][2] == "71 %\n12 min–2 h 35 min left"
    assert by_name["us-ledger"][6] == "frozen"
    bottom = "return document.querySelector('.fleet tbody:last-child > tr').getBoundingClientRect().bottom"
    assert browser.execute_script(bottom) <= 720, "one has to scroll for the last cluster"
    assert browser.execute_script("return scrollY") == 0
    keep_picture(browser, "fleet")


def test_the_table_fits_and_is_accessible_with_all_details_open(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    twelve(monkeypatch)
    browser.get(f"{served}/kafka-rebalance/clusters")
    for is_open in (False, True):
        if is_open:
            open_all(browser)
        for width, dark in VIEWS:
            look_as(browser, width, dark=dark)
            assert overflow(browser) <= 0, (is_open, width, dark)
            name = f"fleet-{'open-' if is_open else ''}{width}-{'dark' if dark else 'light'}"
            keep_picture(browser, name, whole=is_open)
            if is_open and (width, dark) in JUDGED:
                assert grave_findings(browser) == []
    assert console_errors(browser) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_click_on_a_cluster_opens_its_details_below_it_without_any_script(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    twelve(monkeypatch)
    look_as(browser, width)
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/static/*.js"]})
    try:
        browser.get(f"{served}/kafka-rebalance/clusters")
        body = browser.find_element(By.XPATH, "//tbody[descendant::th[contains(., 'us-clicks')]]")
        name, details = (body.find_element(By.TAG_NAME, tag) for tag in ("th", "details"))
        assert "Held by" not in body.text
        ActionChains(browser).move_to_element(name).click().perform()
        assert details.get_attribute("open") == "true"
        assert "Held by" in body.text
        parts = "return arguments[0].querySelector('.facts').getBoundingClientRect().top >= "
        parts += "arguments[1].getBoundingClientRect().bottom"
        assert browser.execute_script(parts, body, name), "the details lie over the row"
        browser.switch_to.active_element.send_keys(Keys.SPACE)
        assert "Held by" not in body.text
    finally:
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    console_errors(browser)


def test_without_a_cluster_the_page_invites_in_three_steps(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", raising=False)
    for width in WIDTHS:
        look_as(browser, width, dark=width < 600)
        browser.get(f"{served}/kafka-rebalance/clusters")
        links = [link.text for link in browser.find_elements(By.CSS_SELECTOR, ".steps li a")]
        assert links == ["Admin, Connections", "Admin, Variables", "Run the check"]
        assert browser.find_elements(By.CSS_SELECTOR, ".problem, [role=alert]") == []
        assert overflow(browser) <= 0
        keep_picture(browser, f"fleet-empty-{width}")
        assert grave_findings(browser) == []
    assert console_errors(browser) == []


def test_long_names_fit_too(browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps(["orders-prod", "orders-" + "x" * 200]))
    for stage in ("executing", "failed", "waiting"):
        run_at(stage, RUNS / "orders-prod" / uuid.uuid4().hex / "1")
    left = {"id": f"config:{'y' * 249}:7", "text": "a config is left", "remedy": "Tick it.", "can_be_cleaned": True}
    janitor_report("orders-prod", datetime(2026, 5, 3, tzinfo=UTC), lock="kafka_rebalance/one", findings=[left])
    for width in WIDTHS:
        look_as(browser, width, dark=width < 600)
        browser.get(f"{served}/kafka-rebalance/clusters")
        assert overflow(browser) <= 0
        open_all(browser)
        assert overflow(browser) <= 0
        keep_picture(browser, f"fleet-long-names-{width}", whole=True)
        assert grave_findings(browser) == []
    assert console_errors(browser) == []


def test_the_overview_tells_that_an_approval_is_asked_for_and_loads_nothing_by_itself(
    browser: Chrome, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps(["orders-prod"]))
    monkeypatch.setattr(page, "ANSWER_SECONDS", 1)
    look_as(browser, 390, dark=True)
    browser.get(f"{served}/kafka-rebalance/clusters")
    assert "asked for an approval or answered one since" not in seen(browser)
    waiting(run_at("waiting", RUNS / "orders-prod" / uuid.uuid4().hex / "1"))
    wait_until(browser, lambda: "asked for an approval or answered one since" in seen(browser), "nobody is told")
    assert "asked just now" not in seen(browser)
    keep_picture(browser, "fleet-asked")
    browser.find_element(By.LINK_TEXT, "Show it").click()
    wait_until(browser, lambda: "asked just now" in seen(browser), "the link leads elsewhere")
    assert "asked for an approval or answered one since" not in seen(browser)
    assert console_errors(browser) == []
