"""segments.json: the audit of segment settings, for the present cluster and for each candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kafka_rebalance.documents.json_files import SEGMENTS, JsonFile, omitted
from kafka_rebalance.kafka.segment_roll import OF_TIERED, EffectiveRollSettings
from kafka_rebalance.model.finding import listed


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
    source_digest: str | None = omitted()  # of the proposals

    @property
    def stopped(self) -> tuple[str, ...]:
        """Candidates that are not offered, because a copy could not keep up."""
        return tuple(name for name, candidate in self.candidates.items() if candidate.stops)


SEGMENTS_FILE = JsonFile(SEGMENTS, SegmentReport)


# Findings of the audit of segment settings, and how those that say the same become one.


Severity = Literal["error", "warning"]

TOPICS_KEPT = 20  # named in a document; the rest is counted


def segment_finding(
    rule: str,
    severity: Severity,
    topics: tuple[str, ...],
    brokers: tuple[int, ...],
    text: str,
    source: str,
    remedy: str,
) -> SegmentFinding:
    """One broken rule, with its line for a log or an error."""
    where = [f"broker {listed(brokers)}"] if brokers else []
    if topics:
        more = f" and {len(topics) - 3} more" if len(topics) > 3 else ""
        where.insert(0, f"topic {', '.join(topics[:3])}{more}")
    words = f"{', '.join(where) or 'all brokers'}: {text} ({source}). {remedy}"
    return SegmentFinding(rule, severity, topics, len(topics), brokers, text, source, remedy, words)


def first_findings(findings: Sequence[SegmentFinding], most: int) -> tuple[SegmentFinding, ...]:
    """What a document holds of them: the first findings, each with its first topics."""
    return tuple(replace(finding, topics=finding.topics[:TOPICS_KEPT]) for finding in findings[:most])


def grouped(
    rule: str, severity: Severity, remedy: str, hits: Iterable[tuple[str, str, str, int]]
) -> tuple[SegmentFinding, ...]:
    """One finding for all topics and brokers with the same text and source, in their order.

    `hits` are (text, source, topic, broker). Not every topic of a finding has to be on every broker of it.
    """
    where: dict[tuple[str, str], tuple[set[str], set[int]]] = {}
    for text, source, topic, broker in hits:
        topics, brokers = where.setdefault((text, source), (set(), set()))
        topics.add(topic)
        brokers.add(broker)
    return tuple(
        segment_finding(rule, severity, tuple(sorted(topics)), tuple(sorted(brokers)), text, source, remedy)
        for (text, source), (topics, brokers) in where.items()
    )


def findings_in_order(findings: Iterable[SegmentFinding]) -> tuple[SegmentFinding, ...]:
    """Errors first; of one rule, the finding with the most topics first."""
    return tuple(
        sorted(
            findings,
            key=lambda finding: (
                finding.severity != "error",
                finding.rule,
                -len(finding.topics),
                finding.topics,
                finding.brokers,
            ),
        )
    )


def sources_of(values: EffectiveRollSettings, keys: Sequence[str]) -> str:
    """`segment.bytes: topic; segment.ms: log.roll.hours (broker static)`."""
    return "; ".join(
        f"{key}: {source.level_in_words if source and source.broker_key == key else source or 'unknown'}"
        for key in keys
        if values.is_tiered or key not in OF_TIERED
        for source in [values.sources.get(key)]
    )
