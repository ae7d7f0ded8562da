"""A member of a consumer group that reads a topic until its test is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from kafka_rebalance.local_cluster import LocalCluster
from support.waiting import wait


@contextmanager
def consuming(cluster: LocalCluster, group: str, topic: str, **settings: str) -> Iterator[None]:
    """A member of a group, which has committed an offset of every partition once it is there."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "broker.address.family": "v4",
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    read, ended = threading.Event(), threading.Event()

    def poll() -> None:
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and not message.error() and not read.is_set():
                consumer.commit(message, asynchronous=False)
                read.set()
        consumer.close()

    consumer.subscribe([topic])
    thread = threading.Thread(target=poll)
    thread.start()
    try:
        wait(f"group {group} has read of {topic}", read.is_set, seconds=120)
        yield
    finally:
        ended.set()
        thread.join()
