"""What the audit of segment settings finds, and how findings that say the same are told once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kafka_rebalance.kafka.segment_roll import EffectiveRollSettings
from kafka_rebalance.model.finding import listed

Severity = Literal["error", "warning"]

TOPICS_KEPT = 20  # named in a document; the rest is counted


@dataclass(frozen=True, slots=True)
class SegmentFinding:
    """One broken rule: where, with which values, from which level of the configs, and what to do about it.

    `topics` is empty where it is about brokers alone, `brokers` where it is about what is stored in ZooKeeper.
    """

    rule: str
    severity: Severity
    topics: tuple[str, ...]
    brokers: tuple[int, ...]
    text: str
    source: str
    remedy: str

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values; of the topics the first few and their number."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "topics": list(self.topics[:TOPICS_KEPT]),
            "topic_count": len(self.topics),
            "brokers": list(self.brokers),
            "text": self.text,
            "source": self.source,
            "remedy": self.remedy,
            "words": str(self),
        }

    def __str__(self) -> str:
        """One line for a log or an error."""
        where = [f"broker {listed(self.brokers)}"] if self.brokers else []
        if self.topics:
            more = f" and {len(self.topics) - 3} more" if len(self.topics) > 3 else ""
            where.insert(0, f"topic {', '.join(self.topics[:3])}{more}")
        return f"{', '.join(where) or 'all brokers'}: {self.text} ({self.source}). {self.remedy}"


def grouped(
    rule: str, severity: Severity, remedy: str, hits: Iterable[tuple[str, str, str, int]]
) -> tuple[SegmentFinding, ...]:
    """One finding for all topics and brokers that have the same text and source, in the order in which they came.

    `hits` are (text, source, topic, broker). Not every topic named need be on every broker named.
    """
    where: dict[tuple[str, str], tuple[set[str], set[int]]] = {}
    for text, source, topic, broker in hits:
        topics, brokers = where.setdefault((text, source), (set(), set()))
        topics.add(topic)
        brokers.add(broker)
    return tuple(
        SegmentFinding(rule, severity, tuple(sorted(topics)), tuple(sorted(brokers)), text, source, remedy)
        for (text, source), (topics, brokers) in where.items()
    )


def in_order(findings: Iterable[SegmentFinding]) -> tuple[SegmentFinding, ...]:
    """Errors first; what concerns the most topics first."""
    return tuple(
        sorted(
            findings,
            key=lambda found: (found.severity != "error", found.rule, -len(found.topics), found.topics, found.brokers),
        )
    )


def sources_of(values: EffectiveRollSettings, keys: Sequence[str]) -> str:
    """`segment.bytes: topic; segment.ms: log.roll.hours (broker static)`."""
    return "; ".join(
        f"{key}: {source.level_in_words if source and source.broker_key == key else source or 'unknown'}"
        for key in keys
        for source in [values.sources.get(key)]
    )
