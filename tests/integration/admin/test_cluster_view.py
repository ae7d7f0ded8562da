"""What is read of a cluster through Kafka's Admin API, held against ZooKeeper, and against brokers without it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
)
from confluent_kafka.admin import ResourceType as AclResource
from kafka import TopicPartition as KafkaTopicPartition

from kafka_rebalance.admin import cluster_view, quorum
from kafka_rebalance.admin.clients import open_kafka_python
from kafka_rebalance.admin.cluster_view import read_batch_view, read_moves, read_topic_ids, read_view, read_view_again
from kafka_rebalance.admin.configs import read_broker_configs, read_topic_configs
from kafka_rebalance.admin.offsets import read_local_starts
from kafka_rebalance.admin.quorum import Quorum
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.errors import ConnectionSettingsError, RebalanceError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run import snapshot_reader
from kafka_rebalance.run.snapshot_reader import read_snapshot
from kafka_rebalance.zookeeper import reader
from kafka_rebalance.zookeeper.client import open_client
from support.kafka.on_versions import WITHOUT_ZOOKEEPER
from support.kafka.permissions import (
    AS_READER,
    CLUSTER,
    EVERY_RULE,
    WITH_A_READER,
    client_servers,
    forbid,
    permission,
    permit,
)
from support.waiting import wait

WITHOUT_DESCRIBE_CLUSTER_REQUEST = "2.0.1"  # it came with 2.8 (KIP-700)
PERMISSIONS = {
    "Describe on all topics": permission(AclResource.TOPIC, "*", AclOperation.DESCRIBE),
    "DescribeConfigs on all topics": permission(AclResource.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS),
    "Describe on the cluster": permission(*CLUSTER, AclOperation.DESCRIBE),
    "DescribeConfigs on the cluster": permission(*CLUSTER, AclOperation.DESCRIBE_CONFIGS),
}


def view_of(cluster: LocalCluster) -> ClusterView:
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
        return read_view(wire)


# --- held against ZooKeeper ---


def test_partitions_and_configs_are_those_of_zookeeper(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if cluster.version == WITHOUT_DESCRIBE_CLUSTER_REQUEST:
        pytest.skip("the Admin API is read from Kafka 3.9 on, and compared from 2.8 on")
    topics = [fresh_topic_name(), fresh_topic_name()]
    cluster.create_topic(
        topics[0], {0: (2, 1, 4), 1: (3, 2, 1)}, config={"retention.ms": "5000", "segment.bytes": "9999"}
    )
    cluster.create_topic(topics[1], {0: (4,)})
    for room in (quorum, cluster_view):  # there is none
        monkeypatch.setattr(room, "find_quorum", lambda wire: Quorum(1, 1, frozenset({1}), {}))
    kafka, zookeeper = KafkaConnection(cluster.bootstrap_servers), ZooKeeperConnection(cluster.zookeeper)
    with open_wire(kafka) as wire, open_client(zookeeper) as client:
        # Without ZooKeeper every broker passes this on. With it, the controller alone answers.
        controller = json.loads(client.get("/controller")[0])["brokerid"]
        monkeypatch.setattr(cluster_view, "read_moves", lambda wire, broker: read_moves(wire, controller))

        def both() -> tuple[ClusterView, ClusterView]:
            return read_view(wire, topics), reader.read_cluster_view(client, topics)

        def same(one: PartitionView) -> PartitionView:
            """Without what ZooKeeper alone has; the ISR is in no particular order."""
            assert one.state is not None
            state = replace(one.state, isr=tuple(sorted(one.isr)))
            return replace(one, topic_znode_version=None, topic_czxid=None, state=state, marks_moves=True)

        def agree() -> bool:
            by_api, known = both()
            return {tp: same(p) for tp, p in by_api.partitions.items()} == {
                tp: same(p) for tp, p in known.partitions.items()
            }

        wait("brokers have heard of the topics", agree)
        by_api, known = both()
        assert len(by_api.partitions) == 3
        assert (by_api.cluster_id, by_api.racks) == (known.cluster_id, known.racks)
        assert read_topic_configs(wire, topics) == reader.read_topic_configs(client, topics)
        assert read_broker_configs(wire, [1, 2]) == reader.read_broker_configs(client, [1, 2])


def test_a_cluster_with_zookeeper_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ConnectionSettingsError, match=r"no quorum of controllers.*kafka_zookeeper"):
        view_of(cluster)


# --- without ZooKeeper ---


@pytest.fixture(scope="module", params=WITHOUT_ZOOKEEPER)
def kraft(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(request.param, brokers=3, racks=3, kraft=True, broker_config=WITH_A_READER) as running:
        running.create_topic("orders", {0: (3, 1), 1: (2, 3)})
        running.create_topic("payments", {0: (1, 2)})
        wait("all brokers know the topics", lambda: len(view_of(running).partitions) == 3)
        yield running


def test_a_view_has_live_brokers_the_quorum_and_every_list_in_order(kraft: LocalCluster) -> None:
    found = view_of(kraft)
    assert found.racks == {1: "rack-0", 2: "rack-1", 3: "rack-2"}
    assert found.voters == {1, 2, 3}
    assert found.controller is not None
    assert found.controller.broker in found.voters
    assert [one.replicas for _, one in sorted(found.partitions.items())] == [(3, 1), (2, 3), (1, 2)]
    assert not found.moving


def test_a_part_of_a_topic_is_told_as_in_a_view_of_all_of_it(
    kraft: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "_RANGE_COST", 0)
    some = [TopicPartition("orders", 1), TopicPartition("payments", 0), TopicPartition("gone", 0)]
    with open_wire(KafkaConnection(kraft.bootstrap_servers)) as wire:
        whole = read_view(wire)
        assert cluster_view._ranges_worth_it(wire, some) == {"orders": [range(1, 2)]}
        expected = {tp: whole.partitions[tp] for tp in some[:2]}
        assert read_batch_view(wire, some).partitions == expected
        assert read_topic_ids(wire, some) == {tp.topic: one.topic_id for tp, one in expected.items()}
        earlier = replace(whole, partitions={**whole.partitions, some[0]: replace(expected[some[0]], replicas=())})
        unread = read_view_again(wire, {"orders", "payments"}, earlier, some[1:])
        assert unread.partitions == earlier.partitions, "of orders nothing was to be read"
        assert read_view_again(wire, {"orders", "payments"}, earlier, some).partitions == whole.partitions


def test_each_leader_tells_where_its_log_on_disk_begins(kraft: LocalCluster) -> None:
    leaders = {tp: one.leader for tp, one in view_of(kraft).partitions.items()}
    found = read_local_starts(KafkaConnection(kraft.bootstrap_servers), leaders)
    assert (found.offsets, found.untold) == (dict.fromkeys(leaders, 0), {})


def test_a_broker_that_leaves_a_move_to_it_and_its_return_are_seen(kraft: LocalCluster) -> None:
    moved = TopicPartition("payments", 0)
    kraft.stop_broker(3)
    with open_wire(KafkaConnection(kraft.bootstrap_servers)) as wire:
        try:
            wait("broker 3 has left", lambda: set(read_view(wire).brokers) == {1, 2})
            assert [one.leader for _, one in sorted(read_view(wire).partitions.items())] == [1, 2, 1]
            reassign(kraft, moved, [2, 3])  # which does not end while broker 3 is away
            wait("the move is listed", lambda: moved in read_view(wire).moving)
            found = read_view(wire).partitions[moved]
            assert (found.target, found.origin) == ((2, 3), (2, 1))
            assert (found.adding, found.removing) == ((3,), (1,))
            reassign(kraft, moved, None)
            wait("the move is cancelled", lambda: not read_view(wire).moving)
        finally:
            kraft.start_broker(3)
        # The client keeps the brokers of its first look for five minutes.
        wait("broker 3 is back", lambda: set(read_view(wire).brokers) == {1, 2, 3})


def reassign(kraft: LocalCluster, partition: TopicPartition, replicas: list[int] | None) -> None:
    with open_kafka_python(KafkaConnection(kraft.bootstrap_servers)) as client:
        client.alter_partition_reassignments({KafkaTopicPartition(*partition): replicas})


# --- permissions ---


@pytest.fixture
def admin(kraft: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": kraft.bootstrap_servers, "log_level": 0})


@pytest.fixture
def as_reader(kraft: LocalCluster, admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterConnection]:
    """The connection of a user who has exactly the permissions that a snapshot needs, and has taken one."""
    monkeypatch.setattr(snapshot_reader, "STORM_PAUSE_SECONDS", 0)
    connection = ClusterConnection("kafka_us", None, KafkaConnection(client_servers(kraft), AS_READER))
    permit(admin, *PERMISSIONS.values())
    wait("a snapshot can be taken", lambda: refusal(connection) == "")
    yield connection
    for answer in admin.delete_acls([EVERY_RULE]).values():
        answer.result(30)


def refusal(connection: ClusterConnection) -> str:
    """What a snapshot is refused with; empty if it is taken. Each broker hears of new rules a moment later."""
    try:
        taken = read_snapshot(connection, Settings())
    except RebalanceError as refused:
        return str(refused)
    assert {tp.topic for tp in taken.view.partitions} == {"orders", "payments"}
    assert set(taken.end_offsets) == set(taken.view.partitions)
    return ""


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("Describe on all topics", r"hold 2 topics that they do not list.*orders, payments.*Describe on all topics"),
        ("DescribeConfigs on all topics", r"configs of topic orders cannot be read.*DescribeConfigs on all topics"),
        ("Describe on the cluster", r"quorum of controllers cannot be read.*Describe on the cluster"),
        ("DescribeConfigs on the cluster", r"configs of broker 1 cannot be read.*DescribeConfigs on the cluster"),
    ],
)
def test_a_missing_permission_is_named(
    admin: AdminClient, as_reader: ClusterConnection, missing: str, said: str
) -> None:
    forbid(admin, PERMISSIONS[missing])
    wait("the permission is named", lambda: re.search(said, refusal(as_reader)) is not None)


def test_a_topic_that_the_user_may_not_describe_makes_no_smaller_cluster(
    admin: AdminClient, as_reader: ClusterConnection
) -> None:
    permit(admin, permission(AclResource.TOPIC, "orders", AclOperation.DESCRIBE))
    forbid(admin, PERMISSIONS["Describe on all topics"])
    said = r"hold 1 topics that they do not list.*payments.*Grant"
    wait("the topic is named", lambda: re.search(said, refusal(as_reader)) is not None)
