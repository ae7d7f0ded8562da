"""LocalCluster without ZooKeeper, on real brokers and controllers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kafka_rebalance.local_cluster import LocalCluster, LocalClusterError, kraft_mode
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS
from support.kafka.on_versions import NEWEST_WITHOUT_ZOOKEEPER
from support.waiting import wait


def live(cluster: LocalCluster) -> set[int]:
    """As a client sees them, through the brokers that run."""
    running = [broker for broker in sorted(cluster.brokers) if cluster.is_running(broker)]
    addresses = cluster.bootstrap_servers.split(",")
    servers = ",".join(addresses[sorted(cluster.brokers).index(broker)] for broker in running)
    admin = AdminClient({"bootstrap.servers": servers, "broker.address.family": "v4", "log_level": 0})
    return set(admin.list_topics(timeout=10).brokers)


def replicas(cluster: LocalCluster, topic: str) -> dict[int, list[int]]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "broker.address.family": "v4", "log_level": 0})
    return {number: found.replicas for number, found in admin.list_topics(topic).topics[topic].partitions.items()}


@pytest.mark.parametrize("version", NEWEST_WITHOUT_ZOOKEEPER)
def test_brokers_of_a_kraft_cluster_are_added_stopped_and_started_again(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One id in 64 begins so, and must not be taken for an option.
    monkeypatch.setattr(kraft_mode, "_new_cluster_id", lambda: "-bCdEfGhIjKlMnOpQrStUw")
    folder = tmp_path / "cluster"
    with LocalCluster(version, brokers=2, racks=2, kraft=True, folder=folder) as cluster:
        cluster.create_topic("orders", {0: (2, 1), 1: (1, 2)}, config={"segment.bytes": 1_048_576})
        wait("the lists are as asked", lambda: replicas(cluster, "orders") == {0: [2, 1], 1: [1, 2]})
        cluster.produce("orders", {0: 3_000_000, 1: 5})
        assert len(list((folder / "data-2" / "orders-0").glob("*.log"))) >= 3, "the topic's own config was not taken"
        assert cluster.add_broker() == 3
        # Each broker hears of the others a moment later.
        wait("all know broker 3", lambda: live(cluster) == {1, 2, 3})
        cluster.stop_broker(3)
        wait("all know that broker 3 has left", lambda: live(cluster) == {1, 2})
        cluster.start_broker(3)
        wait("all know broker 3 again", lambda: live(cluster) == {1, 2, 3})
        with pytest.raises(LocalClusterError, match="has no ZooKeeper"):
            cluster.kill_zookeeper()
    assert (folder / "kafka.log").stat().st_size > 0, "the servers log nothing"


@pytest.mark.long
def test_brokers_and_controllers_of_separate_jvms_are_killed_and_come_back() -> None:
    with LocalCluster(KRAFT_VERSIONS[0], brokers=2, racks=0, kraft=True, controllers=1, one_jvm=False) as cluster:
        cluster.create_topic("orders", {0: (2, 1)})
        cluster.kill_broker(2)
        cluster.start_broker(2)
        wait("all know broker 2 again", lambda: live(cluster) == {1, 2})
        cluster.kill_controller(101)
        cluster.start_controller(101)
        cluster.create_topic("later", {0: (1, 2)})
        wait("the list is as asked", lambda: replicas(cluster, "later") == {0: [1, 2]})


@pytest.mark.parametrize(
    "asked",
    [
        {"version": "2.8.2", "kraft": True},
        {"version": "3.9.2", "controllers": 3},
        {"version": "4.4.0", "zookeepers": 3, "one_jvm": False},
    ],
)
def test_a_mode_that_a_version_does_not_have_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(LocalClusterError, match=r"cannot have .* Nothing was started\. KRaft runs with"):
        LocalCluster(**asked)
