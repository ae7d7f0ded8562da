"""Throttled, silent and refused are three things: what a quota on the Kafka user does to this program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClusterRequest

from kafka_rebalance.admin.clients import CLIENT_ID
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from support.kafka.on_versions import NEWEST_WITHOUT_ZOOKEEPER
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster

MB = 1_000_000


@pytest.fixture(scope="module", params=NEWEST_WITHOUT_ZOOKEEPER)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(request.param, brokers=3, racks=0, kraft=True, controllers=1) as running:
        running.create_topic("orders", {0: (1, 2), 1: (2, 1)})
        running.produce("orders", dict.fromkeys(range(2), MB))
        yield running


@pytest.fixture
def throttled(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[None]:
    limit(cluster, request.param)
    yield
    limit(cluster, None)


def limit(cluster: LocalCluster, percentage: float | None) -> None:
    """`request_percentage`: the share of a thread's time that our clients may take of each broker."""
    entry = AlterClientQuotasRequest.EntryData
    client_id = entry.EntityData(entity_type="client-id", entity_name=CLIENT_ID)
    op = entry.OpData(key="request_percentage", value=percentage or 0.0, remove=percentage is None)
    request = AlterClientQuotasRequest(entries=[entry(entity=[client_id], ops=[op])], validate_only=False)
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","), client_id="another")
    answer = client._manager.run(client._manager.send, request)
    assert not answer.entries[0].error_code, answer
    client.close()


@pytest.mark.parametrize("throttled", [0.1], indirect=True)
@pytest.mark.usefixtures("throttled")
def test_a_broker_that_holds_our_user_back_is_asked_again_when_the_time_is_over(cluster: LocalCluster) -> None:
    held_back = 0
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
        for _ in range(1000):
            answer = wire.read(DescribeClusterRequest(), 1, repeat_seconds=0)
            held_back += answer.throttle_time_ms > 0
            if held_back == 3:
                break
    assert held_back, "the quota holds nobody back, so this test would show nothing"


@pytest.mark.parametrize("throttled", [3.0, pytest.param(1.0, marks=pytest.mark.long)], indirect=True)
@pytest.mark.usefixtures("throttled")
def test_a_run_whose_user_is_held_back_by_a_quota_comes_to_its_end(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = InProcessRun(tmp_path, cluster, monkeypatch, "slow")
    run.plan_lists("orders", {0: (3, 2)})
    assert run.carry_out("given")["passed"]
    kafka = WatchedCluster(cluster)
    assert kafka.lists("orders")[0] == (3, 2)
    assert kafka.leftovers() == []
    with open_cluster(kafka.connection) as opened:
        assert opened.lock.read() is None
