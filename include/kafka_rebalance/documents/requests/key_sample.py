"""A sample of a topic's keys: which offsets are read, and what they are found to hold. The keys job writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kafka_rebalance.documents.json_files import JsonFile

REQUEST = "sample.json"
KAFKA_CONFIG = "KAFKA_REBALANCE_KAFKA_CONFIG"  # in the job's environment: Kafka's client settings, as JSON
SAMPLE = "keys.json"
_SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from `start` on and before `end`."""

    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What the keys job reads: these ranges of a topic of `partitions`, placed with each of `counts`.

    Offsets bound how many rows are read; rows whose timestamp is before `not_before_ms` are read but not counted.
    """

    topic: str
    partitions: int
    ranges: tuple[OffsetRange, ...]
    not_before_ms: int
    counts: tuple[int, ...]


REQUEST_FILE = JsonFile(REQUEST, SampleRequest)


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """One of the most frequent keys, as `shown` gives it, and its rows."""

    key: str
    rows: int


@dataclass(frozen=True, slots=True)
class KeySample:
    """What the sampled rows hold.

    `found_rows`: rows by partition as they are. `murmur2_rows`: for each count of partitions, the rows with a key by
    the partition murmur2 gives; `moved_rows`: how many of them lie in another one than with `partitions`.
    `foreign_rows`: rows with a key whose partition is not murmur2's. An empty key is a key. `oldest_ms` and
    `newest_ms` are record timestamps, None without rows. `heaviest`: most frequent first.
    """

    topic: str
    partitions: int
    ranges: tuple[OffsetRange, ...]
    not_before_ms: int
    rows: int
    rows_without_key: int
    foreign_rows: int
    distinct_keys: int
    heaviest: tuple[HeavyKey, ...]
    oldest_ms: int | None
    newest_ms: int | None
    found_rows: tuple[int, ...]
    murmur2_rows: Mapping[int, tuple[int, ...]]
    moved_rows: Mapping[int, int]

    def summary(self) -> dict[str, Any]:
        """The figures of the whole sample, without those by partition."""
        by_partition = ("ranges", "found_rows", "murmur2_rows", "moved_rows")
        return {name: value for name, value in asdict(self).items() if name not in by_partition}


SAMPLE_FILE = JsonFile(SAMPLE, KeySample)


def newest_rows(ranges: Sequence[OffsetRange], max_rows: int) -> tuple[OffsetRange, ...]:
    """The ends of the ranges: at most `max_rows` offsets in all.

    Each range keeps its part of them, rounded down, so that the sample lies as all rows do. Offsets without a record
    (compacted away, transaction markers) count as rows.
    """
    total = sum(each.offsets for each in ranges)
    if total <= max_rows:
        return tuple(ranges)
    return tuple(replace(each, start=each.end - each.offsets * max_rows // total) for each in ranges)


def key_in_words(key: bytes) -> str:
    """A key for people: its text if it is UTF-8 that prints, else hexadecimal; long ones are cut, with their length."""
    if not key:
        return "(empty)"
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text:
        text = "0x" + key.hex()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(key)} bytes)"
