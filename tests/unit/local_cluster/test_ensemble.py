"""Several ZooKeepers as one: what each is told of the others, and where they cannot be had."""

from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.local_cluster import LocalCluster, LocalClusterError
from kafka_rebalance.local_cluster.jvms.server_settings import Peer, zookeeper_properties


def test_every_server_is_told_of_all_and_a_single_one_of_none() -> None:
    ensemble = {1: Peer(21_001, 21_002), 2: Peer(21_003, 21_004), 3: Peer(21_005, 21_006)}
    lines = zookeeper_properties(Path("data"), 20_001, ensemble).splitlines()
    assert "clientPort=20001" in lines
    assert [line for line in lines if line.startswith("server.")] == [
        "server.1=127.0.0.1:21001:21002",
        "server.2=127.0.0.1:21003:21004",
        "server.3=127.0.0.1:21005:21006",
    ]
    assert "server." not in zookeeper_properties(Path("data"), 20_001)


@pytest.mark.parametrize("options", [{}, {"one_jvm": False, "detached": True}])
def test_an_ensemble_that_would_share_a_jvm_or_outlive_its_process_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(
        LocalClusterError, match=r"Nothing was started\. Ask for 1 ZooKeeper, or for more with one_jvm=False"
    ):
        LocalCluster(zookeepers=3, **options)


def test_no_zookeeper_is_no_cluster() -> None:
    with pytest.raises(LocalClusterError, match="cannot have 0 ZooKeepers"):
        LocalCluster(zookeepers=0)
