"""The znodes, the other client and the slow network of the benchmarks of large and of many clusters."""

from __future__ import annotations

import socket
import threading
from typing import Any

from bench.clusters import SIZES, make_cluster
from bench.size.others import Seen
from bench.size.znodes import write_znodes
from bench.slow_network import SlowNetwork
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.znodes import decode_broker, decode_partition_state, decode_topic


class Client:
    """Keeps what is written, and refuses a znode without its parent as ZooKeeper does."""

    def __init__(self) -> None:
        self.znodes: dict[str, bytes] = {"": b""}
        self.ephemeral: set[str] = set()

    def ensure_path(self, path: str) -> None:
        names = path.split("/")
        self.znodes |= {"/".join(names[:number]): b"" for number in range(2, len(names) + 1)}

    def transaction(self) -> Client:
        return self

    def create(self, path: str, content: bytes, ephemeral: bool) -> None:
        assert path.rpartition("/")[0] in self.znodes, path
        self.znodes[path] = content
        self.ephemeral |= {path} if ephemeral else set()

    def commit(self) -> list[str]:
        return []


def test_the_znodes_of_a_large_cluster_are_read_by_the_product_as_they_were_made() -> None:
    cluster = make_cluster(SIZES["S"], "skew", 1)
    client: Any = Client()
    written = write_znodes(client, cluster)
    topics = {row["topic"] for row in cluster.partitions}
    assert written == 3 + len(cluster.brokers) + 3 * len(topics) + 2 * len(cluster.partitions)
    for broker in cluster.brokers:
        path = f"/brokers/ids/{broker['broker']}"
        assert decode_broker(broker["broker"], client.znodes[path], 1).rack == broker["rack"]
        assert path in client.ephemeral
    for row in cluster.partitions:
        topic, partition = row["topic"], row["partition"]
        assignment = decode_topic(client.znodes[f"/brokers/topics/{topic}"], topic)
        assert assignment.partitions[partition] == tuple(row["replicas"])
        state = client.znodes[f"/brokers/topics/{topic}/partitions/{partition}/state"]
        found = decode_partition_state(state, TopicPartition(topic, partition))
        assert (found.leader, found.isr) == (row["replicas"][0], tuple(row["replicas"]))


def test_the_other_clients_requests_count_in_the_windows_in_which_they_were_sent() -> None:
    reads = [(float(at), 50.0 if at == 7 else 1.0) for at in range(200)]
    found = Seen(reads, [(5.5, 2.0), (300.0, 9.0)]).during([(0, 10), (150, 160)])
    assert (found.reads, found.read) == (20, (1.0, 50.0))
    assert (found.writes, found.written) == (1, (2.0, 2.0))


def test_a_slow_network_carries_every_byte_both_ways_and_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as far, SlowNetwork(0.01) as network:
        host, _, port = network.carry(("127.0.0.1", 0), far.getsockname()).partition(":")

        def answer() -> None:
            with far.accept()[0] as asked:
                asked.sendall(asked.makefile("rb").readline().upper())

        answering = threading.Thread(target=answer)
        answering.start()
        with socket.create_connection((host, int(port)), timeout=30) as near:
            near.sendall(b"x" * 200_000 + b"\n")
            assert near.makefile("rb").read() == b"X" * 200_000 + b"\n"
        answering.join()
