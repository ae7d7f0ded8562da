"""What the page and the approval request say about segment settings, out of segments.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_object import Document


@dataclass(frozen=True, slots=True)
class SegmentFinding:
    """One broken rule. `topics` are the first of `topic_count`; none where it is about brokers alone."""

    severity: str
    topics: tuple[str, ...]
    topic_count: int
    brokers: tuple[int, ...]
    text: str
    source: str
    remedy: str


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Before, during and after the moves."""

    broker: int
    segments: tuple[int, int, int]
    memory_maps: tuple[int, int, int]
    index_bytes: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CandidateSegments:
    """What one candidate would meet: `stops` is why it is not offered, counted in `stop_count` where there are more."""

    stops: tuple[SegmentFinding, ...]
    stop_count: int
    findings: tuple[SegmentFinding, ...]
    finding_count: int
    files: tuple[FileCounts, ...]


@dataclass(frozen=True, slots=True)
class SegmentRoll:
    """When a segment of this partition, the fastest of its topic, is expected to roll, and what it holds then."""

    topic: str
    partition: int
    reason: str
    after_seconds: float
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class SegmentRolls:
    """`topics`: reason of the roll -> how many topics; `idle`: those without writes. `soonest`: the first."""

    topics: Mapping[str, int]
    idle: int
    soonest: tuple[SegmentRoll, ...]


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """The audit of the cluster, errors first, and of each candidate."""

    topics: int
    brokers: int
    errors: int
    warnings: int
    findings: tuple[SegmentFinding, ...]
    candidates: Mapping[str, CandidateSegments]
    rolls: SegmentRolls | None  # None: nothing is known of what is written

    @property
    def stopped(self) -> tuple[str, ...]:
        """Candidates that are not offered, since a copy could not follow."""
        return tuple(name for name, candidate in self.candidates.items() if candidate.stops)


def segment_report(document: Document) -> SegmentReport:
    """Raises ArtifactError for a missing or wrong value, naming file and key."""
    candidates, rolls = document.part("candidates"), document.optional_part("rolls")
    return SegmentReport(
        topics=document.count("topics"),
        brokers=document.count("brokers"),
        errors=document.count("errors"),
        warnings=document.count("warnings"),
        findings=_findings(document, "findings"),
        candidates={name: _candidate(candidates.part(name)) for name in candidates.content},
        rolls=None if rolls is None else _rolls(rolls),
    )


def _rolls(part: Document) -> SegmentRolls:
    topics = part.part("topics")
    return SegmentRolls(
        topics={reason: topics.count(reason) for reason in topics.content},
        idle=part.count("idle"),
        soonest=tuple(
            SegmentRoll(
                roll.text("topic"),
                roll.count("partition"),
                roll.text("reason"),
                roll.number("after_seconds"),
                roll.count("segment_bytes"),
            )
            for roll in part.parts("soonest")
        ),
    )


def _candidate(part: Document) -> CandidateSegments:
    return CandidateSegments(
        stops=_findings(part, "stops"),
        stop_count=part.count("stop_count"),
        findings=_findings(part, "findings"),
        finding_count=part.count("finding_count"),
        files=tuple(
            FileCounts(
                files.count("broker"),
                _three(files, "segments"),
                _three(files, "memory_maps"),
                _three(files, "index_bytes"),
            )
            for files in part.parts("files")
        ),
    )


def _three(files: Document, key: str) -> tuple[int, int, int]:
    return files.part("before").count(key), files.part("during").count(key), files.part("after").count(key)


def _findings(document: Document, key: str) -> tuple[SegmentFinding, ...]:
    return tuple(
        SegmentFinding(
            severity=part.text("severity"),
            topics=part.texts("topics"),
            topic_count=part.count("topic_count"),
            brokers=part.counts("brokers", part.count("brokers")),
            text=part.text("text"),
            source=part.text("source"),
            remedy=part.text("remedy"),
        )
        for part in document.parts(key)
    )
