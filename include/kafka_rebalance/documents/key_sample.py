"""A sample of a topic's keys: which offsets the keys job reads, and what it finds there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from kafka_rebalance.documents.json_files import JsonFile

REQUEST = "sample.json"
KAFKA_CONFIG = "KAFKA_REBALANCE_KAFKA_CONFIG"  # in the job's environment: settings of Kafka's client, as JSON
SAMPLE = "keys.json"
_SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from `start` on, without `end`."""

    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What the keys job reads: these ranges of a topic with `partitions`. It places the keys with each of `counts`.

    The offsets limit how many rows it reads. It does not count rows with a timestamp before `not_before_ms`.
    """

    topic: str
    partitions: int
    ranges: tuple[OffsetRange, ...]
    not_before_ms: int
    counts: tuple[int, ...]


REQUEST_FILE = JsonFile(REQUEST, SampleRequest)


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """One of the most frequent keys, as `key_in_words` shows it, and how many rows have it."""

    key: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFigures:
    """What the sampled rows hold together. An empty key is a key.

    `foreign_rows`: rows with a key in a partition that murmur2 does not give. `oldest_ms` and `newest_ms`: record
    timestamps, None without rows. `heaviest`: the most frequent keys first.
    """

    topic: str
    partitions: int
    not_before_ms: int
    rows: int
    rows_without_key: int
    foreign_rows: int
    distinct_keys: int
    heaviest: tuple[HeavyKey, ...]
    oldest_ms: int | None
    newest_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySample(SampleFigures):
    """The same, and by partition.

    `found_rows`: how many rows each partition has. `murmur2_rows`: for each count of partitions, how many rows with a
    key murmur2 gives to each partition. `moved_rows`: for each count, how many of them change their partition.
    """

    ranges: tuple[OffsetRange, ...]
    found_rows: tuple[int, ...]
    murmur2_rows: Mapping[int, tuple[int, ...]]
    moved_rows: Mapping[int, int]

    @property
    def figures(self) -> SampleFigures:
        return SampleFigures(**{field.name: getattr(self, field.name) for field in fields(SampleFigures)})


SAMPLE_FILE = JsonFile(SAMPLE, KeySample)


def newest_rows(ranges: Sequence[OffsetRange], max_rows: int) -> tuple[OffsetRange, ...]:
    """The newest part of each range, with at most `max_rows` offsets in all.

    Each range keeps its share, rounded down, so that the sample is distributed as all rows are. Offsets without a
    record (compacted away, transaction markers) count as rows.
    """
    total = sum(each.offsets for each in ranges)
    if total <= max_rows:
        return tuple(ranges)
    return tuple(replace(each, start=each.end - each.offsets * max_rows // total) for each in ranges)


def key_in_words(key: bytes) -> str:
    """A key for people: printable UTF-8 as text, anything else in hexadecimal. Long keys are cut, with their length."""
    if not key:
        return "(empty)"
    text = key.decode(errors="backslashreplace")
    if not text.isprintable() or text.encode() != key:
        text = "0x" + key.hex()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(key)} bytes)"
