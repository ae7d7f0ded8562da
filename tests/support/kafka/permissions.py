"""A user of a cluster without ZooKeeper who may do what rules permit, and nothing else."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)
from confluent_kafka.admin import (
    ResourceType as AclResource,
)

from kafka_rebalance.local_cluster import LocalCluster

# Beside the listener of brokers and tests, one for the user `reader`, who may do what rules permit, and nothing else.
WITH_A_READER = {
    "listeners": "{was},CLIENT://127.0.0.2:{port+1}",
    "listener.security.protocol.map": "{was},CLIENT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_reader="secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
AS_READER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "reader",
    "sasl.password": "secret",
}


def permission(kind: AclResource, name: str, operation: AclOperation, user: str = "reader") -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


EVERY_RULE = AclBindingFilter(
    AclResource.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
CLUSTER = (AclResource.BROKER, "kafka-cluster")  # librdkafka's name of the resource type Cluster


def client_servers(cluster: LocalCluster) -> str:
    """The bootstrap servers of that user's listener."""
    ports = [int(server.rpartition(":")[2]) for server in cluster.bootstrap_servers.split(",")]
    return ",".join(f"127.0.0.2:{port + 1}" for port in ports)


def permit(admin: AdminClient, *permissions: AclBinding) -> None:
    for answer in admin.create_acls(list(permissions)).values():
        answer.result(30)


def forbid(admin: AdminClient, rule: AclBinding) -> None:
    filter_ = AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )
    for answer in admin.delete_acls([filter_]).values():
        assert len(answer.result(30)) == 1
