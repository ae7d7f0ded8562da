"""What the pages cost at 1,000 brokers and 150,000 moves: `make bench-web` writes it into docs/evidence/airflow.md.

Airflow's own api-server serves a synthetic run, and headless Chromium on the same machine looks at it. Before the first
view the server has shown other pages, and nothing of this run.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import presence_of_element_located
from selenium.webdriver.support.wait import WebDriverWait

from bench.pages import write_section
from bench.web.large_run import DAG, LargeRun
from demo.local_airflow import LocalAirflow

SECTION = "bench-web"
PATIENCE_SECONDS = 120
VIEWS, REFRESHES = 3, 5
WARM_UP_SECONDS = 15  # the api-server imports the web app at its first request, and then the plotting library
USER = "vera"

# The time until the answer is in the page and painted.
_TIMED = """
const done = arguments[arguments.length - 1], began = performance.now();
document.addEventListener("shown", () => requestAnimationFrame(() => setTimeout(() => {
  const seconds = (performance.now() - began) / 1000;
  done([seconds, performance.getEntriesByType("resource").at(-1).decodedBodySize]);
})), { once: true });
const moves = document.querySelector('details[data-load*="/moves?"]');
const form = moves.querySelector("form");
const ask = (values) => { for (const name in values) form.elements[name].value = values[name]; form.requestSubmit(); };
"""
_REFRESH = """
const done = arguments[arguments.length - 1], began = performance.now();
fetch(location.href, { cache: "no-store" }).then((answer) => answer.text()).then((text) =>
  done([(performance.now() - began) / 1000, new Blob([text]).size]));
"""
_VIEW = """
const page = performance.getEntriesByType("navigation")[0];
const paint = performance.getEntriesByName("first-contentful-paint")[0];
return [paint.startTime / 1000, page.decodedBodySize];
"""
SEARCHES = (  # (name, JavaScript)
    ("open the moves", "moves.open = true;"),
    ("search a topic", 'ask({ q: "topic-00042" });'),
    ("search a partition", 'ask({ q: "topic-00042-7" });'),
    ("search a broker", 'ask({ q: "broker:1042" });'),
    ("search a number", 'ask({ q: "17" });'),
    ("search words of the reason", 'ask({ q: "many times bytes in" });'),
    ("search what is nowhere", 'ask({ q: "nosuchtopic" });'),
    ("all again, by partition", 'ask({ q: "", sort: "partition" });'),
    ("the last page", 'moves.querySelector(".pager a:last-child").click();'),
    ("by batch", 'ask({ sort: "batch" });'),
    ("by reason", 'ask({ sort: "reason" });'),
    ("one reason", 'moves.querySelector(".reasons a").click();'),
    ("all brokers", "document.querySelector('details[data-load*=\"/brokers?\"]').open = true;"),
    ("another candidate", "document.querySelector('details[data-load*=\"/candidate?\"]').open = true;"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """One wait of a reader: its seconds, and the bytes of the answer."""

    what: str
    seconds: float
    size_bytes: int

    def line(self) -> str:
        return f"| {self.what} | {self.seconds:.2f} | {self.size_bytes / 1000:,.0f} |"


def table(looks: list[Look], written: dict[str, float]) -> Iterator[str]:
    """The table's lines for docs/."""
    yield ""
    yield "| | seconds | kB of the answer |"
    yield "|---|---:|---:|"
    yield from (look.line() for look in looks)
    yield ""
    yield "Written once, after the plan: " + ", ".join(f"{what} in {s:.1f} s" for what, s in written.items()) + "."


@contextmanager
def chromium(folder: Path) -> Iterator[Chrome]:
    """A headless browser with an empty profile."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run",
                 "disable-background-networking", f"user-data-dir={folder}", "window-size=1280,1000"):  # fmt: skip
        options.add_argument(f"--{flag}")
    browser = Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    browser.set_script_timeout(PATIENCE_SECONDS)
    try:
        yield browser
    finally:
        browser.quit()


def log_in(browser: Chrome, url: str) -> None:
    browser.get(f"{url}/auth/login")
    patience = WebDriverWait(browser, PATIENCE_SECONDS)
    for field in ("username", "password"):
        patience.until(presence_of_element_located((By.CSS_SELECTOR, f"input[name={field}]"))).send_keys(USER)
    browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
    patience.until(lambda seen: "/auth/" not in seen.current_url)


def look_at(browser: Chrome, url: str) -> Iterator[Look]:
    """Times the page several times, its searches, and its refresh."""
    for number in range(VIEWS):
        browser.get(url)
        seconds, size = WebDriverWait(browser, PATIENCE_SECONDS).until(_painted)
        yield Look("the page, first view" if not number else "the page again", seconds, size)
    for what, action in SEARCHES:
        yield Look(what, *browser.execute_async_script(_TIMED + action))
    worst = max(browser.execute_async_script(_REFRESH) for _ in range(REFRESHES))
    yield Look(f"the refresh every 5 s, slowest of {REFRESHES}", *worst)


def _painted(browser: Chrome) -> Any:
    try:
        return browser.execute_script(_VIEW)
    except Exception:  # not painted yet
        return None


def timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def measure(home: Path) -> list[str]:
    airflow = LocalAirflow(home, connections={}, processes=("api-server",))
    os.environ.update({key: value for key, value in airflow.env.items() if key.startswith("AIRFLOW")})
    from kafka_rebalance.rebalance import report  # Airflow reads its configuration at its first import

    run = LargeRun(airflow.runs)
    run.write()
    print({name: round(seconds, 1) for name, seconds in run.seconds.items()}, flush=True)
    written = {
        "`report.html`": timed(lambda: report.write_report(run.folder)),
        "the CSV files": timed(lambda: report.write_tables(run.folder)),
    }
    with airflow, chromium(home / "profile") as browser:
        run.record()
        log_in(browser, airflow.url)
        browser.get(f"{airflow.url}/kafka-rebalance/clusters")
        time.sleep(WARM_UP_SECONDS)
        looks = list(look_at(browser, f"{airflow.url}/kafka-rebalance/run/{DAG}/{quote(run.run_id, safe='')}"))
    file = run.folder / "report.html"
    written[f"`report.html` ({file.stat().st_size / 1e6:.1f} MB)"] = written.pop("`report.html`")
    return list(table(looks, written))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(Path(folder))
    print("\n".join(lines), flush=True)
    if not asked.print_only:
        write_section(SECTION, lines)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
