"""A cluster whose servers ask who a client is: who enters, by which way, and what they may do there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation, AdminClient
from confluent_kafka.admin import ResourceType as AclResource
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from kafka_rebalance.local_cluster import LocalCluster, LocalClusterError
from kafka_rebalance.local_cluster.security.server_security import ServerSecurity
from support.kafka.permissions import permission, permit
from support.waiting import wait

PASSWORD = "of-the-reader"
LOGIN = {"security.protocol": "SASL_SSL", "sasl.username": "reader", "sasl.password": PASSWORD}
WAYS = ("PLAIN", "SCRAM-SHA-512", "certificate")
VERSIONS = [
    "3.9.2",
    pytest.param("2.8.2", marks=pytest.mark.long),
    pytest.param("3.9.2-kraft", marks=pytest.mark.long),
    "4.4.0-kraft",
]


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> ServerSecurity:
    return ServerSecurity(tmp_path_factory.mktemp("security"), {"reader": PASSWORD})


@pytest.fixture(scope="module", params=VERSIONS)
def secured(request: pytest.FixtureRequest, security: ServerSecurity) -> Iterator[LocalCluster]:
    version, _, kraft = request.param.partition("-")
    with LocalCluster(version, brokers=2, racks=0, kraft=bool(kraft), security=security) as running:
        running.create_topic("orders", {0: (1, 2)})
        running.produce("orders", {0: 10_000})
        yield running


def settings(secured: LocalCluster, security: ServerSecurity, way: str) -> Mapping[str, str]:
    listener = "SSL" if way == "certificate" else "SASL_SSL"
    reached = {
        "bootstrap.servers": security.servers(secured.bootstrap_servers, listener),
        "ssl.ca.location": str(security.authority.certificate),
    }
    if way == "certificate":
        issued = security.authority.issue("reader")
        files = {"ssl.certificate.location": str(issued.certificate), "ssl.key.location": str(issued.key)}
        return {**reached, "security.protocol": "SSL", **files}
    return {**reached, **LOGIN, "sasl.mechanism": way}


def topics(settings: Mapping[str, str], seconds: float = 10) -> set[str]:
    return set(AdminClient({**settings, "log_level": 0}).list_topics(timeout=seconds).topics)


def test_a_user_sees_what_rules_permit(secured: LocalCluster, security: ServerSecurity) -> None:
    found = {way: topics(settings(secured, security, way)) for way in WAYS}
    assert not any(found.values())
    superuser = AdminClient({"bootstrap.servers": secured.bootstrap_servers, "log_level": 0})
    permit(superuser, permission(AclResource.TOPIC, "*", AclOperation.DESCRIBE))
    for way in WAYS:
        wait(f"{way} lists it", lambda way=way: "orders" in topics(settings(secured, security, way)))  # type: ignore[misc]


def test_who_gives_a_wrong_password_does_not_enter(secured: LocalCluster, security: ServerSecurity) -> None:
    given = {**settings(secured, security, "SCRAM-SHA-512"), "sasl.password": "wrong"}
    with pytest.raises(KafkaException, match="_TRANSPORT"):
        topics(given, seconds=1)


def test_only_the_brokers_user_writes_to_zookeeper(secured: LocalCluster, security: ServerSecurity) -> None:
    if secured.kraft:
        pytest.skip("there is no ZooKeeper")
    login = {"mechanism": "DIGEST-MD5", "username": "reader", "password": PASSWORD}
    client = KazooClient(secured.zookeeper, **{**security.kazoo_options, "sasl_options": login})
    client.start()
    try:
        for path in ("/brokers/topics/orders", "/config/topics/orders", "/admin"):
            assert client.exists(path)
            with pytest.raises(NoAuthError):
                client.create(f"{path}/new", b"")
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize(("version", "detached"), [("2.0.1", False), ("3.9.2", True)])
def test_what_cannot_be_secured_is_refused(security: ServerSecurity, version: str, detached: bool) -> None:
    with pytest.raises(LocalClusterError, match=r"cannot be secured\. Nothing was started"):
        LocalCluster(version, security=security, detached=detached)
