"""The decision to roll a segment, held against Kafka's own LogSegment with real files."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_rebalance.kafka.segment_roll import should_roll
from support.kafka.java.kafka_classes import KafkaClasses

SEGMENTS, CASES = 25, 80
INT_MAX = 2**31 - 1
NOW = 1_700_000_000_000


class Segment:
    """A segment with the batches that were appended to it, and what decides on it."""

    def __init__(self, classes: KafkaClasses, folder: Path, base_offset: int, index_bytes: int) -> None:
        self._classes = classes
        self.base_offset = self.next_offset = base_offset
        self.first_timestamp: int | None = None
        self._index_bytes = index_bytes
        self._segment = open_segment(classes, folder, base_offset, index_bytes)

    def append(self, timestamp: int, *, magic: int) -> None:
        """One batch of one record; every batch gets its entries in both indexes."""
        record_package = self._classes.jvm.org.apache.kafka.common.record
        compression = record_package.CompressionType.NONE
        record = record_package.SimpleRecord(timestamp, b"key", b"v" * 50)
        records = self._classes.gateway.new_array(record_package.SimpleRecord, 1)
        records[0] = record
        if self._classes.version == "3.9.2":
            compression = self._classes.jvm.org.apache.kafka.common.compress.Compression.NONE
        batch = record_package.MemoryRecords.withRecords(magic, self.next_offset, compression, records)
        # Since 3.9.1 a segment finds the largest timestamp and its offset by itself.
        largest = () if self._classes.version == "3.9.2" else (timestamp, self.next_offset)
        self._segment.append(self.next_offset, *largest, batch)
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        self.next_offset += 1

    def is_full(self) -> bool:
        return bool(self._segment.offsetIndex().isFull() or self._segment.timeIndex().isFull())

    def state(self) -> dict[str, Any]:
        """What the decision takes of the segment itself; the entries' limits by the rule, not as Kafka says."""
        return {
            "segment_size": self._segment.size(),
            "first_batch_timestamp": self.first_timestamp,
            "offset_index_entries": self._segment.offsetIndex().entries(),
            "offset_index_max_entries": self._index_bytes // 8,
            "time_index_entries": self._segment.timeIndex().entries(),
            "time_index_max_entries": self._index_bytes // 12,
            "base_offset": self.base_offset,
        }

    def should_roll(self, case: dict[str, int]) -> bool:
        set_field = self._classes.set_field
        set_field(self._segment, "created", case["created_ms"])
        set_field(self._segment, "rollJitterMs", case["roll_jitter_ms"])
        messages, timestamp, offset = (
            case[name] for name in ("messages_size", "max_timestamp_in_messages", "max_offset_in_messages")
        )
        if self._classes.version == "2.0.1":
            # There the limits are those with which the segment was opened.
            set_field(self._segment, "maxSegmentMs", case["segment_ms"])
            set_field(self._segment, "maxSegmentBytes", case["max_segment_bytes"])
            return bool(self._segment.shouldRoll(messages, timestamp, offset, case["now_ms"]))
        package = "org.apache.kafka.storage.internals.log" if self._classes.version == "3.9.2" else "kafka.log"
        parameters = self._classes.class_of(f"{package}.RollParams")(
            case["segment_ms"], case["max_segment_bytes"], timestamp, offset, messages, case["now_ms"]
        )
        return bool(self._segment.shouldRoll(parameters))

    def close(self) -> None:
        self._segment.close()


def open_segment(classes: KafkaClasses, folder: Path, base_offset: int, index_bytes: int) -> Any:
    jvm = classes.jvm
    properties = jvm.java.util.HashMap()
    for name, value in {"segment.index.bytes": index_bytes, "index.interval.bytes": 0}.items():
        properties.put(name, str(value))
    directory, clock = jvm.java.io.File(str(folder)), jvm.org.apache.kafka.common.utils.Time.SYSTEM
    if classes.version == "3.9.2":
        package = jvm.org.apache.kafka.storage.internals.log
        return package.LogSegment.open(directory, base_offset, package.LogConfig(properties), clock, 0, False)
    config = jvm.kafka.log.LogConfig(properties, classes.set([]))
    return classes.companion("kafka.log.LogSegment").open(directory, base_offset, config, clock, False, 0, False, "")


@contextmanager
def random_segment(classes: KafkaClasses, rng: random.Random, folder: Path) -> Iterator[Segment]:
    """Empty, partly filled or with a full index; with timestamps, without, or with old ones after new ones."""
    index_bytes = rng.choice((12, 23, 24, 40, 96, 10_485_760))
    segment = Segment(classes, folder, rng.choice((0, 5, 2**31, 2**40)), index_bytes)
    magic = rng.choice((0, 1, 2, 2, 2))
    for _ in range(rng.choice((0, 1, 2, 5, 20))):
        if segment.is_full():
            break
        timestamp = -1 if magic == 0 else rng.choice((-1, 0, NOW, NOW - rng.randrange(10**6), NOW + 10**9))
        segment.append(timestamp, magic=magic)
    try:
        yield segment
    finally:
        segment.close()


def random_case(rng: random.Random, segment: Segment, state: dict[str, Any]) -> dict[str, int]:
    """Numbers at and beside every limit, and some far away."""
    size, messages, segment_ms = state["segment_size"], rng.choice((0, 61, 5000)), rng.choice((1, 1000, 604_800_000))
    jitter = rng.choice((0, 0, rng.randrange(segment_ms)))
    beside = rng.choice((-1, 0, 1, rng.randrange(-(10**10), 10**10)))
    first = segment.first_timestamp if segment.first_timestamp is not None else -1
    offsets = (0, 1, INT_MAX, INT_MAX + 1, -1, rng.randrange(2**33))
    return {
        "messages_size": messages,
        "max_segment_bytes": max(14, min(INT_MAX, size + messages + rng.choice((-1, 0, 1, 1000, 1000, INT_MAX)))),
        "segment_ms": segment_ms,
        "roll_jitter_ms": jitter,
        "max_timestamp_in_messages": rng.choice((-1, max(-1, first + segment_ms - jitter + beside), NOW)),
        "now_ms": NOW,
        "created_ms": rng.choice((NOW, NOW - segment_ms + jitter + beside)),
        "max_offset_in_messages": max(0, segment.base_offset + rng.choice((0, 1, 2, *offsets))),
    }


def test_thousands_of_appends_to_real_segments_are_decided_alike(kafka_classes: KafkaClasses, tmp_path: Path) -> None:
    rng = random.Random(5)
    seen: Counter[str] = Counter()
    for number in range(SEGMENTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with random_segment(kafka_classes, rng, folder) as segment:
            state = segment.state()
            for _ in range(CASES):
                case = random_case(rng, segment, state)
                reason = should_roll(**state, **case)
                assert (reason is not None) == segment.should_roll(case), (reason, state, case)
                seen[str(reason)] += 1
    # Each outcome was there often enough to have shown a mistake in it.
    assert min(seen[name] for name in ("None", "size", "time", "offset index", "time index", "offset")) >= 20, seen
