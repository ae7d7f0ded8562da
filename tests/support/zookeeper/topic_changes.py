"""The writes of `kafka_rebalance.zookeeper.topic_writes` on a fake cluster that has, or gets, the topic `orders`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.zookeeper.topic_writes import (
    Created,
    create_topic,
    delete_topic,
    set_topic_configs,
    write_more_partitions,
)
from support.zookeeper.fake_zookeeper import REASSIGN, FakeZooKeeper, put_topic

BROKERS = {1, 2, 3, 4}
TOPIC, CONFIG, MARKER = "/brokers/topics/orders", "/config/topics/orders", "/admin/delete_topics/orders"
NEW: dict[int, list[int]] = {0: [1, 2], 1: [2, 3]}
NEW_CONFIG = {"retention.ms": "1000"}


def create(
    fake: FakeZooKeeper,
    version: str = "2.8",
    *,
    assignment: Mapping[int, Sequence[int]] = NEW,
    configs: Mapping[str, str] = NEW_CONFIG,
    topic: str = "orders",
    registered: Collection[int] = BROKERS,
) -> Created:
    return create_topic(fake, topic, assignment, configs, version=version, registered=registered)


def identity(fake: FakeZooKeeper, topic: str = "orders") -> TopicIdentity:
    path = f"/brokers/topics/{topic}"
    znode = fake.znodes[path]
    return TopicIdentity(znode.version, znode.czxid, fake.json(path).get("topic_id"))


def expand(
    fake: FakeZooKeeper,
    added: Mapping[int, Sequence[int]] | None = None,
    *,
    expected: TopicIdentity | None = None,
    registered: Collection[int] = BROKERS,
) -> None:
    added = {2: [3, 4]} if added is None else added
    write_more_partitions(fake, "orders", added, expected=expected or identity(fake), registered=registered)


def put(fake: FakeZooKeeper, path: str, document: object) -> None:
    """As another client does: not one of our writes."""
    fake.put_json(path, document)
    fake.writes.clear()


def reassign(fake: FakeZooKeeper, *topics: str) -> None:
    entries = [{"topic": topic, "partition": 0, "replicas": [3, 4]} for topic in topics]
    put(fake, REASSIGN, {"version": 1, "partitions": entries})


def mark(fake: FakeZooKeeper) -> None:
    fake.create(MARKER)
    fake.writes.clear()


def make_again(fake: FakeZooKeeper, version: str) -> None:
    """Deleted and made anew under the same name, with the same assignment."""
    fake.delete(TOPIC, recursive=True)
    put_topic(fake, "orders", NEW, version=version)
    fake.writes.clear()


def every_change(fake: FakeZooKeeper, expected: TopicIdentity, version: str) -> dict[str, Callable[[], object]]:
    return {
        "expand": lambda: expand(fake, expected=expected),
        "configs": lambda: set_topic_configs(fake, "orders", NEW_CONFIG, version=version, expected=expected),
        "delete": lambda: delete_topic(fake, "orders", expected=expected),
    }
