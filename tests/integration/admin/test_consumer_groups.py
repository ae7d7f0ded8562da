"""Consumer groups and offsets in time, as real brokers tell them of real consumers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientTopicPartition

from kafka_rebalance.admin.groups import read_groups
from kafka_rebalance.admin.offsets import read_offset_ranges
from kafka_rebalance.documents.key_sample import OffsetRange
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.consumer_groups import ConsumerGroup, TopicGroups
from kafka_rebalance.topics.forecast import forecast_groups

Name = Callable[[], str]


@pytest.fixture
def consume(cluster: LocalCluster) -> Iterator[Callable[..., None]]:
    """Starts a consumer that stays in its group until the test is over."""
    ended, threads = threading.Event(), []

    def poll(consumer: Consumer) -> None:
        while not ended.is_set():
            consumer.poll(0.05)
        consumer.close()

    def start(group: str, client: str, topics: list[str], **settings: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "broker.address.family": "v4",
                "group.id": group,
                "client.id": client,
                "enable.auto.commit": False,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        consumer.subscribe(topics)
        threads.append(threading.Thread(target=poll, args=(consumer,)))
        threads[-1].start()

    yield start
    ended.set()
    for thread in threads:
        thread.join()


def settled(kafka: KafkaConnection, topic: str, partitions: range, members: int) -> ConsumerGroup:
    """The one group of the topic, once it is stable with so many members."""
    give_up = time.monotonic() + 60
    while True:
        groups = read_groups(kafka, topic, partitions).groups
        if len(groups) == 1 and groups[0].state == "Stable" and len(groups[0].members) == members:
            return groups[0]
        assert time.monotonic() < give_up, groups
        time.sleep(0.1)


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_what_real_consumers_got_is_what_the_forecast_says_of_before(
    cluster: LocalCluster, kafka: KafkaConnection, consume: Callable[..., None], fresh_topic_name: Name, assignor: str
) -> None:
    first, second = fresh_topic_name(), fresh_topic_name()
    for topic in (first, second):
        cluster.create_topic(topic, {0: (1,), 1: (2,), 2: (3,)})
    for client in ("c10", "c2"):
        consume(f"readers-of-{first}", client, [first, second], partition_assignment_strategy=assignor)
    found = settled(kafka, first, range(3), members=2)
    assert (found.group, found.assignor) == (f"readers-of-{first}", assignor)
    assert {member.client_id: member.host for member in found.members} == dict.fromkeys(("c10", "c2"), "127.0.0.1")
    (forecast,) = forecast_groups(first, 6, [found], {first: 3, second: 3})
    (in_use,) = [under for under in forecast.assignors if under.in_use]
    real = {member.member_id: tuple(p for topic, p in member.assigned if topic == first) for member in found.members}
    assert {member.member_id: member.before for member in in_use.members} == real
    assert in_use.imbalance_before == forecast.imbalance_now
    assert forecast.no_longer_matching == (second,)


def test_a_member_without_partitions_still_shows_what_it_subscribes(
    cluster: LocalCluster, kafka: KafkaConnection, consume: Callable[..., None], fresh_topic_name: Name
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1,)})
    for client in "abc":
        consume(f"idle-{topic}", client, [topic])
    found = settled(kafka, topic, range(1), members=3)
    assert [member.topics for member in found.members] == [(topic,)] * 3
    assert sorted(len(member.assigned) for member in found.members) == [0, 0, 1]
    (forecast,) = forecast_groups(topic, 3, [found], {topic: 1})
    assert {(under.idle_before, under.idle_after) for under in forecast.assignors} == {(2, 0)}


def test_a_group_without_members_is_found_by_its_offsets(
    cluster: LocalCluster, kafka: KafkaConnection, fresh_topic_name: Name
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1,), 1: (2,), 2: (3,)})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"left-{topic}", "log_level": 0})
    consumer.commit(offsets=[ClientTopicPartition(topic, 1, 0)], asynchronous=False)
    consumer.close()
    (found,) = read_groups(kafka, topic, range(3)).groups
    assert (found.group, found.state, found.members, found.committed) == (f"left-{topic}", "Empty", (), (1,))


def test_groups_of_other_topics_are_left_out(
    cluster: LocalCluster, kafka: KafkaConnection, consume: Callable[..., None], fresh_topic_name: Name
) -> None:
    read, unread = fresh_topic_name(), fresh_topic_name()
    for topic in (read, unread):
        cluster.create_topic(topic, {0: (1,)})
    consume(f"readers-of-{read}", "c", [read])
    settled(kafka, read, range(1), members=1)
    assert read_groups(kafka, unread, range(1)) == TopicGroups(())


def test_offsets_are_bounded_by_time_and_by_rows(
    cluster: LocalCluster, kafka: KafkaConnection, fresh_topic_name: Name
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1,), 1: (2,), 2: (3,), 3: (4,)})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "broker.address.family": "v4"})
    now = int(time.time() * 1000)
    for partition, ages in {0: [9, 8, 3, 2, 1], 1: [9], 2: [2]}.items():
        for age in ages:
            producer.produce(topic, value=b"x", partition=partition, timestamp=now - age * 60_000)
        assert producer.flush(30) == 0

    def ranges(max_rows: int) -> tuple[OffsetRange, ...]:
        since = now - 3 * 60_000
        return read_offset_ranges(kafka, topic, range(4), max_rows=max_rows, not_before_ms=since)

    assert ranges(100) == (OffsetRange(0, 2, 5), OffsetRange(1, 1, 1), OffsetRange(2, 0, 1), OffsetRange(3, 0, 0))
    assert ranges(3)[0] == OffsetRange(0, 3, 5)
    assert sum(each.offsets for each in ranges(3)) <= 3
