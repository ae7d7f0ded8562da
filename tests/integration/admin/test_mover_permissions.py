"""What a run needs to move replicas without ZooKeeper. Each missing permission is named, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AdminClient
from confluent_kafka.admin import ResourceType as AclResource

from kafka_rebalance.admin.log_dirs import alter_log_dirs, read_log_dirs
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.kafka.topics import LOCK_TOPIC, TRANSACTIONAL_ID
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition
from kafka_rebalance.model.topic_change import TopicChange
from support.kafka.on_versions import NEWEST_WITHOUT_ZOOKEEPER
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

OWNER = LockOwner("kafka_rebalance/one", "d" * 64, "airflow (a1)")
ORDERS = TopicPartition("orders", 0)
LISTS = {"leader.replication.throttled.replicas": "0:1"}
RULES: Mapping[str, AclBinding] = {
    "describe topics": permission(AclResource.TOPIC, "*", AclOperation.DESCRIBE),
    "describe topic configs": permission(AclResource.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS),
    "describe cluster": permission(*CLUSTER, AclOperation.DESCRIBE),
    "describe cluster configs": permission(*CLUSTER, AclOperation.DESCRIBE_CONFIGS),
    "Alter on the cluster": permission(*CLUSTER, AclOperation.ALTER),
    "AlterConfigs on the cluster": permission(*CLUSTER, AclOperation.ALTER_CONFIGS),
    "AlterConfigs on the topics": permission(AclResource.TOPIC, "*", AclOperation.ALTER_CONFIGS),
    "transactional id": permission(AclResource.TRANSACTIONAL_ID, TRANSACTIONAL_ID, AclOperation.WRITE),
    "write the lock": permission(AclResource.TOPIC, LOCK_TOPIC, AclOperation.WRITE),
    "read the lock": permission(AclResource.TOPIC, LOCK_TOPIC, AclOperation.READ),
    "create the lock": permission(AclResource.TOPIC, LOCK_TOPIC, AclOperation.CREATE),
}


def take_lock(cluster: OpenCluster) -> None:
    cluster.lock.acquire(OWNER)


def throttle_topic(cluster: OpenCluster) -> None:
    fence = cluster.lock.acquire(OWNER)
    cluster.merge_configs({"topics/orders": LISTS}, decided_on={}, fence=fence)


def throttle_broker(cluster: OpenCluster) -> None:
    fence = cluster.lock.acquire(OWNER)
    cluster.merge_configs({"brokers/1": {"leader.replication.throttled.rate": "1000"}}, decided_on={}, fence=fence)


def move(cluster: OpenCluster) -> None:
    fence = cluster.lock.acquire(OWNER)
    batch = Batch(1, (Move(ORDERS, (1, 2), (1, 3), 0),), OWNER.digest)
    cluster.request_moves(batch, OWNER.digest, {1, 2, 3}, view=cluster.read_view(["orders"]), fence=fence)


def elect(cluster: OpenCluster) -> None:
    fence = cluster.lock.acquire(OWNER)
    cluster.elect_leaders([ORDERS], cluster.read_view(["orders"]), fence=fence)


def cancel(cluster: OpenCluster) -> None:
    cluster.cancel_moves([ORDERS])


def copy_within(cluster: OpenCluster) -> None:
    """To the log dir in which the replica lies, which changes nothing where it is allowed."""
    kafka = cluster._kafka  # type: ignore[attr-defined]
    path = read_log_dirs(kafka, [1]).paths[ORDERS][1]
    with open_wire(kafka) as wire:
        alter_log_dirs(wire, 1, {ORDERS: path}, held={ORDERS}, log_dirs={path})


def copy_announced(cluster: OpenCluster) -> None:
    fence = cluster.lock.acquire(OWNER)
    kafka = cluster._kafka  # type: ignore[attr-defined]
    paths = {ORDERS: read_log_dirs(kafka, [1]).paths[ORDERS][1]}
    with open_wire(kafka) as wire:

        def send(not_later_than: float) -> None:
            alter_log_dirs(wire, 1, paths, held=set(paths), log_dirs=set(paths.values()))

        cluster.request_copies(OWNER, 1, paths, send, fence=fence)


@pytest.fixture(scope="module", params=NEWEST_WITHOUT_ZOOKEEPER)
def kraft(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(request.param, brokers=3, racks=0, kraft=True, broker_config=WITH_A_READER) as running:
        running.create_topic("orders", {0: (1, 2)})
        yield running


@pytest.fixture
def admin(kraft: LocalCluster) -> Iterator[AdminClient]:
    made = AdminClient({"bootstrap.servers": kraft.bootstrap_servers, "log_level": 0})
    permit(made, *RULES.values())
    yield made
    for answer in made.delete_acls([EVERY_RULE]).values():
        answer.result(30)


def refusal(kraft: LocalCluster, work: Callable[[OpenCluster], None]) -> str:
    """What the work is refused with; empty if it is done. Each broker hears of new rules a moment later."""
    connection = ClusterConnection("kafka_us", None, KafkaConnection(client_servers(kraft), AS_READER))
    try:
        with open_cluster(connection) as opened:
            work(opened)
    except RebalanceError as refused:
        return str(refused)
    return ""


def standing(kraft: LocalCluster) -> tuple[object, ...]:
    """What the work would change, seen by somebody who may see all."""
    connection = ClusterConnection("kafka_us", None, KafkaConnection(kraft.bootstrap_servers))
    with open_cluster(connection) as opened:
        lists = {tp: one.replicas for tp, one in opened.read_view(["orders"]).partitions.items()}
        return lists, opened.read_topic_configs(["orders"]), opened.read_broker_configs([1])[1]


@pytest.mark.parametrize(
    ("missing", "work", "said"),
    [
        ("Alter on the cluster", move, r"reassignment of 1 partitions: the Kafka user needs Alter on the cluster"),
        ("Alter on the cluster", elect, r"election of 1 .*needs Alter on the cluster"),
        ("Alter on the cluster", cancel, r"cancelling of 1 .*needs Alter on the cluster"),
        ("Alter on the cluster", copy_within, r"between log dirs of broker 1 .*needs Alter on the cluster"),
        ("AlterConfigs on the cluster", throttle_broker, r"brokers/1 .*AlterConfigs on the cluster"),
        ("AlterConfigs on the topics", throttle_topic, r"topics/orders .*AlterConfigs on the topics"),
        ("transactional id", take_lock, r"Write and Describe on the transactional id kafka-rebalance"),
        ("write the lock", take_lock, r"Read, Write and Describe on the topic __kafka_rebalance"),
        ("read the lock", take_lock, r"Read and Describe on the topic __kafka_rebalance"),
    ],
)
def test_a_missing_permission_is_named_and_nothing_is_written(
    kraft: LocalCluster, admin: AdminClient, missing: str, work: Callable[[OpenCluster], None], said: str
) -> None:
    wait("the user may do everything", lambda: refusal(kraft, take_lock) == "")
    before = standing(kraft)
    forbid(admin, RULES[missing])
    wait("the permission is named", lambda: re.search(said, refusal(kraft, work)) is not None)
    assert standing(kraft) == before


def test_a_denied_write_names_every_right_that_misses(kraft: LocalCluster, admin: AdminClient) -> None:
    wait("the user may do everything", lambda: refusal(kraft, take_lock) == "")
    forbid(admin, RULES["Alter on the cluster"])
    forbid(admin, RULES["AlterConfigs on the topics"])
    said = r"In all, .* the cluster: the Kafka user lacks Alter, .*all topics .*: the Kafka user lacks AlterConfigs"
    for work in (move, elect, cancel, throttle_topic, copy_announced):
        wait(f"{work.__name__} names both", lambda work=work: re.search(said, refusal(kraft, work)) is not None)


# --- kafka_topics ---

MADE = "made"
TOPIC_RULES = {
    name: permission(AclResource.TOPIC, "*", operation)
    for name, operation in (
        ("Create", AclOperation.CREATE),
        ("Alter", AclOperation.ALTER),
        ("AlterConfigs", AclOperation.ALTER_CONFIGS),
        ("Delete", AclOperation.DELETE),
    )
}


def create(cluster: OpenCluster) -> None:
    cluster.topics.create(TopicChange("create", MADE, "c", None, {0: (1, 2)}), {1, 2, 3})


def made(cluster: OpenCluster, action: str, **changes: Any) -> TopicChange:
    """A change of the topic that `create` has made."""
    there = cluster.read_view([MADE]).partitions[TopicPartition(MADE, 0)]
    identity = TopicIdentity(None, None, there.topic_id)
    return TopicChange(action, MADE, "c", None, partitions_before=1, identity=identity, **changes)


def expand(cluster: OpenCluster) -> None:
    change = made(cluster, "alter", new_partitions={1: (2, 3)})
    cluster.topics.expand(change, {1, 2, 3}, cluster.lock.acquire(OWNER))


def set_configs(cluster: OpenCluster) -> None:
    cluster.topics.set_configs(made(cluster, "alter", config_changes={"retention.ms": "1000"}))


def delete(cluster: OpenCluster) -> None:
    cluster.topics.delete(made(cluster, "delete"), cluster.lock.acquire(OWNER))


def test_each_change_of_a_topic_names_the_permission_that_it_lacks_and_is_done_with_it(
    kraft: LocalCluster, admin: AdminClient
) -> None:
    steps = {"Create": create, "Alter": expand, "AlterConfigs": set_configs, "Delete": delete}
    others = [rule for name, rule in RULES.items() if not name.startswith("AlterConfigs on the topics")]
    forbid(admin, RULES["AlterConfigs on the topics"])
    for needed, step in steps.items():
        said = rf"the Kafka user needs {needed} on the topic\. Grant it"
        wait(f"{needed} is named", lambda step=step, said=said: re.search(said, refusal(kraft, step)) is not None)
        permit(admin, *others, TOPIC_RULES[needed])
        wait(f"it is done with {needed}", lambda step=step: refusal(kraft, step) == "")
    connection = ClusterConnection("kafka_us", None, KafkaConnection(kraft.bootstrap_servers))
    with open_cluster(connection) as opened:
        wait("the topic is deleted", lambda: MADE not in opened.read_topic_names())
