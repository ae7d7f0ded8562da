"""One live broker does not answer this host. What any broker can answer is asked of another one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kafka_rebalance.admin.cluster_lock import TopicLock
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.on_versions import NEWEST_WITHOUT_ZOOKEEPER
from support.waiting import wait

ONE = LockOwner("kafka_rebalance/one", "d" * 64, "airflow (a1)", "2026-11-23T00:00:00+00:00")
BETWEEN_BROKERS = {
    "listeners": "{was},INTERNAL://127.0.0.1:{port+1}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


@pytest.fixture(scope="module", params=NEWEST_WITHOUT_ZOOKEEPER)
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaConnection]:
    """Broker 4 lives, and tells clients an address where nobody answers."""
    config = BETWEEN_BROKERS
    with (
        socket.create_server(("127.0.0.1", 0), backlog=50) as deaf,
        LocalCluster(request.param, brokers=3, racks=0, kraft=True, controllers=1, broker_config=config) as cluster,
    ):
        found = KafkaConnection(cluster.bootstrap_servers)
        with open_wire(found) as wire, TopicLock(found, wire) as lock:
            lock.make_ready([])
        cluster.create_topic("orders", {0: (1, 2), 1: (2, 3)})
        told = f"PLAINTEXT://127.0.0.1:{deaf.getsockname()[1]},INTERNAL://127.0.0.1:{{port+1}}"
        cluster.add_broker(config={**config, "advertised.listeners": told})
        yield found


def test_the_lock_is_taken_and_given_back_beside_a_broker_that_does_not_answer(kafka: KafkaConnection) -> None:
    with open_wire(kafka) as wire, TopicLock(kafka, wire) as lock:
        assert lock.read() is None
        fence = lock.acquire(ONE)
        assert lock.read() == ONE
        assert lock.raise_held(ONE).generation > fence.generation
        assert lock.release(ONE) is True


def test_moves_are_cancelled_beside_a_broker_that_does_not_answer(kafka: KafkaConnection) -> None:
    with open_cluster(ClusterConnection("kafka_test", None, kafka)) as cluster:
        assert set(cluster.read_view().brokers) == {1, 2, 3, 4}
        assert not cluster.cancel_moves([TopicPartition("orders", 0)])
        cluster.lock.raise_fence()
        wait("nothing moves", lambda: not cluster.has_request())
