"""Thousands of empty partitions on three real brokers, and bare batches of them, without any code of the product."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kazoo.client import KazooClient

from kafka_rebalance.local_cluster import LocalCluster

BROKERS = 3
REASSIGN, LOCK = "/admin/reassign_partitions", "/kafka_rebalance/run"
POLL_SECONDS = 0.02
WAIT_SECONDS = 300

Entry = tuple[str, int]
Lists = Mapping[Entry, tuple[int, ...]]


@contextmanager
def started(version: str) -> Iterator[tuple[LocalCluster, KazooClient]]:
    """Three brokers, each in its own JVM, and a client of their ZooKeeper."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    with LocalCluster(version, brokers=BROKERS, racks=0, one_jvm=False) as cluster:
        client = KazooClient(hosts=cluster.zookeeper, timeout=30)
        client.start(timeout=30)
        try:
            yield cluster, client
        finally:
            client.stop()
            client.close()


def make_topics(cluster: LocalCluster, partitions: int, topics: int) -> tuple[Lists, Lists]:
    """Creates empty topics of one replica; returns their lists, and the lists with every replica on another broker."""
    before: dict[Entry, tuple[int, ...]] = {}
    for number in range(topics):
        topic, each = f"empty-{number:03}", len(range(number, partitions, topics))
        lists = {p: ((number + p) % BROKERS + 1,) for p in range(each)}
        cluster.create_topic(topic, lists)
        before |= {(topic, partition): replicas for partition, replicas in lists.items()}
    return before, {entry: elsewhere(replicas) for entry, replicas in before.items()}


class Bare:
    """Batches like the product's, on their own topics and with nothing around them. Each runs between two of those."""

    def __init__(self, client: KazooClient, cluster: LocalCluster, batches: Sequence[Sequence[Entry]]) -> None:
        """Creates topics with as many partitions as these batches have."""
        self._client = client
        numbers = {entry: number for topic in _by_topic(batches) for number, entry in enumerate(topic)}
        self._lists: dict[Entry, tuple[int, ...]] = {
            (f"bare-{topic}", n): (n % BROKERS + 1,) for (topic, _), n in numbers.items()
        }
        self._batches = [[(f"bare-{entry[0]}", numbers[entry]) for entry in batch] for batch in batches]
        for topic in sorted({topic for topic, _ in self._lists}):
            lists = {number: replicas for (name, number), replicas in self._lists.items() if name == topic}
            cluster.create_topic(topic, lists)
        self.seconds: list[float] = []  # of each batch

    def warm_up(self, batches: int) -> None:
        """Moves the first batches and does not count them."""
        for number in range(batches):
            self._move(number % len(self._batches))

    def batch(self) -> None:
        """Moves the next batch."""
        self.seconds.append(self._move(len(self.seconds) % len(self._batches)))

    @property
    def partitions(self) -> int:
        return sum(len(self._batches[number % len(self._batches)]) for number in range(len(self.seconds)))

    def _move(self, number: int) -> float:
        """Moves a batch; returns its seconds."""
        target = {entry: elsewhere(self._lists[entry]) for entry in self._batches[number]}
        began, ended = move(self._client, target)
        self._lists |= target
        return ended - began


def elsewhere(replicas: Sequence[int]) -> tuple[int, ...]:
    """Each replica on the next broker."""
    return tuple(broker % BROKERS + 1 for broker in replicas)


def move(client: KazooClient, lists: Lists) -> tuple[float, float]:
    """The times of the request and of its deletion. The controller deletes it when all partitions are in place."""
    entries = [{"topic": topic, "partition": p, "replicas": list(replicas)} for (topic, p), replicas in lists.items()]
    began = time.monotonic()
    client.create(REASSIGN, json.dumps({"version": 1, "partitions": entries}).encode())
    while client.exists(REASSIGN) is not None:
        if time.monotonic() > began + WAIT_SECONDS:
            raise SystemExit(f"A batch has not ended within {WAIT_SECONDS} s. The cluster has ended.")
        time.sleep(POLL_SECONDS)
    ended = time.monotonic()
    check_lists(client, lists)
    return began, ended


def _by_topic(batches: Sequence[Sequence[Entry]]) -> list[list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for batch in batches:
        for entry in batch:
            found.setdefault(entry[0], []).append(entry)
    return list(found.values())


def check_lists(client: KazooClient, lists: Lists) -> None:
    """Ends the benchmark unless every partition is in place, in sync and led."""
    for topic in sorted({topic for topic, _ in lists}):
        document = json.loads(client.get(f"/brokers/topics/{topic}")[0])
        now = {(topic, int(p)): tuple(replicas) for p, replicas in document["partitions"].items()}
        asked = {entry: replicas for entry, replicas in lists.items() if entry[0] == topic}
        answers = {e: client.get_async(f"/brokers/topics/{topic}/partitions/{e[1]}/state") for e in asked}
        states = {entry: json.loads(answer.get()[0]) for entry, answer in answers.items()}
        wrong = [
            e
            for e, r in asked.items()
            if now[e] != r or set(states[e]["isr"]) != set(r) or states[e]["leader"] not in r
        ]
        if wrong:
            raise SystemExit(f"{len(wrong)} partitions of {topic} are not in place, for example {wrong[0]}.")


class Created:
    """The time at which a znode is created: the lock, which is a run's first write, or a batch's request."""

    def __init__(self, client: KazooClient, path: str = REASSIGN) -> None:
        self._client, self._path = client, path
        self.at: float | None = None
        if client.exists(path, watch=self._seen) is not None:
            raise SystemExit(f"The znode {path} already exists, so its creation cannot be measured.")

    def _seen(self, event: object) -> None:
        self.at = time.monotonic()

    def later_than(self, began: float) -> float:
        if self.at is None:
            raise SystemExit(f"The znode {self._path} was not created.")
        return self.at - began
