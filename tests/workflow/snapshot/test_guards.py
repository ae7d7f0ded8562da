"""Clusters on which nobody should plan or write: the snapshot says why, and the simulated ZooKeeper sees no write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafka_rebalance.errors import ClusterNotReadyError, CorruptZnodeError, RebalanceError
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run import snapshot_reader
from support.zookeeper.fake_zookeeper import FakeZooKeeper, fake_cluster

CONNECTION = ClusterConnection("prod", ZooKeeperConnection("fake:2181"), KafkaConnection("nobody:9092"))
TOPIC = "/brokers/topics/orders"
STATE = f"{TOPIC}/partitions/0/state"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeZooKeeper:
    """A healthy cluster of four brokers; no broker is ever asked, since the guards come before that."""
    cluster = fake_cluster({"orders": {0: (1, 2), 1: (2, 3)}})

    @contextmanager
    def open_fake(connection: ZooKeeperConnection) -> Iterator[FakeZooKeeper]:
        yield cluster

    monkeypatch.setattr("kafka_rebalance.cluster.open_cluster.open_client", open_fake)
    monkeypatch.setattr(snapshot_reader, "STORM_PAUSE_SECONDS", 0)
    return cluster


def refused(fake: FakeZooKeeper, settings: Settings | None = None) -> RebalanceError:
    """What the snapshot says; it must not have written anything."""
    fake.writes.clear()
    with pytest.raises(RebalanceError) as caught:
        snapshot_reader.read_snapshot(CONNECTION, settings or Settings())
    assert fake.writes == []
    return caught.value


def in_motion(fake: FakeZooKeeper) -> None:
    document = fake.json(TOPIC)
    document["adding_replicas"] = {"0": [3]}
    fake.put_json(TOPIC, document)


def without_leader(fake: FakeZooKeeper) -> None:
    fake.put_json(STATE, {**fake.json(STATE), "leader": -1})


def kraft(fake: FakeZooKeeper) -> None:
    fake.put_json("/controller", {**fake.json("/controller"), "version": 2, "kraftControllerEpoch": 7})


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (
            lambda fake: fake.put_json("/admin/reassign_partitions", {"version": 1, "partitions": []}),
            "/admin/reassign_partitions",
        ),
        (in_motion, "replicas are being added or removed"),
        (
            lambda fake: fake.put_json(
                "/admin/preferred_replica_election",
                {"version": 1, "partitions": [{"topic": "orders", "partition": 0}]},
            ),
            "a preferred election is under way",
        ),
        (lambda fake: fake.create("/admin/delete_topics/orders", b""), "topics are being deleted (orders)"),
        (without_leader, "1 partition without a live leader: orders-0"),
        (lambda fake: fake.delete("/brokers/ids/3"), "broker 3: it is not registered and holds 1 replica (orders-1)"),
        (lambda fake: fake.delete("/controller"), "controller"),
        (lambda fake: fake.delete("/brokers/ids/1"), "controller"),
        (kraft, "KRaft"),
    ],
)
def test_a_cluster_in_such_a_condition_is_refused(
    fake: FakeZooKeeper, spoil: Callable[[FakeZooKeeper], None], named: str
) -> None:
    spoil(fake)
    error = refused(fake)
    assert isinstance(error, ClusterNotReadyError)
    assert named in str(error)


def test_an_election_storm_is_refused(fake: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poison znode makes dozens of controllers a second; the epoch tells."""
    monkeypatch.setattr(snapshot_reader.time, "sleep", lambda seconds: fake.set("/controller_epoch", b"90"))
    with pytest.raises(ClusterNotReadyError, match="epoch"):
        snapshot_reader.read_snapshot(CONNECTION, Settings())
    assert [path for _, path in fake.writes] == ["/controller_epoch"], "the storm's own write and no other"


def test_a_broker_that_is_down_may_be_the_one_that_is_drained(
    fake: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.delete("/brokers/ids/3")

    class GuardsPassed(Exception):
        pass

    def ask_brokers(*_: object) -> None:
        raise GuardsPassed

    monkeypatch.setattr("kafka_rebalance.cluster.with_zookeeper.check_same_cluster", ask_brokers)
    with pytest.raises(GuardsPassed):
        snapshot_reader.read_snapshot(CONNECTION, Settings(job="drain", drain=(3,)))
    assert "broker 3" in str(refused(fake, Settings(job="drain", drain=(4,))))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (TOPIC, b'{"version":1,"partitions":{"0":["1","2"]}}'),
        (TOPIC, b"{not json"),
        (STATE, b'{"version":1}'),
        ("/brokers/ids/2", b"[]"),
        ("/controller", b""),
        ("/cluster/id", b'"x"'),
        ("/admin/reassign_partitions", b"\xff\xfe"),
    ],
)
def test_a_corrupt_znode_is_named(fake: FakeZooKeeper, path: str, content: bytes) -> None:
    if path in fake.znodes:
        fake.set(path, content)
    else:
        fake.create(path, content)
    error = refused(fake)
    assert isinstance(error, CorruptZnodeError)
    assert path in str(error)
