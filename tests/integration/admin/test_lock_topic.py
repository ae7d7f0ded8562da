"""The topics behind the lock of a cluster without ZooKeeper: what makes them, when, where, and in which shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Offset
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from kafka_rebalance.admin import lock_topic
from kafka_rebalance.admin.clients import librdkafka_settings
from kafka_rebalance.admin.cluster_lock import TopicLock
from kafka_rebalance.admin.configs import TOPIC, alter_configs, set_or_delete
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.errors import ClusterNotReadyError, CorruptZnodeError, LockHeldError, LockLostError
from kafka_rebalance.kafka.topics import LOCK_TOPIC, OFFSETS_TOPIC, TRANSACTION_TOPIC
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import LeaseRecord, LockOwner
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.on_versions import without_zookeeper
from support.waiting import wait

ONE = LockOwner("kafka_rebalance/one", "d" * 64, "airflow (a1)", "2026-11-23T00:00:00+00:00")
ASKED = {"min.insync.replicas": "2", "cleanup.policy": "delete", "retention.ms": "-1", "compression.type": "producer"}


cluster = without_zookeeper(brokers=4, controllers=1)


@pytest.fixture
def opened(cluster: LocalCluster) -> Iterator[Callable[[], TopicLock]]:
    """Opens the lock as another worker does. Afterwards the lock's topic is gone."""
    kafka = KafkaConnection(cluster.bootstrap_servers)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(TopicLock(kafka, stack.enter_context(open_wire(kafka))))
    delete(cluster, LOCK_TOPIC)


def client(cluster: LocalCluster) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))


def topics(cluster: LocalCluster) -> dict[str, list[dict[str, Any]]]:
    admin = client(cluster)
    try:
        return {one["name"]: one["partitions"] for one in admin.describe_topics()}
    finally:
        admin.close()


def delete(cluster: LocalCluster, *names: str) -> None:
    admin = client(cluster)
    there = sorted(set(names) & set(admin.list_topics()))
    if there:
        admin.delete_topics(there)
    admin.close()
    wait(f"{names} are gone", lambda: not set(names) & topics(cluster).keys())


def configs(cluster: LocalCluster, name: str) -> dict[str, str]:
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
        return lock_topic.read_topic_configs(wire, [name])[name]


def test_reading_makes_no_topic(cluster: LocalCluster, opened: Callable[[], TopicLock]) -> None:
    before = set(topics(cluster))
    assert opened().read() is None
    assert set(topics(cluster)) == before
    lock = opened()
    lock.acquire(ONE)
    assert opened().read() == ONE
    lock.release(ONE)
    assert set(topics(cluster)) - before <= {LOCK_TOPIC, TRANSACTION_TOPIC}
    assert OFFSETS_TOPIC not in topics(cluster)


def test_what_the_lock_needs_is_made_on_brokers_that_stay(
    cluster: LocalCluster, opened: Callable[[], TopicLock]
) -> None:
    delete(cluster, TRANSACTION_TOPIC)
    assert opened().make_ready([4]) is True
    found = topics(cluster)
    for name in (LOCK_TOPIC, TRANSACTION_TOPIC):
        assert all(set(one["replica_nodes"]) == {1, 2, 3} for one in found[name]), found[name]
    assert opened().make_ready([4]) is False
    lock = opened()
    lock.acquire(ONE)
    lock.release(ONE)


def test_kafkas_own_topic_of_transactions_has_the_shape_that_kafka_gives_it(cluster: LocalCluster) -> None:
    made = {}
    for by in ("kafka", "us"):
        delete(cluster, TRANSACTION_TOPIC, LOCK_TOPIC)
        if by == "us":
            with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
                lock_topic.make_topics(wire, [4])
        else:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "any"})
            producer.init_transactions(60)
        partitions = topics(cluster)[TRANSACTION_TOPIC]
        made[by] = (
            configs(cluster, TRANSACTION_TOPIC),
            len(partitions),
            {len(one["replica_nodes"]) for one in partitions},
        )
    assert made["us"] == made["kafka"]


def test_a_topic_of_the_wrong_shape_is_mended_when_it_is_opened(
    cluster: LocalCluster, opened: Callable[[], TopicLock]
) -> None:
    """As a client makes it that asks for it while brokers make whatever topic is asked for."""
    delete(cluster, LOCK_TOPIC)
    admin = client(cluster)
    admin.create_topics([NewTopic(LOCK_TOPIC, 1, 1)])
    admin.close()
    wait("the topic is there", lambda: LOCK_TOPIC in topics(cluster))
    lock = opened()
    lock.acquire(ONE)
    (partition,) = topics(cluster)[LOCK_TOPIC]
    assert len(partition["replica_nodes"]) == len(partition["isr_nodes"]) == 3
    assert ASKED.items() <= configs(cluster, LOCK_TOPIC).items()
    assert opened().read() == ONE
    lock.release(ONE)


def test_a_topic_that_loses_its_configs_gets_them_again(cluster: LocalCluster, opened: Callable[[], TopicLock]) -> None:
    opened().acquire(ONE)
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
        changed = {"retention.ms": "86400000", "min.insync.replicas": "1"}
        wire.read(alter_configs(TOPIC, {LOCK_TOPIC: [set_or_delete(*config) for config in changed.items()]}))
    opened().raise_held(ONE)
    assert ASKED.items() <= configs(cluster, LOCK_TOPIC).items()


def test_no_client_of_ours_makes_a_topic_by_asking_for_it(cluster: LocalCluster) -> None:
    settings = librdkafka_settings(KafkaConnection(cluster.bootstrap_servers))
    producer = Producer({**settings, "message.timeout.ms": 2000})
    producer.list_topics("never-made", timeout=10)
    producer.produce("never-made-either", b"x", on_delivery=lambda *_: None)
    producer.flush(5)
    assert not {"never-made", "never-made-either"} & topics(cluster).keys()
    allowed = Producer({**settings, "allow.auto.create.topics": True})
    allowed.list_topics("made-by-asking", timeout=10)  # else this test would show nothing
    wait("Kafka makes what is asked for", lambda: "made-by-asking" in topics(cluster))
    delete(cluster, "made-by-asking")


def test_a_lock_topic_that_is_deleted_under_a_worker_is_not_made_again_by_its_producer(
    cluster: LocalCluster, opened: Callable[[], TopicLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_rebalance.admin.cluster_lock._TRANSACTION_MS", 3_000)
    lock = opened()
    lock.acquire(ONE)
    delete(cluster, LOCK_TOPIC)
    with pytest.raises(LockHeldError, match="does not hold the cluster any more"):
        lock.raise_held(ONE)
    assert len(topics(cluster)[LOCK_TOPIC][0]["replica_nodes"]) == 3
    assert ASKED.items() <= configs(cluster, LOCK_TOPIC).items()


def test_too_few_brokers_for_transactions_are_told_at_once() -> None:
    factor = {"transaction.state.log.replication.factor": "3"}
    with LocalCluster("4.4.0", brokers=2, racks=0, kraft=True, controllers=1, broker_config=factor) as small:
        kafka = KafkaConnection(small.bootstrap_servers)
        with open_wire(kafka) as wire, TopicLock(kafka, wire) as lock:
            for call in (lambda: lock.make_ready([]), lambda: lock.acquire(ONE)):
                with pytest.raises(ClusterNotReadyError, match=r"gets 3 replicas .*only 2 brokers are live"):
                    call()
        assert not topics(small)


def test_a_log_whose_first_records_are_gone_is_read_if_its_last_record_is_whole(
    cluster: LocalCluster, opened: Callable[[], TopicLock]
) -> None:
    lock = opened()
    fence = lock.acquire(ONE)
    delete_records(cluster, int(fence.generation[-16:]))
    assert opened().read() == ONE
    assert opened().read_fence() == fence
    later = opened().raise_held(ONE)
    assert later.generation > fence.generation


@pytest.mark.parametrize("gone", ["all records", "an announced request"])
def test_a_log_that_cannot_be_used_is_begun_anew_by_a_person(
    cluster: LocalCluster, opened: Callable[[], TopicLock], gone: str
) -> None:
    lock = opened()
    fence = lock.acquire(ONE)
    announced, _ = lock.open_intent(ONE, fence, {TopicPartition("orders", 0): (3, 1)}, 1)
    assert opened().begin_anew() is False, "the log can be used"
    if gone == "an announced request":
        lock.raise_held(ONE)
    delete_records(cluster, -1 if gone == "all records" else int(announced.generation[-16:]) + 1)
    for call in (lambda: opened().read(), lambda: opened().acquire(ONE), lambda: opened().read_open_intents()):
        with pytest.raises(CorruptZnodeError, match="break_lock '__kafka_rebalance'"):
            call()
    assert opened().begin_anew() is True
    assert opened().read() is None
    assert opened().read_open_intents() == []
    assert opened().acquire(ONE).generation > announced.generation
    with pytest.raises(LockLostError):
        opened().write_lease(LeaseRecord(fence.generation, b"{}"), run="one", fence=announced)


def delete_records(cluster: LocalCluster, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for answer in admin.delete_records([Offset(LOCK_TOPIC, 0, before)]).values():
        answer.result()
