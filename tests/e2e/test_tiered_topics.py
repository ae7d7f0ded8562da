"""A topic of which most lies in remote storage (KIP-405), as a person moves it: through the Dag of a real Airflow."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from demo.local_airflow import LocalAirflow
from demo.runs import trigger, wait_for_dag
from kafka_rebalance.local_cluster import LocalCluster
from support.kafka.tiered import (
    RECORDS,
    SEGMENT_BYTES,
    TOPIC,
    TWO_OF_THREE,
    make_tiered_topic,
    read_from_the_start,
    sizes,
    tiered_brokers,
)
from support.runs.watched_cluster import WatchedCluster

pytestmark = pytest.mark.long
CONNECTION = "kafka_tiered"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with tiered_brokers(tmp_path_factory.mktemp("remote"), kraft=True) as running:
        make_tiered_topic(running)
        yield running


@pytest.fixture
def airflow(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    connection = {"conn_type": "kafka_admin_api", "host": cluster.bootstrap_servers}
    running = LocalAirflow(tmp_path_factory.mktemp("airflow"), connections={CONNECTION: connection})
    running.write_policy(CONNECTION, "approvers: [uma]\nmax_bytes_share: 0.9\n")
    with running:
        yield running


def test_a_new_broker_gets_local_bytes_alone_and_no_record_is_lost(
    airflow: LocalAirflow, cluster: LocalCluster
) -> None:
    client = airflow.login("olive")
    wait_for_dag(client, "kafka_rebalance")
    asked = {"kafka_conn_id": CONNECTION, "reason": "a test", "topics_in": [TOPIC], "candidates": ["balanced"]}
    run = trigger(client, "kafka_rebalance", asked)
    request = run.wait_for_request(timeout=400)
    assert "of its records in remote storage alone" in (run.folder() / "report.html").read_text()
    (option,) = [one for one in request["options"] if one.startswith("balanced · ")]
    before = sizes(cluster)
    approver = run.seen_by(airflow.login("uma"))
    approver.answer(option, throttle_bytes_per_second=20_000_000, note="a test").raise_for_status()
    assert run.wait_for_end(timeout=400) == "success", run.failures()
    after = sizes(cluster)
    held = {number: set(replicas) for number, replicas in WatchedCluster(cluster).lists(TOPIC).items()}
    assert held == {number: {broker for partition, broker in after if partition == number} for number in TWO_OF_THREE}
    arrived = {partition: size for (partition, broker), size in after.items() if broker == 3}
    assert len(arrived) in (2, 3), "of eight replicas on three brokers"
    assert arrived == {partition: before[partition, TWO_OF_THREE[partition][0]] for partition in arrived}
    assert max(after.values()) <= SEGMENT_BYTES
    assert json.loads((run.folder() / "verification.json").read_text())["passed"] is True
    assert WatchedCluster(cluster).leftovers() == []
    assert read_from_the_start(cluster) == dict.fromkeys(TWO_OF_THREE, RECORDS)
