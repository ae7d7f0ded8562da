"""Real records in real partitions."""

import random
import time
from collections.abc import Collection, Mapping
from typing import Any

from kafka_rebalance.local_cluster.errors import LocalClusterError

RECORD_BYTES = 10_240
_TIMEOUT_SECONDS = 120


def produce_records(bootstrap_servers: str, topic: str, size_bytes: Mapping[int, int]) -> None:
    """Write so many bytes of values to each partition, acknowledged by all replicas in sync.

    Values are the same pseudo-random bytes each time, which do not compress. A log is a little larger: Kafka adds a few
    bytes for each record and batch.
    """
    from confluent_kafka import Producer

    failed: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "allow.auto.create.topics": False,  # a topic that does not exist yet is awaited, not made
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 900_000,
            "queue.buffering.max.kbytes": 65_536,
            "broker.address.family": "v4",
            "message.timeout.ms": _TIMEOUT_SECONDS * 1000,
            "log_level": 0,
        }
    )
    _wait_until_known(producer, topic, size_bytes)
    pool = random.Random(0).randbytes(RECORD_BYTES * 2)
    number = 0
    for written in range(0, max(size_bytes.values(), default=0), RECORD_BYTES):
        for partition, total in size_bytes.items():
            if written < total:
                start = number * 7 % RECORD_BYTES
                number += 1
                value = pool[start : start + min(RECORD_BYTES, total - written)]
                produce(producer, topic, value, partition=partition, on_delivery=delivered)
    waiting = producer.flush(_TIMEOUT_SECONDS)
    if failed or waiting:
        raise LocalClusterError(
            f"Topic {topic}: {len(failed) + waiting} of {number} records were not acknowledged by all replicas "
            f"({failed[0] if failed else f'no answer within {_TIMEOUT_SECONDS} s'}). The others were written."
        )


def produce(producer: Any, *arguments: Any, **options: Any) -> None:
    """`producer.produce` with these arguments. Waits while the producer's queue is full."""
    while True:
        try:
            producer.produce(*arguments, **options)
            break
        except BufferError:
            producer.poll(0.1)
    producer.poll(0)


def _wait_until_known(producer: Any, topic: str, partitions: Collection[int]) -> None:
    """Returns when brokers show the partitions to clients, a moment after these have a leader in ZooKeeper.

    The client itself waits for an unknown topic, but gives up at once on an unknown partition.
    """
    give_up = time.monotonic() + _TIMEOUT_SECONDS
    while unknown := set(partitions) - set(producer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions):
        if time.monotonic() > give_up:
            raise LocalClusterError(
                f"Topic {topic}: after {_TIMEOUT_SECONDS} s the brokers do not know partition {min(unknown)}. "
                "Nothing was written."
            )
        time.sleep(0.02)
