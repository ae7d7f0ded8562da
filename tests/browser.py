"""Headless Chromium, and the steps a person takes in Airflow's pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait

PATIENCE_SECONDS = 60
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
    browser = Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


def wait_for(browser: Chrome, selector: str) -> WebElement:
    """The element, as soon as it can be clicked."""
    condition = expected_conditions.element_to_be_clickable((By.CSS_SELECTOR, selector))
    return WebDriverWait(browser, PATIENCE_SECONDS).until(condition, f"no {selector} on {browser.current_url}")


def log_in(browser: Chrome, url: str, user: str) -> None:
    """Through the Simple auth manager's form."""
    browser.get(f"{url}/auth/login")
    wait_for(browser, "input[name=username]").send_keys(user)
    wait_for(browser, "input[name=password]").send_keys(user)
    wait_for(browser, "button[type=submit]").click()
    WebDriverWait(browser, PATIENCE_SECONDS).until(
        lambda seen: "/auth/" not in seen.current_url, f"{user} is not logged in"
    )


def keep_picture(browser: Chrome, name: str) -> None:
    """For people to look at, where SCREENSHOTS names a folder."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))
