"""Many znodes are read by few requests where the server takes such, and one by one where it does not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from kafka_rebalance.errors import ReadDeniedError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.zookeeper.client import MANY, read_znodes
from support.kafka.on_versions import ON_OLDEST_AND_NEWEST

pytestmark = ON_OLDEST_AND_NEWEST

PARENT, COUNT = "/many", MANY + 201


@pytest.fixture
def znodes(cluster: LocalCluster) -> Iterator[list[str]]:
    """Paths of many znodes, and of two that do not exist."""
    paths = [f"{PARENT}/{number}" for number in range(COUNT)]
    client = KazooClient(cluster.zookeeper)
    client.start()
    client.create(PARENT)
    for made in [client.create_async(path, str(number).encode()) for number, path in enumerate(paths)]:
        made.get()
    yield [*paths, f"{PARENT}/none", "/nowhere"]
    for path in [*paths, PARENT]:
        client.delete(path)
    client.stop()
    client.close()


def requests_taken(cluster: LocalCluster) -> int:
    host, port = cluster.zookeeper.split(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile() as answer:
        connection.sendall(b"mntr")
        return next(int(line.split()[1]) for line in answer if line.startswith("zk_packets_received"))


def test_many_are_read_as_one_by_one(cluster: LocalCluster, client: Any, znodes: list[str]) -> None:
    session, before = client.client_id, requests_taken(cluster)
    found = read_znodes(client, znodes)
    requests = requests_taken(cluster) - before
    assert found == {path: read_znodes(client, [path])[path] for path in znodes}
    assert found["/nowhere"] is None
    content, stat = found[f"{PARENT}/7"] or (None, None)
    assert (content, stat and stat.dataLength) == (b"7", 1)
    takes_them = cluster.version.startswith("3.")  # ZooKeeper 3.6 and newer; before, 3.4 and 3.5
    assert client.may_multi_read is takes_them
    assert (requests < MANY / 2) is takes_them, requests
    assert (client.client_id, client.connected) == (session, True), "what a server does not know costs no session"


def test_one_that_may_not_be_read_is_named_as_without_multi_read(
    client: Any, znodes: list[str], cluster: LocalCluster
) -> None:
    client.set_acls(znodes[3], [make_digest_acl("somebody", "else", read=True)])
    with pytest.raises(ReadDeniedError, match=r"/many/0 \(and 1202 more\): this client may not read it"):
        read_znodes(client, znodes)
