"""What is bad is never written: not over a znode that cannot be read, nor out of a plan that makes no sense.

The ZooKeeper is one in memory, on which a refused document must not have made a single write.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper import config_writes, writer
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.documents.bad_documents import spoiled_bytes, spoiled_value
from support.documents.valid_documents import (
    BROKER,
    CLUSTER,
    CONFIG,
    CONTROLLER,
    ENTRY,
    LISTS,
    OWNER,
    REQUEST,
    SEED,
    STATE,
    TOPIC,
    Refused,
    use,
)
from support.kafka.small_clusters import DIGEST
from support.zookeeper.fake_zookeeper import FakeZooKeeper, fake_cluster

MOVE = Move(TopicPartition("orders", 0), (1, 2), (2, 3), 100, 1)
ZNODES: dict[str, Any] = {
    "/brokers/topics/orders": TOPIC,
    "/brokers/topics/orders/partitions/0/state": STATE,
    "/brokers/ids/1": BROKER,
    "/controller": CONTROLLER,
    "/cluster/id": CLUSTER,
    "/config/topics/orders": CONFIG,
    "/admin/reassign_partitions": {"version": 1, "partitions": [ENTRY]},
    "/admin/preferred_replica_election": {"version": 1, "partitions": [{"topic": "orders", "partition": 0}]},
    "/kafka_rebalance/run": OWNER,
}


def writes(fake: FakeZooKeeper) -> tuple[Callable[[], object], ...]:
    """Everything that a run writes to ZooKeeper, as if what it has read before were all right."""
    batch = Batch(1, (MOVE,), DIGEST)
    run = LockOwner("kafka_rebalance/two", DIGEST, "http://airflow")
    client: Any = fake
    return (
        lambda: writer.create_reassignment(client, batch, DIGEST, {1, 2, 3}),
        lambda: config_writes.merge_config(client, "topics/orders", LISTS),
        lambda: writer.create_election(client, [MOVE.topic_partition], read_cluster_view(client, {"orders"})),
        lambda: ZooKeeperLock(client).acquire(run),
        lambda: ZooKeeperLock(client).release(run),
    )


@pytest.mark.slow
def test_where_a_znode_is_bad_nothing_is_written_over_it() -> None:
    """Each refusal leaves every znode as it was; what a write rests on is read before it."""
    rng = random.Random(SEED)
    refused = 0
    for number in range(4_000):
        path = rng.choice(list(ZNODES))
        fake = fake_cluster({"orders": {0: (1, 2)}}, brokers=3)
        fake.create(path, b"", makepath=True) if path not in fake.znodes else None
        fake.znodes[path].data = data = spoiled_bytes(rng, ZNODES[path])
        fake.writes.clear()
        act = rng.choice(writes(fake))
        try:
            use(act)
        except Refused:
            refused += 1
            assert fake.writes == [], f"{number}: {path} {data[:2000]!r}"
            assert fake.znodes[path].data == data
        except BaseException as wrong:
            wrong.add_note(f"{number}: {path} {data[:2000]!r}")
            raise
    assert refused > 500


@pytest.mark.slow
def test_a_bad_batch_is_never_written() -> None:
    """Whatever the moves hold: the request is of the one form that controllers can read, or none is made."""
    rng = random.Random(SEED)
    requested = 0
    for number in range(6_000):
        move = spoiled_value(rng, ["orders", 0, [1, 2], [2, 3]])
        fake = fake_cluster({"orders": {0: (1, 2)}}, brokers=3)
        client: Any = fake
        try:
            name, partition, before, after = move
            batch = Batch(1, (Move(TopicPartition(name, partition), before, after, 100, 1),), DIGEST)
            hash(batch.moves[0].topic_partition)
        except (TypeError, ValueError):
            continue  # no move at all
        try:
            use(lambda batch=batch, client=client: writer.create_reassignment(client, batch, DIGEST, {1, 2, 3}))
        except Refused:
            assert fake.writes == []
        except BaseException as wrong:
            wrong.add_note(f"{number}: {str(move)[:2000]}")
            raise
        else:
            requested += 1
            data = fake.znodes["/admin/reassign_partitions"].data
            assert REQUEST.fullmatch(data), data
            assert set(json.loads(data)["partitions"][0]["replicas"]) <= {1, 2, 3}
    assert requested > 500
