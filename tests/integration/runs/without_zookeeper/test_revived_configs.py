"""A broker that restarts shows the configs of a topic that was deleted and made again: Kafka's own error.

It reads the metadata from the start, and the configs of a topic outlive its deletion if both come in one delta
(ConfigurationsDelta.replay of a RemoveTopicRecord, since KAFKA-16206). The controllers know better, other brokers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.throttle.janitor import look_after_cluster
from support.kafka.on_versions import WITHOUT_ZOOKEEPER
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

pytestmark = pytest.mark.long
LIST, ENTRY = "leader.replication.throttled.replicas", "0:1"


@pytest.fixture(params=WITHOUT_ZOOKEEPER)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Nobody else can be asked than the broker that restarts."""
    with LocalCluster(request.param, brokers=1, racks=0, kraft=True, controllers=1) as running:
        yield running


def test_a_throttle_that_came_back_with_a_restart_is_found_and_cleaning_takes_it_off(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = WatchedCluster(cluster)
    InProcessRun(tmp_path, cluster, monkeypatch)
    Airflow.answering(monkeypatch)
    monkeypatch.setattr(look_after_cluster, "SWEEP_SECONDS", 0)
    cluster.create_topic("again", {0: (1,)})
    with kafka._client() as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "again", {LIST: ENTRY})])
    kafka.delete("again")
    cluster.create_topic("again", {0: (1,)})
    assert kafka.throttles() == {}
    cluster.stop_broker(1)
    cluster.start_broker(1)
    wait("the broker shows the list again", lambda: kafka.throttles() == {"topics/again": {LIST: ENTRY}})
    (found,) = tend()["findings"]
    assert found["can_be_cleaned"]
    tend(by="uma", clean=[found["id"]])
    wait("it is gone for good", lambda: kafka.throttles() == {})
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert kafka.throttles() == {}
