"""Requests to move replicas without ZooKeeper, on real brokers: what is sent, refused, and too late."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from kafka_rebalance.admin import reassignments
from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.configs import merge_configs
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.errors import LockLostError, WriteError
from kafka_rebalance.kafka.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.on_versions import without_zookeeper
from support.waiting import wait

LIVE = {1, 2, 3, 4}
NO_BOUND = partial(float, "inf")
ONE = LockOwner("kafka_rebalance/one", "d" * 64, "airflow (a1)")
TWO = LockOwner("kafka_rebalance/two", "e" * 64, "airflow (a1)")


cluster = without_zookeeper(brokers=4, controllers=1)


def request(
    wire: Wire, targets: dict[TopicPartition, tuple[int, ...]], late: float = 30.0, **more: Any
) -> dict[TopicPartition, str]:
    return reassignments.request_moves(wire, targets, registered=LIVE, not_later_than=time.monotonic() + late, **more)


def lists(wire: Wire, topic: str) -> dict[int, tuple[int, ...]]:
    return {tp.partition: one.replicas for tp, one in read_view(wire, [topic]).partitions.items()}


def slow_copy(wire: Wire, cluster: LocalCluster, topic: str) -> None:
    """A copy of partition 0 to broker 3 that does not end by itself."""
    cluster.produce(topic, {0: 20_000_000})
    throttle: dict[str, dict[str, str | None]] = {
        "brokers/3": {FOLLOWER_RATE: "100000"},
        f"topics/{topic}": {FOLLOWER_REPLICAS: "0:3"},
    }
    merge_configs(wire, throttle, decided_on={}, registered=LIVE, bound=NO_BOUND)
    assert request(wire, {TopicPartition(topic, 0): (1, 3)}) == {}
    assert reassignments.read_targets(wire) == {TopicPartition(topic, 0): (1, 3)}


def end_copy(wire: Wire, topic: str) -> None:
    reassignments.cancel_moves(wire, [TopicPartition(topic, 0)])
    held, gone = {"brokers/3": {FOLLOWER_RATE: "100000"}}, {"brokers/3": {FOLLOWER_RATE: None}}
    merge_configs(wire, gone, decided_on=held, registered=LIVE, bound=NO_BOUND)
    wait("nothing moves", lambda: not reassignments.read_targets(wire))


def test_what_kafka_refuses_is_told_and_the_rest_is_carried_out(wire: Wire, topic: str) -> None:
    good, absent = TopicPartition(topic, 0), TopicPartition(topic, 7)
    refused = request(wire, {good: (2, 1), absent: (1, 2)})
    assert list(refused) == [absent]
    assert "UnknownTopicOrPartition" in refused[absent]
    assert lists(wire, topic)[0] == (2, 1)


def test_a_request_that_keeps_factors_changes_none(wire: Wire, cluster: LocalCluster, topic: str) -> None:
    """Somebody may have changed the factor since the last look. Below 4.1 Kafka is not told (KIP-860)."""
    kept, longer = TopicPartition(topic, 0), TopicPartition(topic, 1)
    refused = request(wire, {kept: (2, 1), longer: (2, 1, 3)}, keeps_factors=True)
    assert lists(wire, topic)[0] == (2, 1)
    if cluster.version.startswith("3."):
        assert refused == {}
        return
    assert list(refused) == [longer]
    assert "InvalidReplicationFactor" in refused[longer]
    assert lists(wire, topic)[1] == (2, 1)
    assert request(wire, {longer: (2, 1, 3)}) == {}


@pytest.mark.parametrize("after", [(), (1, 1), (1, 9), (-1, 2)])
def test_a_list_that_must_not_be_is_not_sent(wire: Wire, topic: str, after: tuple[int, ...]) -> None:
    with pytest.raises(WriteError, match="Nothing was requested"):
        request(wire, {TopicPartition(topic, 0): after, TopicPartition(topic, 1): (1, 2)})
    assert lists(wire, topic) == {0: (1, 2), 1: (2, 1)}


def test_a_request_that_comes_too_late_is_not_sent(wire: Wire, topic: str) -> None:
    with pytest.raises(LockLostError, match="stood still"):
        request(wire, {TopicPartition(topic, 0): (2, 1)}, late=-1.0)
    assert lists(wire, topic)[0] == (1, 2)


def test_a_partition_in_flight_gets_no_other_target_and_the_same_one_is_left_out(
    wire: Wire, cluster: LocalCluster, topic: str
) -> None:
    moved, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    slow_copy(wire, cluster, topic)
    try:
        with pytest.raises(WriteError, match="somebody else moves it elsewhere"):
            request(wire, {moved: (1, 4), other: (1, 2)})
        assert lists(wire, topic)[1] == (2, 1)
        assert request(wire, {moved: (1, 3), other: (1, 2)}) == {}
        assert lists(wire, topic)[1] == (1, 2)
        assert reassignments.read_targets(wire) == {moved: (1, 3)}
    finally:
        end_copy(wire, topic)
    assert reassignments.cancel_moves(wire, [moved, other]) == frozenset(), "they had ended"


def test_the_next_holder_takes_back_what_an_earlier_run_asks_for_late(
    wire: Wire, cluster: LocalCluster, topic: str
) -> None:
    moved = TopicPartition(topic, 0)
    connection = ClusterConnection("kafka_test", None, KafkaConnection(cluster.bootstrap_servers))
    with open_cluster(connection) as frozen, open_cluster(connection) as taker:
        fence = frozen.lock.acquire(ONE)
        fence, _ = frozen.lock.open_intent(ONE, fence, {moved: (1, 3)}, 1)  # type: ignore[attr-defined]
        taker.lock.release(ONE)  # somebody has broken the lock
        taker.lock.acquire(TWO)
        assert taker.take_back_late_requests(TWO, {}) == frozenset()
        slow_copy(wire, cluster, topic)  # what the frozen worker sends when it wakes
        try:
            assert frozen.take_back_late_requests(ONE, {}) == frozenset(), "it does not hold the cluster"
            assert taker.take_back_late_requests(TWO, {moved: (1, 3)}) == frozenset(), "it asked for the same"
            assert taker.take_back_late_requests(TWO, {}) == {moved}
            wait("nothing moves", lambda: not reassignments.read_targets(wire))
            batch = Batch(1, (Move(moved, (1, 2), (1, 3), 0),), ONE.digest)
            with pytest.raises(LockLostError, match="was not requested"):
                frozen.request_moves(batch, ONE.digest, LIVE, view=frozen.read_view([topic]), fence=fence)
        finally:
            end_copy(wire, topic)
        taker.lock.release(TWO)
        assert lists(wire, topic)[0] in ((1, 2), (2, 1))


def test_leaders_are_elected_where_they_can_be(wire: Wire, cluster: LocalCluster, topic: str) -> None:
    led, absent = TopicPartition(topic, 0), TopicPartition(topic, 7)
    assert reassignments.elect_leaders(wire, [led]) == {}, "the preferred one leads already"
    left = reassignments.elect_leaders(wire, [led, absent])
    assert list(left) == [absent]
