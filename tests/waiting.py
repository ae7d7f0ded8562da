"""Waiting for what a real broker, ZooKeeper or process does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from kafka_rebalance.brokers.sizes import BrokerDisks, read_log_dirs
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition


def wait(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
    """Returns as soon as it holds; fails with `what` when it has not come to within so many seconds."""
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, f"after {seconds:.0f} s it does not hold that {what}"
        time.sleep(0.02)


def wait_for_replicas(kafka: KafkaConnection, replicas: Mapping[TopicPartition, Collection[int]]) -> BrokerDisks:
    """What these brokers tell of their log directories, once they tell of each of these replicas.

    ZooKeeper names a leader before the brokers have made their replicas and show the topic to clients.
    """
    asked = sorted({broker for holders in replicas.values() for broker in holders})
    told: list[BrokerDisks] = []

    def complete() -> bool:
        told[:] = [read_log_dirs(kafka, asked)]
        return all(told[0].replicas.get(one, {}).keys() >= set(holders) for one, holders in replicas.items())

    wait("every broker tells of its replicas", complete)
    return told[0]
