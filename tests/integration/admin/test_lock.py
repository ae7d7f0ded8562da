"""The lock of a cluster without ZooKeeper, on real brokers: who holds it, and who is fenced off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient

from kafka_rebalance.admin import cluster_lock
from kafka_rebalance.admin.cluster_lock import TopicLock
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.errors import CorruptZnodeError, LockHeldError, LockLostError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import NO_FENCE, LeaseRecord, LockOwner
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.on_versions import without_zookeeper
from support.waiting import wait

ONE = LockOwner("kafka_rebalance/one", "d" * 64, "airflow (a1)", "2026-11-23T00:00:00+00:00")
TWO = LockOwner("kafka_rebalance/two", "e" * 64, "airflow (a1)")
MOVES = {TopicPartition("orders", 0): (3, 1), TopicPartition("orders", 1): (2, 3)}
WRITES: dict[str, Callable[[TopicLock, Any], object]] = {
    "release": lambda lock, fence: lock.release(ONE, fence=fence),
    "lease": lambda lock, fence: lock.write_lease(LeaseRecord(fence.generation, b"{}"), run="one", fence=fence),
    "intent": lambda lock, fence: lock.open_intent(ONE, fence, MOVES, 1),
}


cluster = without_zookeeper(brokers=3, controllers=1)


@pytest.fixture
def opened(cluster: LocalCluster) -> Iterator[Callable[[], TopicLock]]:
    """Opens the lock as another worker does. Afterwards nobody holds it."""
    kafka = KafkaConnection(cluster.bootstrap_servers)
    with ExitStack() as stack:

        def make() -> TopicLock:
            return stack.enter_context(TopicLock(kafka, stack.enter_context(open_wire(kafka))))

        yield make
        last = make()
        holder = last.read()
        if holder is not None:
            last.release(holder)
        for intent in last.read_open_intents():
            last.end_intent(intent.id)


def test_the_topic_is_made_with_the_first_write_alone(cluster: LocalCluster, opened: Callable[[], TopicLock]) -> None:
    with opened() as lock:
        client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
        if LOCK_TOPIC not in client.list_topics():
            assert (lock.read(), lock.read_fence(), lock.read_lease()) == (None, NO_FENCE, None)
            assert lock.release(ONE) is False
            assert LOCK_TOPIC not in client.list_topics()
        lock.acquire(ONE)
        assert LOCK_TOPIC in client.list_topics()
        lock.release(ONE)
        client.close()


def test_one_run_holds_the_cluster_until_it_gives_it_back(opened: Callable[[], TopicLock]) -> None:
    first, second = opened(), opened()
    fence = first.acquire(ONE)
    assert second.read() == ONE
    for refused in (second.acquire, second.raise_held, second.read_own_fence, second.release):
        with pytest.raises(LockHeldError, match=r"kafka_rebalance/one of airflow \(a1\) since .*break_lock"):
            refused(TWO)
    assert first.read_fence() == second.read_fence() == fence
    assert first.release(ONE) is True
    assert first.release(ONE) is False
    with pytest.raises(LockHeldError, match="does not hold the cluster any more"):
        first.raise_held(ONE)
    assert second.acquire(TWO).generation > fence.generation


def test_a_run_takes_its_lock_again_with_a_newer_digest(opened: Callable[[], TopicLock]) -> None:
    lock, newer = opened(), replace(ONE, digest="f" * 64, acquired_at="later")
    before = lock.acquire(ONE)
    after = opened().acquire(newer)
    assert after.generation > before.generation > "ffffffffffffffff-0000000001"
    assert opened().read() == replace(ONE, digest=newer.digest)
    with pytest.raises(LockHeldError):
        lock.raise_held(ONE)


def test_of_many_at_once_one_takes_the_cluster(opened: Callable[[], TopicLock]) -> None:
    owners = [replace(ONE, run=f"kafka_rebalance/{number}") for number in range(6)]
    took, refused = [], []

    def claim(lock: TopicLock, owner: LockOwner) -> None:
        try:
            lock.acquire(owner)
            took.append(owner)
        except LockHeldError:
            refused.append(owner)

    workers = [threading.Thread(target=claim, args=(opened(), owner)) for owner in owners]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(took) == 1
    assert len(refused) == len(owners) - 1
    assert opened().read() == took[0]


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_that_stood_still_writes_nothing(opened: Callable[[], TopicLock], write: str) -> None:
    frozen, other = opened(), opened()
    fence = frozen.acquire(ONE)
    now = other.raise_fence()
    assert now.generation > fence.generation
    with pytest.raises(LockLostError):
        WRITES[write](frozen, fence)
    assert other.read_fence() == now
    assert other.read() == ONE
    assert other.read_open_intents() == []
    WRITES[write](frozen, now)


def test_an_announced_request_stays_known_until_its_end(opened: Callable[[], TopicLock]) -> None:
    lock = opened()
    fence, name = lock.open_intent(ONE, lock.acquire(ONE), MOVES, 7)
    assert fence == lock.read_fence()
    lock.release(ONE, fence=fence)
    taker = opened()
    taker.acquire(TWO)
    (intent,) = taker.read_open_intents()
    assert (intent.id, intent.run, intent.owner, intent.batch, intent.targets) == (name, ONE.run, ONE.owner, 7, MOVES)
    before = taker.read_fence()
    taker.end_intent(name)
    taker.end_intent(name)
    assert taker.read_open_intents() == []
    assert taker.read_fence() == before
    assert taker.read_time_of_fence() >= intent.at


def test_a_large_lease_is_kept_and_a_later_one_is_not_replaced(opened: Callable[[], TopicLock]) -> None:
    lock = opened()
    fence = lock.acquire(ONE)
    text = b"".join(b"%d:%d," % (number, hash((number, "x")) % 2**61) for number in range(200_000))
    lock.write_lease(LeaseRecord(fence.generation, text), run="one", fence=fence)
    assert opened().read_lease() == LeaseRecord(fence.generation, text)
    lock.write_lease(LeaseRecord("log-0", b"earlier"), run="one", fence=fence)
    lock.raise_held(ONE)
    assert opened().read_lease() == LeaseRecord(fence.generation, text)
    lock.delete_lease()
    assert opened().read_lease() is None


def test_a_stranger_in_the_log_is_an_error_and_not_a_free_cluster(
    opened: Callable[[], TopicLock], cluster: LocalCluster
) -> None:
    opened().acquire(ONE)
    stranger = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    stranger.produce(LOCK_TOPIC, b"hello", partition=0)
    stranger.flush()
    for read in (opened().read, opened().read_fence, opened().raise_fence):
        with pytest.raises(CorruptZnodeError, match=LOCK_TOPIC):
            read()
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    client.delete_topics([LOCK_TOPIC])
    wait("the log is gone", lambda: LOCK_TOPIC not in client.list_topics())
    client.close()


def test_a_log_that_was_deleted_and_made_again_has_later_generations(
    opened: Callable[[], TopicLock], cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_lock, "_TRANSACTION_MS", 3_000)  # for so long librdkafka looks for the deleted log
    lock = opened()
    before = [lock.raise_fence() for _ in range(3)][-1]
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    client.delete_topics([LOCK_TOPIC])
    wait("the log is gone", lambda: LOCK_TOPIC not in client.list_topics())
    client.close()
    with pytest.raises(LockLostError):
        lock.write_lease(LeaseRecord(before.generation, b"{}"), run="one", fence=before)
    assert opened().raise_fence().generation > before.generation


def test_nothing_acknowledged_is_lost_with_the_leader_of_the_log(
    opened: Callable[[], TopicLock], cluster: LocalCluster
) -> None:
    lock = opened()
    lock.acquire(ONE)
    fence = lock.raise_held(ONE)
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    (topic,) = client.describe_topics([LOCK_TOPIC])
    leader = topic["partitions"][0]["leader_id"]
    client.close()
    cluster.stop_broker(leader)
    try:
        assert opened().read() == ONE
        assert opened().read_fence() == fence
        later = lock.raise_held(ONE)
        assert later.generation > fence.generation
        assert opened().read_fence() == later
    finally:
        cluster.start_broker(leader)
