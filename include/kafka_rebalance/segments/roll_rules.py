"""The rules for segment settings that are right by the code of Kafka's Log, LogSegment and their indexes.

These rules are absent because they are wrong:

- A topic with little traffic is never deleted. (Kafka rolls and removes an expired active segment.)
- A copy causes a roll storm, or a new retention clock. (Both follow the records' timestamps.)
- All replicas have equal segment lists. (Boundaries differ by chunk sizes and jitter.)

These are absent because only the records could show them: timestamps in the future, and old and new ones in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.segments import SegmentFinding, Severity, grouped, sources_of
from kafka_rebalance.kafka.segment_roll import (
    CHECK_INTERVAL_MS,
    REPLICA_FETCH_MAX_BYTES,
    UNLIMITED,
    EffectiveRollSettings,
)

OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES = 8, 12
# The last slot of the time index is reserved for the roll: with less than two entries it is full from the start.
LEAST_INDEX_BYTES = 2 * TIME_ENTRY_BYTES
DEFAULT_ROLL_MS = 604_800_000
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
_MILLENNIUM_MS = 1000 * 365 * 86_400_000


@dataclass(frozen=True, slots=True)
class TopicData:
    """0: not known."""

    largest_partition_bytes: int = 0
    append_bytes: int = 0  # the least of an ordinary append


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    severity: Severity
    keys: tuple[str, ...]  # the settings that it reads
    expectation: str
    remedy: str
    problem: Callable[[EffectiveRollSettings, TopicData], str | None]  # how the settings break it, in words, or None
    stops_copies: bool = False  # a new replica could not follow, so a plan that would make one is not offered


def _no_time_index(values: EffectiveRollSettings, _: TopicData) -> str | None:
    """AbstractIndex: "Invalid max index size" where not one entry fits."""
    if values.segment_index_bytes >= TIME_ENTRY_BYTES:
        return None
    return f"segment.index.bytes is {values.segment_index_bytes}: no segment can be created, a time index needs 12"


def _index_full_at_once(values: EffectiveRollSettings, _: TopicData) -> str | None:
    if not TIME_ENTRY_BYTES <= values.segment_index_bytes < LEAST_INDEX_BYTES:
        return None
    return f"segment.index.bytes is {values.segment_index_bytes}: the time index is full at once, every append rolls"


def _index_full_first(values: EffectiveRollSettings, data: TopicData) -> str | None:
    """At most one entry comes in for each append, and for each index.interval.bytes."""
    entries = -(-values.segment_bytes // max(1, values.index_interval_bytes, data.append_bytes)) + 1
    needed = TIME_ENTRY_BYTES * entries
    if not LEAST_INDEX_BYTES <= values.segment_index_bytes < needed:
        return None
    return (
        f"segment.index.bytes is {values.segment_index_bytes}, a full segment of {values.segment_bytes} bytes can need "
        f"{needed}: it may roll before it is full"
    )


def _jitter_too_big(values: EffectiveRollSettings, _: TopicData) -> str | None:
    """Jitter is drawn below min(segment.jitter.ms, segment.ms) (LogConfig.randomSegmentJitter)."""
    if values.segment_jitter_ms < values.segment_ms:
        return None
    return f"segment.jitter.ms {values.segment_jitter_ms} reaches segment.ms {values.segment_ms}: it may roll at once"


def _batch_too_big(values: EffectiveRollSettings, _: TopicData) -> str | None:
    if values.segment_bytes >= values.max_message_bytes:
        return None
    return (
        f"segment.bytes is {values.segment_bytes}, max.message.bytes {values.max_message_bytes}: batches between the "
        "two are refused"
    )


def _chunk_too_big(values: EffectiveRollSettings, _: TopicData) -> str | None:
    """A chunk above segment.bytes makes a follower's append throw; in 2.0 its fetcher thread ends with it."""
    if values.segment_bytes >= values.replica_fetch_max_bytes:
        return None
    return (
        f"segment.bytes is {values.segment_bytes}, {REPLICA_FETCH_MAX_BYTES} {values.replica_fetch_max_bytes}: a new "
        "replica can receive more at once than a segment takes, and its fetcher stops, for other topics too"
    )


def _roll_after_retention(values: EffectiveRollSettings, _: TopicData) -> str | None:
    """Kafka deletes a segment by its newest record, so the oldest stays for the retention and the segment's span."""
    if not values.deletes or values.retention_ms == UNLIMITED or values.roll_ms <= values.retention_ms:
        return None
    return (
        f"retention.ms is {span(values.retention_ms)}, but a segment may span {span(values.roll_ms)}: a record can "
        f"stay for {span(effective_retention_ms(values))}"
    )


def effective_retention_ms(values: EffectiveRollSettings) -> int:
    until_check = values.retention_ms + values.roll_ms + values.retention_check_interval_ms
    return until_check + values.file_delete_delay_ms


def _retention_below_a_segment(values: EffectiveRollSettings, _: TopicData) -> str | None:
    if not values.deletes or not UNLIMITED < values.on_disk_bytes < values.segment_bytes:
        return None
    name, where = ("local.retention.bytes", " on disk") if values.is_tiered else ("retention.bytes", "")
    return (
        f"{name} is {values.on_disk_bytes}, segment.bytes {values.segment_bytes}: a partition keeps up to "
        f"{values.on_disk_bytes + values.segment_bytes} bytes{where}, and Kafka does not trim a single segment"
    )


def _never_compacted(values: EffectiveRollSettings, data: TopicData) -> str | None:
    """Kafka never compacts the active segment and rolls it only with an append. Its default of a week passes."""
    if values.deletes or "compact" not in values.cleanup_policy or values.roll_ms <= DEFAULT_ROLL_MS:
        return None
    if not 0 < data.largest_partition_bytes < values.segment_bytes:
        return None
    return (
        f"no partition reaches segment.bytes {values.segment_bytes}, and a segment may span {span(values.roll_ms)}: "
        "Kafka never compacts what is in the active segment"
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "no_time_index",
        "error",
        ("segment.index.bytes",),
        f"segment.index.bytes at least {LEAST_INDEX_BYTES}",
        "Raise segment.index.bytes; Kafka's default is 10485760.",
        _no_time_index,
        stops_copies=True,
    ),
    Rule(
        "index_full_at_once",
        "error",
        ("segment.index.bytes",),
        f"segment.index.bytes at least {LEAST_INDEX_BYTES}",
        "Raise segment.index.bytes; Kafka's default is 10485760.",
        _index_full_at_once,
    ),
    Rule(
        "jitter_reaches_roll",
        "error",
        ("segment.jitter.ms", "segment.ms"),
        "jitter below segment.ms",
        "Lower segment.jitter.ms well below segment.ms.",
        _jitter_too_big,
    ),
    Rule(
        "batches_refused",
        "error",
        ("segment.bytes", "max.message.bytes"),
        "segment.bytes not below max.message.bytes, or large batches are refused",
        "Raise segment.bytes to max.message.bytes, or lower max.message.bytes.",
        _batch_too_big,
    ),
    Rule(
        "chunks_refused",
        "warning",
        ("segment.bytes", REPLICA_FETCH_MAX_BYTES),
        "segment.bytes not below replica.fetch.max.bytes, or a new replica's fetcher can stop",
        "Raise segment.bytes to at least replica.fetch.max.bytes (or lower that in server.properties and restart the "
        "broker) before any replica of the topic is copied there.",
        _chunk_too_big,
        stops_copies=True,
    ),
    Rule(
        "index_full_first",
        "warning",
        ("segment.index.bytes", "segment.bytes", "index.interval.bytes"),
        "indexes large enough for a full segment",
        "Raise segment.index.bytes, or index.interval.bytes.",
        _index_full_first,
    ),
    Rule(
        "roll_after_retention",
        "warning",
        ("retention.ms", "segment.ms", CHECK_INTERVAL_MS, "file.delete.delay.ms"),
        "segments roll within the retention time",
        "Where records must be gone in time, lower segment.ms.",
        _roll_after_retention,
    ),
    Rule(
        "retention_below_a_segment",
        "warning",
        ("retention.bytes", "local.retention.bytes", "segment.bytes"),
        "retention.bytes not below segment.bytes",
        "Lower segment.bytes, or count one more segment a partition.",
        _retention_below_a_segment,
    ),
    Rule(
        "never_compacted",
        "warning",
        ("cleanup.policy", "segment.bytes", "segment.ms"),
        "a compacted topic's active segment rolls",
        "Lower segment.ms; a topic that receives nothing more rolls only with its next record.",
        _never_compacted,
    ),
)


def broken_rules(
    settings: Mapping[tuple[str, int], EffectiveRollSettings], data: Mapping[str, TopicData]
) -> Iterable[tuple[Rule, SegmentFinding]]:
    """Every rule that the settings, by topic and broker, break; one finding for all with the same values."""
    unknown = TopicData()
    for rule in RULES:
        hits = (
            (text, sources_of(values, rule.keys), topic, broker)
            for (topic, broker), values in settings.items()
            if (text := rule.problem(values, data.get(topic, unknown))) is not None
        )
        for finding in grouped(rule.name, rule.severity, rule.remedy, hits):
            yield rule, finding


def span(ms: int) -> str:
    """The two largest units: `7 d`, `1 h 30 min`, `250 ms`."""
    if ms >= _MILLENNIUM_MS:
        return "more than 1000 years"
    parts = []
    for size, unit in _SPANS:
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 ms"
