"""The stages of a run as the documents show them, light and dark. `make pictures` keeps them."""

from __future__ import annotations

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from support.airflow.browser import console_errors, keep_picture, look_as, overflow
from support.airflow.web_stages import at_the_approval, run_at

pytestmark = pytest.mark.usefixtures("left_again")

SHOWN = {  # the stage: the picture's name, and words that a reader must find in it
    "waiting": ("run-at-the-approval", "Waits for approval"),
    "executing": ("run-while-it-moves", "MiB/s"),
    "verified": ("run-verified", "Done and verified"),
}
BRIGHTNESS = (
    "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("stage", SHOWN)
def test_a_picture_of_the_documents_shows_its_stage_in_light_and_in_dark(
    browser: Chrome, served: str, stage: str, dark: bool
) -> None:
    name, words = SHOWN[stage]
    look_as(browser, 1280, dark=dark)
    browser.get(f"{served}{(at_the_approval() if stage == 'waiting' else run_at(stage)).url}")
    seen = browser.find_element(By.TAG_NAME, "body").text.replace("\N{NO-BREAK SPACE}", " ")
    assert words in seen
    assert (browser.execute_script(BRIGHTNESS) < 3 * 128) is dark
    assert overflow(browser) <= 0
    assert console_errors(browser) == []
    keep_picture(browser, name + ("-dark" if dark else ""))
