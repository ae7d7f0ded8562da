"""A client of a cluster, and a topic of its own for each test."""

from collections.abc import Callable, Iterator

import pytest

from kafka_rebalance.admin.wire import Wire, open_wire
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection


@pytest.fixture(scope="module")
def wire(cluster: LocalCluster) -> Iterator[Wire]:
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as opened:
        yield opened


@pytest.fixture
def kafka(cluster: LocalCluster) -> KafkaConnection:
    return KafkaConnection(cluster.bootstrap_servers)


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> str:
    name = fresh_topic_name()
    cluster.create_topic(name, {0: (1, 2), 1: (2, 1)})
    return name
