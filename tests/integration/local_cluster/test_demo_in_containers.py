"""What the service `demo` of docker-compose.yaml does to a cluster, and the healthchecks of ZooKeeper and brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from demo.in_containers import fill
from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.machine.ports import free_port
from kafka_rebalance.model.connection import KafkaConnection
from support.compose import BROKERS, is_healthy

DATA_BYTES = 20_000_000
ZOOKEEPER, BROKER = "/dev/tcp/localhost/2181", "/dev/tcp/localhost/9092"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """As many brokers and racks as the containers have."""
    with LocalCluster(brokers=len(BROKERS), racks=2) as running:
        yield running


def replica_bytes(cluster: LocalCluster) -> Counter[int]:
    """By broker."""
    disks = read_log_dirs(KafkaConnection(cluster.bootstrap_servers), sorted(cluster.brokers))
    found: Counter[int] = Counter()
    for sizes in disks.replicas.values():
        found.update(sizes)
    return found


def test_the_healthchecks_of_zookeeper_and_brokers_tell_the_truth(cluster: LocalCluster) -> None:
    first_broker = cluster.bootstrap_servers.split(",")[0]
    zookeeper_port, broker_port = (address.rpartition(":")[2] for address in (cluster.zookeeper, first_broker))
    nobody = free_port()
    for service, container, port in (("zookeeper", ZOOKEEPER, zookeeper_port), ("broker-1", BROKER, broker_port)):
        assert is_healthy(service, {container: f"/dev/tcp/127.0.0.1/{port}"})
        assert not is_healthy(service, {container: f"/dev/tcp/127.0.0.1/{nobody}"})
    assert not is_healthy("zookeeper", {ZOOKEEPER: f"/dev/tcp/127.0.0.1/{broker_port}"}), "a broker is no ZooKeeper"


def test_the_demo_fills_all_brokers_but_the_newest_and_does_so_once(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster.bootstrap_servers, DATA_BYTES)
    held = replica_bytes(cluster)
    assert held[4] == 0
    assert held[1] > held[3] > 0
    assert DATA_BYTES <= held.total() <= DATA_BYTES * 1.03
    assert "producing skewed data on brokers 1, 2, 3" in capsys.readouterr().out
    fill(cluster.bootstrap_servers, DATA_BYTES)
    assert "Nothing was produced" in capsys.readouterr().out
    assert replica_bytes(cluster) == held
