"""Headless Chromium, the steps a person takes in Airflow's pages, and what must hold of a page that is shown."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait
from selenium_axe_python import Axe

PATIENCE_SECONDS, DEADLINE_SECONDS = 60, 30
VIEWS = ((390, 844, False), (1280, 844, False), (1440, 900, False), (1440, 900, True))  # width, height, dark
MISSING = (
    "NO BROWSER: chromium and chromedriver are not on this machine, so nobody clicked through the approval. "
    "Install Debian's chromium and chromium-driver."
)


def open_browser(folder: Path) -> Iterator[Chrome]:
    """A browser with an empty profile; skips, or fails in CI, where there is none."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless=new",
        "no-sandbox",  # a container's root has no user namespaces
        "disable-gpu",
        "disable-quic",
        "disable-dev-shm-usage",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        f"user-data-dir={folder / 'profile'}",
        "window-size=1280,1000",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


def wait_for(browser: Chrome, selector: str) -> WebElement:
    """The element, as soon as it can be clicked."""
    condition = expected_conditions.element_to_be_clickable((By.CSS_SELECTOR, selector))
    return WebDriverWait(browser, PATIENCE_SECONDS).until(condition, f"no {selector} on {browser.current_url}")


def click(browser: Chrome, by: str, selector: str, missing: str) -> None:
    """Clicks on the element once it is there, also where Airflow draws it anew between the look and the click."""
    ignored = [NoSuchElementException, StaleElementReferenceException]
    WebDriverWait(browser, PATIENCE_SECONDS, ignored_exceptions=ignored).until(
        lambda page: page.find_element(by, selector).click() is None, missing
    )


def log_in(browser: Chrome, url: str, user: str) -> None:
    """Through the Simple auth manager's form."""
    browser.get(f"{url}/auth/login")
    wait_for(browser, "input[name=username]").send_keys(user)
    wait_for(browser, "input[name=password]").send_keys(user)
    wait_for(browser, "button[type=submit]").click()
    WebDriverWait(browser, PATIENCE_SECONDS).until(
        lambda seen: "/auth/" not in seen.current_url, f"{user} is not logged in"
    )


def look_as(browser: Chrome, width: int, *, height: int = 844, dark: bool = False) -> None:
    """From now on pages have a window of that many CSS pixels, in the reader's light or dark mode; so has this page."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    mode = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [mode]})


def open_all(browser: Chrome) -> None:
    """Opens every part of the page that is folded, and waits for what is fetched then."""
    browser.execute_script("document.querySelectorAll('details').forEach((one) => one.open = true)")
    waiting = "details[open][data-load]:not([data-loaded]), [aria-busy=true]"
    WebDriverWait(browser, PATIENCE_SECONDS, 0.05).until(
        lambda seen: not seen.find_elements(By.CSS_SELECTOR, waiting), "a part of the page is not loaded"
    )


def enter_frame(browser: Chrome) -> None:
    """What is looked at from now on is the page in Airflow's frame, with our heading in it."""
    browser.switch_to.default_content()
    patience = WebDriverWait(browser, PATIENCE_SECONDS)
    browser.switch_to.frame(patience.until(lambda seen: seen.find_element(By.TAG_NAME, "iframe")))
    patience.until(lambda seen: seen.find_element(By.TAG_NAME, "h1").text, "there is no page of ours in the frame")


def wait_for_text(browser: Chrome, words: str, *, seconds: float = PATIENCE_SECONDS) -> str:
    """The text of what is looked at, as soon as the words are in it, also where it is loaded anew meanwhile."""

    def text(seen: Chrome) -> str:
        return seen.find_element(By.TAG_NAME, "body").text.replace("\N{NO-BREAK SPACE}", " ")

    ignored = [NoSuchElementException, StaleElementReferenceException]
    patience = WebDriverWait(browser, seconds, ignored_exceptions=ignored)
    return patience.until(lambda seen: words in (found := text(seen)) and found, f"{words!r} does not come")


def overflow(browser: Chrome) -> int:
    """By how many CSS pixels the page, or the frame that is looked at, is wider than its window."""
    root = "document.documentElement"
    return int(browser.execute_script(f"return {root}.scrollWidth - {root}.clientWidth"))


def grave_findings(browser: Chrome) -> list[str]:
    """What axe finds of serious or critical impact in the page, or in the frame that is looked at: rule and where."""
    axe = Axe(browser)
    axe.inject()
    # What passes is a megabyte of a long page.
    found: list[dict[str, Any]] = axe.run(options={"resultTypes": ["violations"]})["violations"]
    return [
        f"{one['id']}: {one['help']}: {', '.join(str(node['target']) for node in one['nodes'][:5])}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def console_errors(browser: Chrome, of: str = "") -> list[str]:
    """What the browser has logged as errors since it was last asked: scripts, the content policy, files not found.

    `of`: only of addresses with this in them.
    """
    logged = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    return [message for message in logged if of in message]


def keep_picture(browser: Chrome, name: str, *, whole: bool = False) -> None:
    """For people to look at, where SCREENSHOTS names a folder; the whole page, or what the window shows."""
    named = os.environ.get("SCREENSHOTS")
    if not named:
        return
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    if not whole:
        browser.save_screenshot(str(folder / f"{name}.png"))
        return
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
    (folder / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


def check_page(browser: Chrome, name: str) -> None:
    """Of our page in Airflow's frame, in all views. Leaves the frame as it was."""
    try:
        for width, height, dark in VIEWS:
            look_as(browser, width, height=height, dark=dark)
            assert overflow(browser) <= 0, (name, width)
            keep_picture(browser, f"{name}-{width}{'-dark' if dark else ''}")
    finally:
        look_as(browser, 1280)
    assert grave_findings(browser) == []
    assert console_errors(browser, of="/kafka-rebalance/") == []


def seen(browser: Chrome) -> str:
    return browser.find_element(By.TAG_NAME, "body").text.replace("\N{NO-BREAK SPACE}", " ")


def wait_until(browser: Chrome, holds: Callable[[], Any], what: str) -> None:
    """Passes over elements of a page that is being loaded anew."""
    ignored = [StaleElementReferenceException]
    WebDriverWait(browser, DEADLINE_SECONDS, 0.1, ignored_exceptions=ignored).until(lambda _: holds(), what)
