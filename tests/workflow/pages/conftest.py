"""Our pages served by the real Airflow app, and a browser that looks at them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi.testclient import TestClient
from selenium.webdriver import Chrome

from support.airflow.browser import DEADLINE_SECONDS, console_errors, open_browser
from support.waiting import wait


@pytest.fixture(scope="module")
def served(client: TestClient) -> Iterator[str]:
    """The address of Airflow's api-server, which runs in a thread of this process."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(client.app, lifespan="off", log_level="warning"))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    wait("the api-server has started", lambda: server.started, DEADLINE_SECONDS)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(DEADLINE_SECONDS)
    listening.close()


@pytest.fixture(scope="module")
def browser(
    served: str, login: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chrome]:
    """Logged in as vera, who may look."""
    for opened in open_browser(tmp_path_factory.mktemp("browser")):
        opened.get(f"{served}/kafka-rebalance/static/report.css")
        opened.add_cookie({"name": "_token", "value": login["vera"]["Authorization"].removeprefix("Bearer ")})
        yield opened


@pytest.fixture
def left_again(browser: Chrome, tables: None) -> Iterator[None]:
    """A page that is left open goes on asking: without the samples of `tables` it would be answered 503."""
    console_errors(browser)
    yield
    browser.get("about:blank")
