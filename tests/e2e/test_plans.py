"""A pasted plan in Airflow's web interface: shown beside ours, and every candidate saved from the run's tab."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from demo.local_airflow import LocalAirflow
from demo.runs import trigger
from kafka_rebalance.kafka.reassignment_json import format_reassignment, parse_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.partition import TopicPartition
from support.airflow.browser import PATIENCE_SECONDS, keep_picture, log_in

TOPIC = "as-discussed"  # of its own: what other tests of this folder have moved does not show in it
ASKED = {TopicPartition(TOPIC, 0): (4, 3), TopicPartition(TOPIC, 1): (1, 4)}
NOW = {TopicPartition(TOPIC, 0): (2, 3), TopicPartition(TOPIC, 1): (1, 2)}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


@pytest.mark.long
def test_a_pasted_plan_is_offered_and_saved_with_its_way_back_from_the_runs_tab(
    airflow: LocalAirflow,
    cluster: LocalCluster,
    requester: httpx.Client,
    approver: httpx.Client,
    browser: Chrome,
    tmp_path: Path,
) -> None:
    cluster.create_topic(TOPIC, {partition: replicas for (_, partition), replicas in NOW.items()})
    conf = {"kafka_conn_id": "kafka_local", "plan": format_reassignment(ASKED), "candidates": ["light", "as_kafka"]}
    run = trigger(requester, "kafka_rebalance", conf | {"reason": "as discussed on Monday"})
    request = run.wait_for_request()
    assert {option.split(" · ")[0] for option in request["options"]} == {"light", "as_kafka", "given", "Reject"}

    log_in(browser, airflow.url, "uma")
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.get(f"{airflow.url}{run.page}/plugin/rebalance")
    patience = WebDriverWait(browser, PATIENCE_SECONDS)
    # Airflow puts the page into a sandboxed frame: whether a link may save a file is the frame's to say.
    browser.switch_to.frame(patience.until(lambda seen: seen.find_element(By.TAG_NAME, "iframe")))
    given = "a[download][href*='/given']"
    links = patience.until(lambda seen: seen.find_elements(By.CSS_SELECTOR, given))
    browser.find_element(By.XPATH, "//summary[h2='Candidates side by side']").click()
    assert [link.text for link in links] == ["Kafka JSON", "way back"]
    for link in links:
        browser.execute_script("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", link)
        link.click()
    saved = {"kafka_local-given.json": ASKED, "kafka_local-given-rollback.json": NOW}
    patience.until(lambda _: all((tmp_path / name).exists() for name in saved), "the files are not saved")
    assert {name: parse_reassignment((tmp_path / name).read_text()) for name in saved} == saved
    keep_picture(browser, "plan-desktop")

    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.get(f"{airflow.url}/kafka-rebalance/run/kafka_rebalance/{quote(run.run_id, safe='')}")
    link = patience.until(lambda seen: seen.find_element(By.CSS_SELECTOR, "a[download]"))
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", link)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE["width"]
    keep_picture(browser, "plan-phone")

    run.seen_by(approver).answer("Reject", throttle_bytes_per_second=20_000_000).raise_for_status()
    assert run.wait_for_end() == "success", run.failures()
