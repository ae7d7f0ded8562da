"""A user who may not see consumer groups is never told that there are none: real brokers, Kafka's own authorizer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_rebalance.admin.groups import read_committed_offsets, read_groups
from kafka_rebalance.errors import ReadError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition as OurPartition

USER = "User:ANONYMOUS"
AUTHORIZERS = {"2.0.1": "kafka.security.auth.SimpleAclAuthorizer"}


@pytest.fixture(scope="module", params=VERSIONS)
def guarded(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """One broker that asks an authorizer; who is not named in a rule may do everything."""
    authorizer = AUTHORIZERS.get(request.param, "kafka.security.authorizer.AclAuthorizer")
    config = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    with LocalCluster(version=request.param, brokers=1, racks=0, broker_config=config) as running:
        running.create_topic("orders", {0: (1,)})
        consumer = Consumer({"bootstrap.servers": running.bootstrap_servers, "group.id": "billing", "log_level": 0})
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()
        yield running


@pytest.fixture
def admin(guarded: LocalCluster) -> Iterator[AdminClient]:
    """Its rules are gone after the test."""
    client = AdminClient({"bootstrap.servers": guarded.bootstrap_servers, "log_level": 0})
    yield client
    every = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for answer in client.delete_acls([every]).values():
        answer.result(30)


def rule(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, USER, "*", operation, permission)


def members(kafka: KafkaConnection) -> None:
    found = read_groups(kafka, "orders", [0])
    if found.unread:
        raise ReadError(". ".join(map(str, found.unread)))
    assert [group.group for group in found.groups] == ["billing"]


def offsets(kafka: KafkaConnection) -> None:
    assert read_committed_offsets(kafka, [1]) == {OurPartition("orders", 0): {"billing": 0}}


def read_until(kafka: KafkaConnection, refused: bool, read: Callable[[KafkaConnection], None] = members) -> str:
    """The refusal's text, or "" once the groups are read: rules take a moment to reach the broker's cache."""
    give_up = time.monotonic() + 30
    while True:
        try:
            read(kafka)
        except ReadError as said:
            if refused:
                return str(said)
        else:
            if not refused:
                return ""
        assert time.monotonic() < give_up
        time.sleep(0.1)


def test_without_describe_on_the_cluster_the_read_is_refused(guarded: LocalCluster, admin: AdminClient) -> None:
    kafka = KafkaConnection(guarded.bootstrap_servers)
    read_until(kafka, refused=False)
    cluster = (ResourceType.BROKER, "kafka-cluster")
    rules = [
        rule(*cluster, AclOperation.DESCRIBE, AclPermissionType.DENY),
        *(
            rule(*cluster, operation, AclPermissionType.ALLOW)  # what brokers need, and this test to clean up
            for operation in (AclOperation.CLUSTER_ACTION, AclOperation.ALTER)
        ),
    ]
    for answer in admin.create_acls(rules).values():
        answer.result(30)
    for read in (members, offsets):
        assert "Describe on the cluster" in read_until(kafka, refused=True, read=read)


def test_without_describe_on_a_group_that_exists_the_read_is_refused(guarded: LocalCluster, admin: AdminClient) -> None:
    kafka = KafkaConnection(guarded.bootstrap_servers)
    for read in (members, offsets):
        read_until(kafka, refused=False, read=read)
    for answer in admin.create_acls(
        [rule(ResourceType.GROUP, "billing", AclOperation.DESCRIBE, AclPermissionType.DENY)]
    ).values():
        answer.result(30)
    for read in (members, offsets):
        said = read_until(kafka, refused=True, read=read)
        assert "billing" in said
        assert "Describe" in said
