"""segments.json: the audit of segment settings, for the present cluster and for each candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_files import SEGMENTS, JsonFile


@dataclass(frozen=True, slots=True)
class SegmentFinding:
    """One broken rule: where, with which values, from which level of the configs, and what to do about it.

    `topics` is empty if the rule is about brokers, `brokers` is empty if it is about a config in ZooKeeper. The file
    has the first of `topic_count` topics, and `words` for a log or an error.
    """

    rule: str
    severity: str  # error or warning
    topics: tuple[str, ...]
    topic_count: int
    brokers: tuple[int, ...]
    text: str
    source: str
    remedy: str
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """All replicas on a broker together. `index_bytes`: preallocated for active segments, as address space and size."""

    segments: int
    memory_maps: int
    index_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """`during` counts each moving partition on its old and its new brokers, as if all batches ran at once."""

    broker: int
    before: OpenFiles
    during: OpenFiles
    after: OpenFiles


@dataclass(frozen=True, slots=True)
class CandidateSegments:
    """`stops`: why this candidate is not offered. The counts are of all findings, of which the file has the first."""

    stops: tuple[SegmentFinding, ...]
    stop_count: int
    findings: tuple[SegmentFinding, ...]
    finding_count: int
    files: tuple[BrokerFiles, ...]


@dataclass(frozen=True, slots=True)
class SegmentRoll:
    """When a segment of this partition, the fastest of its topic, should roll, and how large it is then."""

    topic: str
    partition: int
    reason: str
    after_seconds: float
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class SegmentRolls:
    """`topics`: reason of the roll -> how many topics. `idle`: topics without writes. `soonest`: the first rolls."""

    topics: Mapping[str, int]
    idle: int
    soonest: tuple[SegmentRoll, ...]


@dataclass(frozen=True, slots=True)
class ClusterSegments:
    """How many topics and brokers were audited, and the findings, errors first."""

    topics: int
    brokers: int
    errors: int
    warnings: int
    findings: tuple[SegmentFinding, ...]


@dataclass(frozen=True, slots=True)
class SegmentReport(ClusterSegments):
    candidates: Mapping[str, CandidateSegments]
    rolls: SegmentRolls | None = None  # None: the rate of writes is unknown

    @property
    def stopped(self) -> tuple[str, ...]:
        """Candidates that are not offered, because a copy could not keep up."""
        return tuple(name for name, candidate in self.candidates.items() if candidate.stops)


SEGMENTS_FILE = JsonFile(SEGMENTS, SegmentReport)
