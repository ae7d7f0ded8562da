"""The approval as people use it: by clicks, by REST, by the wrong person, too late, and for a plan that is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, trigger
from kafka_rebalance.local_cluster import LocalCluster
from support.airflow.browser import (
    PATIENCE_SECONDS,
    VIEWS,
    check_page,
    click,
    enter_frame,
    keep_picture,
    log_in,
    look_as,
    wait_for,
    wait_for_text,
)

THROTTLE, SLOW = 20_000_000, 1_000_000  # bytes per second; the slow one leaves something to be seen
BEHIND_THE_APPROVAL = ("hold_throttle", "reassign", "release_throttle", "elect_leaders", "verify", "record")

ReadZooKeeper = Callable[[], dict[str, tuple[bytes, int]]]


@pytest.fixture(scope="module")
def rejected(requester: httpx.Client) -> DagRun:
    return trigger(requester, "kafka_rebalance", {"kafka_conn_id": "kafka_local", "reason": "to be rejected"})


@pytest.fixture(scope="module")
def expired(requester: httpx.Client) -> DagRun:
    return trigger(requester, "kafka_rebalance", {"kafka_conn_id": "kafka_brief", "reason": "to expire"})


@pytest.fixture(scope="module")
def cleared(requester: httpx.Client) -> DagRun:
    return trigger(requester, "kafka_rebalance", {"kafka_conn_id": "kafka_local", "reason": "to be cleared"})


@pytest.fixture(scope="module")
def nightly(requester: httpx.Client) -> DagRun:
    return trigger(requester, "kafka_balance_check", {})


@pytest.fixture(scope="module", autouse=True)
def _plan_side_by_side(rejected: DagRun, expired: DagRun, cleared: DagRun, nightly: DagRun) -> None:
    """The runs that write nothing are planned together, before the one that moves."""


def test_the_requester_cannot_approve(rejected: DagRun) -> None:
    request = rejected.wait_for_request()
    assert [user["id"] for user in request["assigned_users"]] == ["uma"]
    reply = rejected.answer(request["options"][0], throttle_bytes_per_second=THROTTLE)
    assert reply.status_code == httpx.codes.FORBIDDEN
    assert rejected.tasks()["approve"] == "awaiting_input"


def test_a_rejected_run_succeeds_and_touches_nothing(
    rejected: DagRun, approver: httpx.Client, read_zookeeper: ReadZooKeeper
) -> None:
    rejected.wait_for_request()
    before = read_zookeeper()
    rejected.seen_by(approver).answer("Reject", throttle_bytes_per_second=THROTTLE, note="not today").raise_for_status()
    assert rejected.wait_for_end() == "success", rejected.failures()
    assert {task: rejected.tasks()[task] for task in BEHIND_THE_APPROVAL} == dict.fromkeys(
        BEHIND_THE_APPROVAL, "skipped"
    )
    decision = json.loads((rejected.folder() / "decision.json").read_text())
    assert (decision["choice"], decision["approved_by"]["id"], decision["note"]) == ("Reject", "uma", "not today")
    assert read_zookeeper() == before


def test_an_expired_request_fails_the_run_and_touches_nothing(expired: DagRun, read_zookeeper: ReadZooKeeper) -> None:
    before = read_zookeeper()
    assert expired.wait_for_end() == "failed"
    tasks = expired.tasks()
    assert tasks["approve"] == "failed"
    assert {tasks[task] for task in BEHIND_THE_APPROVAL} == {"upstream_failed"}
    assert json.loads((expired.folder() / "decision.json").read_text())["expired"] is True
    assert "Nobody answered within 5 s" in expired.log("approve")
    assert read_zookeeper() == before


def test_an_answer_to_a_cleared_approvals_old_request_fails_closed(
    cleared: DagRun, approver: httpx.Client, cluster: LocalCluster, read_zookeeper: ReadZooKeeper
) -> None:
    """Airflow shows the request of the first plan again, although the cluster, and so the plan, has changed."""
    old = cleared.wait_for_request()["options"]
    first_folder = cleared.folder()
    cluster.create_topic("made-meanwhile", {0: (1, 2)})
    cleared.client.post(
        f"/api/v2/dags/{cleared.dag_id}/clearTaskInstances",
        json={
            "dry_run": False,
            "dag_run_id": cleared.run_id,
            "task_ids": ["snapshot"],
            "include_downstream": True,
            "only_failed": False,
        },
    ).raise_for_status()
    cleared.wait(lambda: cleared.tasks()["approve"] is None, timeout=60, what="the approval is cleared")
    assert cleared.wait_for_request()["options"] == old
    assert cleared.folder() != first_folder
    before = read_zookeeper()
    cleared.seen_by(approver).answer(old[0], throttle_bytes_per_second=THROTTLE).raise_for_status()
    assert cleared.wait_for_end() == "failed"
    assert cleared.tasks()["approve"] == "failed"
    assert "is not for this plan" in cleared.log("approve", try_number=2)
    assert not (cleared.folder() / "decision.json").exists()
    assert read_zookeeper() == before


def started_by_the_check(nightly: DagRun) -> list[dict[str, Any]]:
    """The rebalances that the nightly check has started, as Airflow's REST interface has them."""
    asked = {"run_type": "operator_triggered"}
    found: list[dict[str, Any]] = nightly.client.get("/api/v2/dags/kafka_rebalance/dagRuns", params=asked).json()[
        "dag_runs"
    ]
    return found


def test_the_nightly_check_proposes_past_the_limit_and_writes_nothing(nightly: DagRun, approver: httpx.Client) -> None:
    """The rebalance it starts inherits who started the check, and waits for somebody else."""
    assert nightly.wait_for_end() == "success", nightly.failures()
    events = nightly.client.get("/api/v2/assets/events", params={"source_dag_id": nightly.dag_id}).json()[
        "asset_events"
    ]
    assert [event["extra"]["connection_id"] for event in events] == ["kafka_nightly"]
    assert events[0]["extra"]["skew"]["disk"] > 0.2
    (started,) = started_by_the_check(nightly)
    assert started["triggering_user_name"] == "olive"
    proposed = DagRun(nightly.client, "kafka_rebalance", started["dag_run_id"])
    request = proposed.wait_for_request()
    assert [user["id"] for user in request["assigned_users"]] == ["uma"]
    assert "off their share" in request["body"]
    reply = proposed.seen_by(approver).answer("Reject", throttle_bytes_per_second=THROTTLE)
    reply.raise_for_status()
    assert proposed.wait_for_end() == "success", proposed.failures()


def test_a_whole_run_through_spark_approved_by_clicks(
    airflow: LocalAirflow,
    requester: httpx.Client,
    browser: Chrome,
    read_zookeeper: ReadZooKeeper,
) -> None:
    # Airflow makes a list instead of buttons where there is more to choose from.
    asked = {"kafka_conn_id": "kafka_spark", "reason": "the main job", "candidates": ["light", "balanced"]}
    run = trigger(requester, "kafka_rebalance", asked)
    log_in(browser, airflow.url, "uma")
    request = run.wait_for_request()
    options = request["options"]
    recommended = json.loads((run.folder() / "proposals.json").read_text())["recommended"]
    assert options[0].startswith(f"{recommended} · ")

    tab = f"{airflow.url}{run.page}/plugin/rebalance"
    browser.get(tab)
    enter_frame(browser)
    compared = WebDriverWait(browser, PATIENCE_SECONDS).until(
        lambda seen: (
            (text := seen.find_element(By.ID, "drift").get_attribute("textContent") or "")
            and "after the snapshot" in text
            and text
        ),
        "the plan was not compared with the cluster",
    )
    assert "are ready for the first write" in compared
    assert "conflict" not in compared
    check_page(browser, "tab-before")
    browser.switch_to.default_content()

    browser.get(f"{airflow.url}/required_actions?response_received=false")
    listed = "//a[contains(@href, '/tasks/approve/required_actions') and contains(., 'Kafka kafka_spark')]"
    click(browser, By.XPATH, listed, "the request is not in the list")
    drawn = "return document.querySelector('img[alt^=\"Bytes on disk\"]')?.naturalWidth > 0"
    WebDriverWait(browser, PATIENCE_SECONDS).until(lambda seen: seen.execute_script(drawn), "the picture is not shown")
    for width, height, dark in (*VIEWS[2:], *VIEWS[:2]):
        look_as(browser, width, height=height, dark=dark)
        button = wait_for(browser, f'[data-testid="hitl-option-{options[0]}"]')
        assert button.text == options[0]
        keep_picture(browser, f"approval-{width}{'-dark' if dark else ''}")
    throttle = browser.find_element(By.CSS_SELECTOR, 'input[name="element_throttle_bytes_per_second"]')
    throttle.send_keys(Keys.CONTROL, "a")
    throttle.send_keys(str(SLOW))
    button.send_keys(Keys.ENTER)
    run.wait(lambda: run.tasks()["approve"] == "success", timeout=60, what="the answer counts")

    # From here on the tab is left alone: it shows by itself what comes.
    browser.get(tab)
    enter_frame(browser)
    wait_for_text(browser, "was started and is not verified yet", seconds=120)
    during = wait_for_text(browser, "Bytes copied: ")
    assert "by uma" in during
    check_page(browser, "tab-during")
    after = wait_for_text(browser, "Done and verified", seconds=240)
    assert run.wait_for_end(timeout=60) == "success", run.failures()
    assert "Predicted and actual" in after
    assert "kafka_spark" in after
    assert "orders" in (browser.find_element(By.TAG_NAME, "main").get_attribute("textContent") or "")
    check_page(browser, "tab-after")

    decision = json.loads((run.folder() / "decision.json").read_text())
    assert (decision["approved_by"]["id"], decision["throttle_bytes_per_second"]) == ("uma", SLOW)
    verification = json.loads((run.folder() / "verification.json").read_text())
    assert verification["passed"] is True
    assert {"replicas", "in_sync", "leader", "throttle", "segment_settings_sound"} <= {
        check["name"] for check in verification["checks"]
    }
    tree = read_zookeeper()
    assert not [path for path, (content, _) in tree.items() if b"throttled" in content]
    assert "/admin/reassign_partitions" not in tree
    assert "/kafka_rebalance/run" not in tree


def test_from_the_menu_to_the_fleet_and_from_a_cluster_to_its_run(
    airflow: LocalAirflow, browser: Chrome, nightly: DagRun
) -> None:
    assert nightly.wait_for_end() == "success", nightly.failures()
    (started,) = started_by_the_check(nightly)
    proposed = DagRun(nightly.client, "kafka_rebalance", started["dag_run_id"])
    proposed.wait(lambda: proposed.tasks()["render_report"] == "success", timeout=240, what="the proposal is there")
    log_in(browser, airflow.url, "uma")
    by_text = "//button[normalize-space(.)='Browse' or @aria-label='Browse']"
    click(browser, By.XPATH, by_text, "there is no menu Browse")
    click(browser, By.XPATH, "//a[contains(@href, 'kafka-balance')]", "the menu has no fleet")
    enter_frame(browser)
    wait_for_text(browser, "kafka_nightly")
    check_page(browser, "fleet")
    link = browser.find_element(By.CSS_SELECTOR, 'tr:first-child > td a[href*="/kafka-rebalance/run/kafka_rebalance/"]')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", link)
    link.click()
    wait_for_text(browser, "Candidates")
    assert browser.find_element(By.TAG_NAME, "h1").text == "kafka_nightly"
