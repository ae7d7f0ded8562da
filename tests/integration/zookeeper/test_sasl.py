"""A ZooKeeper that asks for a user: right and wrong passwords, and znodes that only Kafka's user may write."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.security import make_acl

from kafka_rebalance.errors import AuthenticationError, WriteError
from kafka_rebalance.local_cluster.jars.class_path import kafka_jars
from kafka_rebalance.local_cluster.jvms.server_settings import JVM_OPTIONS, write_log4j, zookeeper_properties
from kafka_rebalance.local_cluster.machine.java import find_java
from kafka_rebalance.local_cluster.machine.ports import accepts_connections, free_port
from kafka_rebalance.local_cluster.machine.processes import Guard, start_process
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition, topic_identities
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.config_writes import merge_config
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.topic_writes import create_topic, delete_topic, set_topic_configs, write_more_partitions
from kafka_rebalance.zookeeper.writer import create_reassignment
from support.waiting import wait
from support.zookeeper.fake_zookeeper import fake_cluster

DIGEST = "d" * 64
BATCH = Batch(1, (Move(TopicPartition("orders", 0), (1, 2), (3, 4), 1),), DIGEST)
PASSWORDS = {"kafka": "kafka-secret", "rebalancer": "rebalancer-secret"}
# What Kafka gives its znodes with zookeeper.set.acl=true.
KAFKA_ONLY = [make_acl("sasl", "kafka", all=True), make_acl("world", "anyone", read=True)]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ZooKeeper of Kafka 3.9.2 alone, that takes sessions of users only, with a protected cluster in it."""
    folder, port = tmp_path_factory.mktemp("zookeeper"), free_port()
    guard = Guard([])
    server = start_process(command(folder, port), folder / "zookeeper.out", guard)
    try:

        def is_up() -> bool:
            assert server.is_alive(), (folder / "zookeeper.out").read_text(errors="replace")[-2000:]
            return accepts_connections(port)

        wait("ZooKeeper takes connections", is_up)
        with open_client(as_user("kafka", f"127.0.0.1:{port}")) as client:
            for path, znode in fake_cluster({"orders": {0: [1, 2]}, "audit": {0: [1, 2]}}).znodes.items():
                if path != "/":
                    client.create(path, znode.data, acl=KAFKA_ONLY, makepath=True)
        yield f"127.0.0.1:{port}"
    finally:
        server.end(signal.SIGKILL)
        guard.close()


def command(folder: Path, port: int) -> list[str]:
    users = "\n".join(f'  user_{user}="{password}"' for user, password in PASSWORDS.items())
    login = "org.apache.zookeeper.server.auth.DigestLoginModule"
    (folder / "jaas.conf").write_text(f"Server {{\n  {login} required\n{users};\n}};\n")
    (folder / "zoo.cfg").write_text(
        zookeeper_properties(folder / "data", port)
        + "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
        + "sessionRequireClientSASLAuth=true\n"
    )
    return [
        str(find_java()),
        *JVM_OPTIONS,
        "-Xmx96m",
        f"-Djava.security.auth.login.config={folder / 'jaas.conf'}",
        f"-Dlog4j.configuration=file:{write_log4j(folder)}",
        f"-Dlocal.cluster.log={folder / 'zookeeper.log'}",
        "-cp",
        os.pathsep.join(map(str, kafka_jars("3.9.2"))),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(folder / "zoo.cfg"),
    ]


def as_user(user: str, hosts: str, password: str | None = None) -> ZooKeeperConnection:
    sasl = {"mechanism": "DIGEST-MD5", "username": user, "password": password or PASSWORDS[user]}
    return ZooKeeperConnection(hosts, sasl)


@pytest.mark.parametrize("connection", ["wrong password", "no user"])
def test_who_may_not_enter_is_told_so_without_the_password(hosts: str, connection: str) -> None:
    refused = as_user("kafka", hosts, "wrong-secret") if connection == "wrong password" else ZooKeeperConnection(hosts)
    with pytest.raises(AuthenticationError, match=f"ZooKeeper {hosts} refuses") as unread, open_client(refused):
        pytest.fail("it must not open")
    assert "secret" not in str(unread.value)


def test_a_user_without_rights_reads_and_is_told_that_it_may_not_write(hosts: str) -> None:
    with open_client(as_user("rebalancer", hosts)) as client:
        view = read_cluster_view(client)
        assert set(view.brokers) == {1, 2, 3, 4}
        with pytest.raises(WriteError, match=r"/admin/reassign_partitions: .*does not let this client"):
            create_reassignment(client, BATCH, DIGEST, view.brokers)
        with pytest.raises(WriteError, match="/config/brokers/1"):
            merge_config(client, "brokers/1", {"leader.replication.throttled.rate": "1000"})
        assert client.exists("/admin/reassign_partitions") is None


def test_kafkas_user_writes_what_only_kafkas_user_may_change(hosts: str) -> None:
    with open_client(as_user("kafka", hosts)) as client:
        create_reassignment(client, BATCH, DIGEST, read_cluster_view(client).brokers)
        merge_config(client, "brokers/1", {"leader.replication.throttled.rate": "1000"})
        ZooKeeperLock(client).acquire(LockOwner("run", DIGEST, "airflow"))
        for path in ("/admin/reassign_partitions", "/config/brokers/1", znodes.RUN_LOCK):
            assert set(client.get_acls(path)[0]) == set(KAFKA_ONLY)
        assert json.loads(client.get("/config/brokers/1")[0])["config"]
    with open_client(as_user("rebalancer", hosts)) as other, pytest.raises(WriteError, match="does not let"):
        ZooKeeperLock(other).release(LockOwner("run", DIGEST, "airflow"))


def test_topics_get_the_rights_of_kafkas_own_znodes(hosts: str) -> None:
    with open_client(as_user("kafka", hosts)) as client:
        create_topic(client, "made", {0: (1, 2)}, {}, version="3.9.2", registered={1, 2})
        made = topic_identities(read_cluster_view(client, ["made"]).partitions)["made"]
        set_topic_configs(client, "made", {"retention.ms": "5"}, version="3.9.2", expected=made)
        write_more_partitions(client, "made", {1: (2, 1)}, expected=made, registered={1, 2})
        delete_topic(client, "made", expected=made)
        (change,) = client.get_children("/config/changes")[-1:]
        told = f"/config/changes/{change}"
        for path in ("/brokers/topics/made", "/config/topics/made", told, "/admin/delete_topics/made"):
            assert set(client.get_acls(path)[0]) == set(KAFKA_ONLY)


def test_a_user_without_rights_changes_no_topic(hosts: str) -> None:
    with open_client(as_user("rebalancer", hosts)) as client:
        before = client.get("/brokers/topics/audit"), client.get("/config/topics/audit")
        audit = topic_identities(read_cluster_view(client, ["audit"]).partitions)["audit"]
        refused = pytest.raises(WriteError, match="does not let this client write it")
        with refused:
            create_topic(client, "new", {0: (1, 2)}, {}, version="3.9.2", registered={1, 2})
        with refused:
            write_more_partitions(client, "audit", {1: (2, 1)}, expected=audit, registered={1, 2})
        with refused:
            set_topic_configs(client, "audit", {"retention.ms": "5"}, version="3.9.2", expected=audit)
        with refused:
            delete_topic(client, "audit", expected=audit)
        assert (client.get("/brokers/topics/audit"), client.get("/config/topics/audit")) == before
        for path in ("/brokers/topics/new", "/config/topics/new", "/admin/delete_topics/audit"):
            assert client.exists(path) is None
