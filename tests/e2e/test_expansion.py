"""A topic gets more partitions: its real keys and consumers are looked at, a person approves by a click, it is done."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from selenium.webdriver import Chrome

from demo.local_airflow import LocalAirflow
from demo.runs import trigger
from kafka_rebalance.local_cluster import LocalCluster
from support.airflow.browser import keep_picture, log_in, wait_for

TOPIC, GROUP = "payments.by-customer", "billing"
ROWS, HEAVY_ROWS = 10_000, 4_100


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> Iterator[str]:
    """Three partitions with one key in 41 % of its records, and a group of two members that reads it."""
    cluster.create_topic(TOPIC, {0: (1, 2), 1: (2, 3), 2: (3, 4)})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})
    for number in range(ROWS):
        producer.produce(TOPIC, key=b"customer-1" if number < HEAVY_ROWS else f"customer-{number}".encode(), value=b"x")
        producer.poll(0)
    assert producer.flush(60) == 0
    ended = threading.Event()

    def read() -> None:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "client.id": "reader"})
        consumer.subscribe([TOPIC])
        while not ended.is_set():
            consumer.poll(0.2)
        consumer.close()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    yield TOPIC
    ended.set()
    for reader in readers:
        reader.join()


@pytest.mark.long
def test_an_expansion_is_approved_by_a_click_with_its_effect_on_keys_and_consumers_in_view(
    airflow: LocalAirflow, requester: httpx.Client, browser: Chrome, topic: str
) -> None:
    asked = {"action": "alter", "topic": topic, "partitions": 6, "reason": "more consumers"}
    run = trigger(requester, "kafka_topics", {"kafka_conn_id": "kafka_spark", **asked})
    log_in(browser, airflow.url, "uma")
    request = run.wait_for_request(timeout=240)
    assert run.tasks()["sample_keys"] == "success", run.log("sample_keys")[-3000:]
    for words in (
        "3 to 6 partitions",
        "50 % of all keys change their partition",
        "1 key = 41 % of the sampled rows: no number of partitions and no rebalance fixes this",
        f"group {GROUP}: 2 members, range",
    ):
        assert words in request["body"]
    (option, reject) = request["options"]
    assert reject == "Reject"

    browser.get(f"{airflow.url}{run.page}/tasks/approve/required_actions")
    button = wait_for(browser, f'[data-testid="hitl-option-{option}"]')
    keep_picture(browser, "expansion")
    button.click()
    assert run.wait_for_end(timeout=120) == "success", run.failures()
    folder = run.folder("request")
    assert json.loads((folder / "verification.json").read_text())["passed"] is True
    assert json.loads((folder / "decision.json").read_text())["approved_by"]["id"] == "uma"
    described = trigger(
        requester, "kafka_topics", {"kafka_conn_id": "kafka_spark", "action": "describe", "topic": topic}
    )
    assert described.wait_for_end(timeout=120) == "success", described.failures()
    (entry,) = json.loads((described.folder("request") / "topics.json").read_text())["topics"]
    assert entry["partition_count"] == 6
    assert entry["unavailable"] == 0
