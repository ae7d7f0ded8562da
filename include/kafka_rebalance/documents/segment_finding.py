"""Findings of the audit of segment settings, and how those that say the same become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from kafka_rebalance.documents.segments import SegmentFinding
from kafka_rebalance.kafka.segment_roll import OF_TIERED, EffectiveRollSettings
from kafka_rebalance.model.finding import listed

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
            key=lambda found: (found.severity != "error", found.rule, -len(found.topics), found.topics, found.brokers),
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
