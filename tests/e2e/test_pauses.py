"""In Airflow's own tab: a run that pauses between two openings of its window, and that then ends not as approved."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from kazoo.client import KazooClient
from selenium.webdriver import Chrome

from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, trigger
from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.security.server_security import ServerSecurity
from kafka_rebalance.model.partition import TopicPartition
from support.airflow.browser import check_page, enter_frame, log_in, wait_for_text

pytestmark = pytest.mark.long  # what a tab says is looked at in tests/workflow/pages too

TOPIC = "of-the-night"
# Both replicas of the first are in one rack, so it comes first. It is empty: its batch ends at once at any rate.
FIRST, LARGE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
BEFORE = {FIRST: (1, 4), LARGE: (1, 2)}
ELSEWHERE = [2, 4]  # where somebody moves the first by hand, once it is in place
ASKED = {FIRST: (2, 3), LARGE: (3, 4)}
LARGE_BYTES, RATE = 8_000_000, 1000  # bytes, and bytes a second: more than two hours
REASSIGN = "/admin/reassign_partitions"
LEFT = timedelta(hours=1)  # of today's opening. The large partition has room in that of tomorrow


@pytest.fixture(scope="module")
def paused(airflow: LocalAirflow, cluster: LocalCluster, requester: httpx.Client) -> DagRun:
    """A run of two batches, of which the second has no room in what is left of today's opening."""
    now = datetime.now(UTC)
    window = f"daily {now - timedelta(hours=12):%H:%M}-{now + LEFT:%H:%M} UTC"
    policy = (airflow.home / "policies" / "kafka_windows.yaml").read_text()
    airflow.write_policy("kafka_windows", f"{policy}windows: ['{window}']\n")
    cluster.create_topic(TOPIC, {one.partition: replicas for one, replicas in BEFORE.items()})
    cluster.produce(TOPIC, {LARGE.partition: LARGE_BYTES})
    asked = {"kafka_conn_id": "kafka_windows", "plan": format_reassignment(ASKED), "candidates": []}
    return trigger(requester, "kafka_rebalance", asked | {"reason": "the nights only"})


def test_a_run_that_pauses_says_in_its_tab_until_when(
    airflow: LocalAirflow, paused: DagRun, approver: httpx.Client, browser: Chrome
) -> None:
    (option, _) = paused.wait_for_request()["options"]
    paused.seen_by(approver).answer(option, throttle_bytes_per_second=RATE).raise_for_status()
    log_in(browser, airflow.url, "uma")
    browser.get(f"{airflow.url}{paused.page}/plugin/rebalance")
    enter_frame(browser)
    said = wait_for_text(browser, "Approved and started; pauses until ", seconds=120)
    assert "Partitions in place: 1 of 2" in said
    check_page(browser, "tab-paused")
    assert paused.tasks()["reassign"] == "deferred"


def test_a_verification_that_failed_says_in_the_tab_what_is_not_as_approved(
    airflow: LocalAirflow, paused: DagRun, requester: httpx.Client, browser: Chrome, cluster: LocalCluster,
    security: ServerSecurity,
) -> None:  # fmt: skip
    """Somebody moves the finished partition by hand while the run pauses, and somebody else stops the run."""
    client = KazooClient(cluster.zookeeper, **security.kazoo_options)
    client.start()
    try:
        elsewhere = {"topic": TOPIC, "partition": FIRST.partition, "replicas": ELSEWHERE}
        client.create(REASSIGN, json.dumps({"version": 1, "partitions": [elsewhere]}).encode())
        paused.wait(lambda: not client.exists(REASSIGN), timeout=60, what="somebody has moved it elsewhere")
    finally:
        client.stop()
        client.close()
    trigger(requester, "kafka_rebalance_cancel", {"kafka_conn_id": "kafka_windows", "action": "stop_after_batch"})
    assert paused.wait_for_end(timeout=120) == "failed"
    assert json.loads((paused.folder() / "verification.json").read_text())["passed"] is False
    log_in(browser, airflow.url, "uma")
    browser.get(f"{airflow.url}{paused.page}/plugin/rebalance")
    enter_frame(browser)
    said = wait_for_text(browser, "Verification")
    for words in (
        "Stopped: 1 of 2 approved moves was not made",
        "No further batch was requested, as olive at ",
        "2 moves are not in place",
        f"replicas {ELSEWHERE}",
    ):
        assert words in said, words
    assert "The ledger says that it is not verified." in paused.log("record")
    check_page(browser, "tab-failed")
