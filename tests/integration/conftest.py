"""Real clusters for the tests of this folder: one a Kafka version, started when first asked for."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.zookeeper.client import open_client
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.on_versions import OLDEST_AND_NEWEST


@pytest.fixture(scope="session", params=OLDEST_AND_NEWEST)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Four brokers in three racks, shared by all tests of a version: take fresh topics, leave no broker stopped.

    A quorum has a node of its own, so that brokers can stop. pytest groups tests by this parameter, so that one
    version's cluster has ended when the next one starts.
    """
    version, _, kraft = request.param.partition("-")
    with LocalCluster(version, brokers=4, racks=3, kraft=bool(kraft), controllers=int(bool(kraft))) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[KazooClient]:
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as opened:
        yield opened


@pytest.fixture(scope="session")
def classes_of() -> Iterator[Callable[[str], KafkaClasses]]:
    """Kafka's own classes of a version, in a JVM that all tests of that version share."""
    with ExitStack() as stack:
        yield cache(lambda version: stack.enter_context(KafkaClasses(version)))


@pytest.fixture(scope="session", params=OLDEST_AND_NEWEST)
def kafka_classes(request: pytest.FixtureRequest, classes_of: Callable[[str], KafkaClasses]) -> KafkaClasses:
    """Of each version."""
    return classes_of(request.param)


@pytest.fixture(scope="session")
def fresh_topic_name() -> Callable[[], str]:
    """Gives a topic name that no other test of this session has."""
    numbers = itertools.count(1)
    return lambda: f"topic-{next(numbers)}"
