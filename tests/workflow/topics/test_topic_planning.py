"""What `kafka_topics` makes of a request: what it refuses, and what it notes, on a cluster written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks
from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.topics.plan import PlannedTopic, plan_change
from kafka_rebalance.topics.read import TopicCluster
from kafka_rebalance.topics.rules import TopicRequest
from support.documents.segment_configs import KAFKAS_DEFAULTS
from support.kafka.small_clusters import partition, view

KEY = "min.insync.replicas"


def planned(
    folder: Path,
    lists: list[list[int]],
    least: dict[int, str],
    *,
    pools: Sequence[Mapping[str, object]] = (),
    configs: Mapping[str, str] | None = None,
    **asked: object,
) -> PlannedTopic | None:
    """What altering topic `orders` of these lists gives; `least` is each broker's own min.insync.replicas."""
    cluster = TopicCluster(
        view=view(
            {f"orders-{number}": partition(replicas) for number, replicas in enumerate(lists)}, brokers=[1, 2, 3]
        ),
        topic_configs={"orders": configs or {}},
        effective={
            broker: {
                key: ConfigValue(value, "DEFAULT_CONFIG")
                for key, value in {**KAFKAS_DEFAULTS, "inter.broker.protocol.version": "3.9-IV0", KEY: value}.items()
            }
            for broker, value in least.items()
        },
        disks=BrokerDisks({}, {}),
    )
    connection = ClusterConnection("kafka_test", ZooKeeperConnection("zk:2181"), KafkaConnection("b:9092"))
    policy = Policy.from_mapping({"approvers": ["uma"], "broker_pools": list(pools)}, "test")
    request = TopicRequest.from_params({"action": "alter", "topic": "orders", **asked})
    return plan_change(request, cluster, connection, policy, folder)


def test_min_insync_replicas_is_held_against_the_shortest_list_of_the_topic(tmp_path: Path) -> None:
    lists = [[1, 2, 3], [1, 2]]
    with pytest.raises(PolicyError, match=r"min\.insync\.replicas 2 with replication factor 2"):
        planned(tmp_path, lists, dict.fromkeys((1, 2, 3), "1"), config=[f"{KEY}=2"])
    assert planned(tmp_path, [[1, 2, 3]] * 2, dict.fromkeys((1, 2, 3), "1"), config=[f"{KEY}=2"]) is not None


@pytest.mark.parametrize(
    ("configs", "on_disk", "in_all"),
    [
        ({"retention.bytes": "9000", "local.retention.bytes": "500"}, 500, 9000),
        ({"retention.ms": "9000", "local.retention.ms": "500"}, 500, 9000),  # 1,000 bytes a second for each partition
    ],
)
def test_new_partitions_of_a_tiered_topic_cost_what_the_disks_keep(
    tmp_path: Path, configs: dict[str, str], on_disk: int, in_all: int
) -> None:
    (tmp_path / "snapshot").mkdir()
    least = dict.fromkeys((1, 2, 3), "1")
    for tiered, replica_bytes in (("true", on_disk), ("false", in_all)):
        set_so = {**configs, "remote.storage.enable": tiered}
        found = planned(tmp_path, [[1]], least, configs=set_so, partitions=2, bytes_in_per_second=2000)
        assert found is not None
        assert found.replica_bytes == replica_bytes


def test_an_expansion_of_a_topic_below_the_highest_min_insync_replicas_of_a_broker_is_noted(tmp_path: Path) -> None:
    found = planned(tmp_path, [[1]], {1: "1", 2: "2", 3: "1"}, partitions=2, assignment="kafka")
    assert found is not None
    assert any("min.insync.replicas 2 is above the replication factor 1" in note for note in found.notes)
    found = planned(tmp_path, [[1]], dict.fromkeys((1, 2, 3), "1"), partitions=2, assignment="kafka")
    assert found is not None
    assert not any(KEY in note for note in found.notes)


@pytest.mark.parametrize("assignment", ["kafka", "room"])
def test_new_partitions_go_to_the_brokers_of_the_topics_pool(tmp_path: Path, assignment: str) -> None:
    (tmp_path / "snapshot").mkdir()  # as the run's folder makes it
    pools = [{"topics": ["ord*"], "brokers": [2, 3]}]
    least = dict.fromkeys((1, 2, 3), "1")
    found = planned(tmp_path, [[2, 3]], least, pools=pools, partitions=6, assignment=assignment)
    assert found is not None
    assert [set(replicas) for replicas in found.change.new_partitions.values()] == [{2, 3}] * 5
    rest = [{"topics": ["audit"], "brokers": [2]}]
    found = planned(tmp_path, [[1, 3]], least, pools=rest, partitions=6, assignment=assignment)
    assert found is not None
    assert [set(replicas) for replicas in found.change.new_partitions.values()] == [{1, 3}] * 5
