"""Writes and reads records with checksums while a case runs, and reads them back at its end.

A record's value is its number, bytes derived from the number, and the CRC of both. A journal notes partition, offset
and number of each acknowledged record (acks=all). Exactly these records must be there at the end.
"""

from __future__ import annotations

import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kafka_rebalance.local_cluster.records import produce

BULK_BYTES, STEADY_BYTES = 4_096, 1_024  # in a record's value
STEADY_PAUSE_SECONDS = 0.01
READ_SECONDS = 60
ANSWER_SECONDS = 150
_HEAD, _TAIL = struct.Struct(">Q"), struct.Struct(">I")


class Acknowledged(NamedTuple):
    """One record that all replicas in sync have acknowledged."""

    partition: int
    offset: int
    number: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What the writing and reading process has seen. `longest_gap_seconds` is between two acknowledgements."""

    acknowledged: int
    refused: int  # records that the client gave up: nobody acknowledged them
    longest_gap_seconds: float
    consumed: int
    damaged: int  # records that were read with a wrong checksum


def encode(number: int, size: int) -> bytes:
    """A value of `size` bytes that differs from every other value."""
    head = _HEAD.pack(number)
    seed = zlib.crc32(head)
    body = (_HEAD.pack(seed * 2_654_435_761 % (1 << 64)) * (size // 8 + 1))[: size - len(head) - _TAIL.size]
    return head + body + _TAIL.pack(zlib.crc32(head + body))


def decode(value: bytes | None) -> int | None:
    """The record's number; None if the value is not as written."""
    if value is None or len(value) < _HEAD.size + _TAIL.size:
        return None
    content, tail = value[: -_TAIL.size], value[-_TAIL.size :]
    return None if _TAIL.pack(zlib.crc32(content)) != tail else int(_HEAD.unpack(content[: _HEAD.size])[0])


class LoadProcess:
    """A process that writes and reads records. Its `main` gets these arguments and a connection.

    It sends one message when its load is steady. After a message from here it sends its result and ends.
    """

    def __init__(self, context: Any, main: Callable[..., None], *arguments: Any) -> None:
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(*arguments, theirs), daemon=True)
        self._result: Any = None

    def start(self) -> None:
        """Returns when the load is steady."""
        self._process.start()
        self._receive()

    def stop(self) -> Any:
        """The result. A second call returns the same."""
        if self._result is None:
            self._ours.send("stop")
            self._result = self._receive()
        return self._result

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def _receive(self) -> Any:
        if not self._ours.poll(ANSWER_SECONDS):
            code = self._process.exitcode
            raise TimeoutError(f"the load's process has not answered for {ANSWER_SECONDS} s (exit code {code})")
        return self._ours.recv()


def write_and_read(
    bootstrap_servers: str, topic: str, partitions: int, bulk_bytes: int, journal: str, connection: Any
) -> None:
    """A process: writes `bulk_bytes` to each partition, then a steady load until any message comes.

    Sends "ready" when the bulk is acknowledged, and a LoadResult at the end.
    """
    stop = threading.Event()
    seen = {"consumed": 0, "damaged": 0}
    reader = threading.Thread(target=_follow, args=(bootstrap_servers, topic, partitions, stop, seen), daemon=True)
    with Path(journal).open("w", encoding="utf-8") as notes:
        writer = _Writer(bootstrap_servers, topic, partitions, notes)
        writer.bulk(bulk_bytes)
        reader.start()
        connection.send("ready")
        while not connection.poll(STEADY_PAUSE_SECONDS):
            writer.one(STEADY_BYTES)
        writer.finish()
    stop.set()
    reader.join(READ_SECONDS)
    connection.send(LoadResult(writer.acknowledged, writer.refused, writer.longest_gap, **seen))


def read_journal(journal: Path) -> list[Acknowledged]:
    """Every record that was acknowledged."""
    rows = (line.split() for line in journal.read_text(encoding="utf-8").splitlines())
    return [Acknowledged(int(partition), int(offset), int(number)) for partition, offset, number in rows]


def read_back(bootstrap_servers: str, topic: str, partitions: int) -> dict[tuple[int, int], int | None]:
    """{(partition, offset): the record's number} of all records; the number is None if the checksum is wrong."""
    messages = _records(bootstrap_servers, topic, partitions, until_end=True)
    return {(message.partition(), message.offset()): decode(message.value()) for message in messages}


class _Writer:
    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, notes: Any) -> None:
        from confluent_kafka import Producer

        self._topic, self._partitions, self._notes = topic, partitions, notes
        self._number = 0
        self._last = time.monotonic()
        self.acknowledged = self.refused = 0
        self.longest_gap = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "linger.ms": 5,
                "broker.address.family": "v4",
                "message.timeout.ms": 120_000,
                # A leader of 2.0 whose replica was moved away never answers a waiting client (seen). Default: 30 s.
                "request.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
        )

    def bulk(self, bytes_each: int) -> None:
        for _ in range(self._partitions * bytes_each // BULK_BYTES):
            self.one(BULK_BYTES)
        self.flush()
        self.longest_gap = 0.0

    def one(self, size: int) -> None:
        value, partition = encode(self._number, size), self._number % self._partitions
        produce(self._producer, self._topic, value, partition=partition, on_delivery=self._delivered(self._number))
        self._number += 1

    def flush(self) -> None:
        if waiting := self._producer.flush(120):
            raise TimeoutError(f"{waiting} records of topic {self._topic} have no answer after 120 s")

    def finish(self) -> None:
        self.flush()
        self._notes.flush()

    def _delivered(self, number: int) -> Any:
        def note(error: object, message: Any) -> None:
            if error is not None:
                self.refused += 1
                return
            now = time.monotonic()
            self.longest_gap, self._last = max(self.longest_gap, now - self._last), now
            self.acknowledged += 1
            self._notes.write(f"{message.partition()} {message.offset()} {number}\n")

        return note


def _follow(bootstrap_servers: str, topic: str, partitions: int, stop: threading.Event, seen: dict[str, int]) -> None:
    """Reads and counts the records, as a consumer of the topic would."""
    for message in _records(bootstrap_servers, topic, partitions, stop=stop):
        seen["consumed"] += 1
        seen["damaged"] += decode(message.value()) is None


def _records(
    bootstrap_servers: str, topic: str, partitions: int, *, until_end: bool = False, stop: threading.Event | None = None
) -> Iterator[Any]:
    """Every record from the beginning, to the end of each partition or until `stop`."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "faults",
            "enable.auto.commit": False,
            "enable.partition.eof": until_end,
            "broker.address.family": "v4",
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1_000,
            "log_level": 0,
        }
    )
    ended: set[int] = set()
    give_up = time.monotonic() + READ_SECONDS
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        while len(ended) < partitions if until_end else not (stop and stop.is_set()):
            if until_end and time.monotonic() > give_up:
                raise TimeoutError(f"topic {topic} could not be read to its end within {READ_SECONDS} s")
            for message in consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    ended.discard(message.partition())
                    yield message
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                elif message.error().fatal():
                    raise KafkaException(message.error())
    finally:
        consumer.close()
