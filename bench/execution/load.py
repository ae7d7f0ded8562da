"""Produce and fetch latencies of a steady load, while nothing moves and while data moves.

The load is a process of its own: a producer at a fixed rate with acks=all, and a consumer of the same topic. A record
carries the time at which the producer got it. All processes of a machine share that clock.
"""

from __future__ import annotations

import gc
import multiprocessing
import struct
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from faults.load import LoadProcess

RECORDS_PER_SECOND = 200
RECORD_BYTES = 1_000
_STAMP = struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class Latencies:
    """The 50th and 99th percentile in milliseconds, over the records of a window."""

    records: int
    produced: tuple[float, float]  # until acknowledged by all replicas in sync
    fetched: tuple[float, float]  # until a consumer has the record


@dataclass(frozen=True, slots=True)
class Seen:
    """[sent at, milliseconds, ...] of acknowledged records and of read records."""

    acknowledged: array[float]
    fetched: array[float]
    refused: int

    def during(self, windows: Sequence[tuple[float, float]]) -> Latencies:
        produced, fetched = (_within(pairs, windows) for pairs in (self.acknowledged, self.fetched))
        return Latencies(len(produced), _percentiles(produced), _percentiles(fetched))


def _within(pairs: array[float], windows: Sequence[tuple[float, float]]) -> list[float]:
    each = zip(pairs[::2], pairs[1::2], strict=True)
    return sorted(ms for at, ms in each if any(begin <= at < end for begin, end in windows))


def _percentiles(found: Sequence[float]) -> tuple[float, float]:
    if not found:
        raise SystemExit("No record was written and read in a window.")
    return found[len(found) // 2], found[len(found) * 99 // 100]


@contextmanager
def load(bootstrap_servers: str, topic: str, partitions: int) -> Iterator[LoadProcess]:
    """The process, whose records are written and read."""
    context = multiprocessing.get_context("spawn")
    running = LoadProcess(context, write_and_read, bootstrap_servers, topic, partitions)
    try:
        running.start()
        yield running
    finally:
        running.kill()


def write_and_read(bootstrap_servers: str, topic: str, partitions: int, connection: Connection) -> None:
    """The process. It collects no garbage, because its own pauses would look like Kafka's."""
    from confluent_kafka import Producer

    gc.disable()
    stop, fetched, acknowledged, refused = threading.Event(), array("d"), array("d"), 0
    reader = threading.Thread(target=_read, args=(bootstrap_servers, topic, partitions, stop, fetched), daemon=True)
    reader.start()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "linger.ms": 5,
            "broker.address.family": "v4",
            "log_level": 0,
        }
    )

    def delivered(error: object, message: Any) -> None:
        nonlocal refused
        now = time.monotonic()
        if error is not None:
            refused += 1
            return
        (sent,) = _STAMP.unpack_from(message.value())
        acknowledged.extend((sent, (now - sent) * 1000))

    filling = bytes(range(256)) * (RECORD_BYTES // 256 + 1)
    began, number, steady = time.monotonic(), 0, False
    while not connection.poll():
        due = began + number / RECORDS_PER_SECOND
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        value = _STAMP.pack(time.monotonic()) + filling[: RECORD_BYTES - _STAMP.size]
        producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
        producer.poll(0)
        number += 1
        if not steady and acknowledged and fetched:
            steady = True
            connection.send("steady")
    producer.flush(30)
    time.sleep(0.5)  # so that the reader also gets the last acknowledged records
    stop.set()
    reader.join(30)
    connection.send(Seen(acknowledged, fetched, refused))


def _read(bootstrap_servers: str, topic: str, partitions: int, stop: threading.Event, fetched: array[float]) -> None:
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "broker.address.family": "v4",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(partitions)])
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                now = time.monotonic()
                (sent,) = _STAMP.unpack_from(message.value())
                fetched.extend((sent, (now - sent) * 1000))
    finally:
        consumer.close()
