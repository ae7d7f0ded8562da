"""The audit of segment settings: of a cluster as it is, and of what moves would make of it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from kafka_rebalance.documents.cluster_configs import ClusterConfigs
from kafka_rebalance.documents.segment_finding import findings_in_order, first_findings, grouped, segment_finding
from kafka_rebalance.documents.segments import (
    BrokerFiles,
    CandidateSegments,
    ClusterSegments,
    OpenFiles,
    SegmentFinding,
)
from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.kafka.segment_roll import EffectiveRollSettings, NotReportedError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.finding import listed
from kafka_rebalance.segments.open_files import Placed, files_now, files_of_moves, too_many_maps
from kafka_rebalance.segments.roll_rules import TopicData, broken_rules
from kafka_rebalance.segments.unloadable_configs import UNLOADABLE, stored_findings, throttles_left

Settings = dict[tuple[str, int], EffectiveRollSettings]  # by topic and broker

FIELDS = {  # what decides how a topic rolls and is kept -> field of EffectiveRollSettings
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "max.message.bytes": "max_message_bytes",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "cleanup.policy": "cleanup_policy",
    "file.delete.delay.ms": "file_delete_delay_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "local.retention.ms": "local_retention_ms",  # of tiered topics, as the next
    "local.retention.bytes": "local_retention_bytes",
}
UNKNOWN = "settings_unknown"
_NO_TOPIC = ""  # without overrides: shows what the broker applies by itself


def audit_cluster(placed: Sequence[Placed], configs: ClusterConfigs) -> ClusterSegments:
    """Every finding about the cluster as it is. Nothing is in motion: a snapshot of a moving cluster is refused."""
    stored = stored_findings(configs)
    pairs = {(partition.topic_partition.topic, broker) for partition in placed for broker in partition.replicas}
    settings, unknown = known_settings(pairs, configs, stored)
    now = files_now(placed, configs)
    files = [BrokerFiles(broker, held, held, held) for broker, held in sorted(now.items())]
    findings = (
        *stored,
        *unknown,
        *(finding for _, finding in broken_rules(settings, _topic_data(placed, configs))),
        *_brokers_differ({topic for topic, _ in pairs}, configs),
        *throttles_left(configs),
        *too_many_maps(files),
    )
    errors = sum(finding.severity == "error" for finding in findings)
    looked_at = len({topic for topic, _ in pairs}), len(configs.brokers)
    return ClusterSegments(*looked_at, errors, len(findings) - errors, findings_in_order(findings))


def with_first_findings(audit: ClusterSegments, most: int) -> ClusterSegments:
    """For a document: no more than `most` of the findings; the figures count all."""
    return dataclasses.replace(audit, findings=first_findings(audit.findings, most))


def audit_moves(
    moves: Sequence[Move], now: Mapping[int, OpenFiles], configs: ClusterConfigs, most: int
) -> CandidateSegments:
    """What an approver has to know of these moves: no more than `most` of each list of findings, all counted.

    `now`: open files by broker, of `files_now`.
    """
    files = files_of_moves(now, moves, configs)
    stops = copies_stopped(moves, configs)
    findings = findings_in_order((*_rolls_otherwise(moves, configs), *too_many_maps(files)))
    return CandidateSegments(
        first_findings(stops, most), len(stops), first_findings(findings, most), len(findings), files
    )


def copies_stopped(moves: Sequence[Move], configs: ClusterConfigs) -> tuple[SegmentFinding, ...]:
    """Why a broker could not fetch a replica that these moves give it; empty if all can.

    A setting that is not known does not pass. Below 2.1, if a follower refuses a chunk, its fetcher thread ends. With
    it end the copies of other topics from the same broker.
    """
    pairs = {(move.topic_partition.topic, broker) for move in moves for broker in move.added}
    of_topics = dataclasses.replace(configs, topics={topic: configs.topics.get(topic, {}) for topic, _ in pairs})
    stored = [finding for finding in stored_findings(of_topics) if finding.rule == UNLOADABLE and finding.topics]
    settings, unknown = known_settings(pairs, configs, stored)
    broken = (finding for rule, finding in broken_rules(settings, {}) if rule.stops_copies)
    return findings_in_order(dataclasses.replace(finding, severity="error") for finding in (*stored, *unknown, *broken))


def known_settings(
    pairs: Iterable[tuple[str, int]], configs: ClusterConfigs, stored: Iterable[SegmentFinding]
) -> tuple[Settings, tuple[SegmentFinding, ...]]:
    """The settings of each topic and broker, and findings where they are not known.

    Topics whose `stored` config does not load are left out: that is a finding already, and brokers apply to them what
    they loaded last.
    """
    unloadable = {topic for finding in stored if finding.rule == UNLOADABLE for topic in finding.topics}
    settings: Settings = {}
    down, silent = [], []
    for topic, broker in sorted(pair for pair in pairs if pair[0] not in unloadable):
        if broker not in configs.brokers:
            down.append(("the broker does not answer, so its settings are not known", "no answer", topic, broker))
            continue
        try:
            settings[topic, broker] = configs.roll_settings(topic, broker)
        except (NotReportedError, KafkaRuleError) as bad:
            problem = bad.problem if isinstance(bad, NotReportedError) else bad.kafka_message
            silent.append((problem, "its own answer", topic, broker))
    return settings, (
        *grouped(UNKNOWN, "warning", "Look again when it answers.", down),
        *grouped(UNKNOWN, "error", "Let the Kafka user describe the configs of the cluster.", silent),
    )


def _topic_data(placed: Iterable[Placed], configs: ClusterConfigs) -> dict[str, TopicData]:
    largest: dict[str, int] = {}
    for partition in placed:
        topic = partition.topic_partition.topic
        largest[topic] = max(largest.get(topic, 0), partition.size_bytes)
    return {topic: TopicData(size, configs.append_bytes.get(topic, 0)) for topic, size in largest.items()}


def differences(then: EffectiveRollSettings, now: EffectiveRollSettings) -> tuple[str, str]:
    """What differs, and where it comes from now: `segment.ms 604800000 -> 3600000`, `segment.ms: log.roll.ms (broker
    static)`.
    """
    changed = [key for key, field in FIELDS.items() if getattr(then, field) != getattr(now, field)]
    values = (f"{key} {_value(then, key)} -> {_value(now, key)}" for key in changed)
    return ", ".join(values), "; ".join(f"{key}: {now.sources.get(key, 'unknown')}" for key in changed)


def _rolls_otherwise(moves: Sequence[Move], configs: ClusterConfigs) -> Iterable[SegmentFinding]:
    """A move alone can change a partition's effective settings: brokers may have other static values."""
    hits = []
    for move in moves:
        topic = move.topic_partition.topic
        settings, _ = known_settings([(topic, broker) for broker in (*move.before, *move.added)], configs, ())
        origins = [settings[topic, broker] for broker in move.before if (topic, broker) in settings]
        for broker in move.added:
            here = settings.get((topic, broker))
            if here is not None and origins and here not in origins:
                hits.append((*differences(origins[0], here), topic, broker))
    return grouped(
        "rolls_otherwise",
        "warning",
        "If the setting should stay as it is, set it on the topic, or make server.properties equal.",
        hits,
    )


def _brokers_differ(topics: Collection[str], configs: ClusterConfigs) -> Iterable[SegmentFinding]:
    own = {}
    for broker in sorted(configs.brokers):
        try:
            own[broker] = configs.roll_settings(_NO_TOPIC, broker)
        except (ReadError, KafkaRuleError):
            continue  # that is a finding of its own, for the topics on the broker
    for key in FIELDS:
        values, sources = defaultdict(list), defaultdict(list)
        for broker, settings in own.items():
            values[_value(settings, key)].append(broker)
            sources[str(settings.sources.get(key, "unknown"))].append(broker)
        affected = tuple(sorted(topic for topic in topics if key not in configs.topics.get(topic, {})))
        if len(values) > 1 and affected:
            yield segment_finding(
                "brokers_differ",
                "warning",
                affected,
                tuple(own),
                f"{key} is {_by_broker(values)}",
                _by_broker(sources),
                f"Make the brokers equal, or set {key} on the topics: otherwise it changes with every move.",
            )


def _by_broker(words: Mapping[str, Sequence[int]]) -> str:
    """`604800000 on broker 1, 2; 3600000 on broker 3`."""
    return "; ".join(f"{text} on broker {listed(brokers)}" for text, brokers in words.items())


def _value(settings: EffectiveRollSettings, key: str) -> str:
    value = getattr(settings, FIELDS[key])
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
