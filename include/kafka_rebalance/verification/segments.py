"""Whether segments roll as they should on the brokers that hold the moved partitions, and as they did before.

Only rules that are right by the code of Kafka's Log and LogSegment are here. Deliberately absent: segment lists of
replicas are never compared (their boundaries differ by chunk sizes and jitter), and neither a roll storm nor a new
retention clock is expected from a copy (both follow the records' timestamps).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kafka_rebalance.kafka.segment_roll import UNLIMITED, EffectiveRollSettings
from kafka_rebalance.model.proposal import Move
from kafka_rebalance.verification.checks import Check, Severity

EffectiveConfigs = Mapping[tuple[str, int], EffectiveRollSettings]  # by topic and broker

OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES = 8, 12
# Below two entries of the time index, whose last slot is reserved for the roll, it is full from the start.
LEAST_INDEX_BYTES = 2 * TIME_ENTRY_BYTES
_FIELDS = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "max.message.bytes": "max_message_bytes",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "cleanup.policy": "cleanup_policy",
}


def check_segments(
    moves: Sequence[Move],
    before: EffectiveConfigs,
    after: EffectiveConfigs,
    *,
    replica_fetch_max_bytes: Mapping[int, int],
) -> tuple[Check, ...]:
    """For each moved topic `segment_settings_sound`, `segment_settings_unchanged`, and, if it gained a broker,
    `segment_settings_same_on_new_broker`.

    `before` and `after` hold the effective settings at the snapshot and now. The brokers looked at are those that hold
    a moved partition now; a broker that could not be asked is a failed check: what applies there is unknown.
    `replica_fetch_max_bytes`, by broker, is how much a new replica there appends at once.
    """
    checks: list[Check] = []
    for topic in sorted({move.topic_partition.topic for move in moves}):
        of_topic = [move for move in moves if move.topic_partition.topic == topic]
        brokers = sorted({broker for move in of_topic for broker in move.after})
        unknown = [broker for broker in brokers if (topic, broker) not in after]
        if unknown:
            checks.append(
                Check(
                    "segment_settings_sound",
                    topic,
                    "settings known on every broker that holds it",
                    f"unknown on broker {_ids(unknown)}",
                    False,
                )
            )
        known = [broker for broker in brokers if broker not in unknown]
        checks += check_sound(topic, {broker: after[topic, broker] for broker in known}, replica_fetch_max_bytes)
        checks.append(_unchanged(topic, known, before, after))
        if any(move.added for move in of_topic):
            checks.append(_same_on_new_broker(topic, of_topic, before, after))
    return tuple(checks)


def check_sound(
    topic: str, settings: Mapping[int, EffectiveRollSettings], replica_fetch_max_bytes: Mapping[int, int]
) -> tuple[Check, ...]:
    """One check for each broken rule, naming the brokers; one passed check if all rules hold. Also for a topic about to
    move: a segment.bytes below replica.fetch.max.bytes can stop the fetcher of a whole broker pair in mid-move.
    """
    name = "segment_settings_sound"
    checks = []
    for expectation, severity, problem in _RULES:
        broken: dict[str, list[int]] = {}
        for broker, values in sorted(settings.items()):
            text = problem(values)
            if text is not None:
                broken.setdefault(text, []).append(broker)
        if broken:
            finding = "; ".join(f"{text} on broker {_ids(brokers)}" for text, brokers in broken.items())
            checks.append(Check(name, topic, expectation, finding, severity == "warning", severity))
    checks += _fetch_fits(topic, settings, replica_fetch_max_bytes)
    if not checks and settings:
        finding = f"all {len(_RULES) + 1} rules hold on broker {_ids(sorted(settings))}"
        checks.append(Check(name, topic, "every rule for segment settings holds", finding, True))
    return tuple(checks)


def _index_too_small(values: EffectiveRollSettings) -> str | None:
    if values.segment_index_bytes >= LEAST_INDEX_BYTES:
        return None
    return f"segment.index.bytes is {values.segment_index_bytes}: the time index is full at once, every append rolls"


def _index_full_first(values: EffectiveRollSettings) -> str | None:
    """At most one entry comes in for each append and for each index.interval.bytes."""
    entries = -(-values.segment_bytes // max(1, values.index_interval_bytes)) + 1
    needed = TIME_ENTRY_BYTES * entries
    if not LEAST_INDEX_BYTES <= values.segment_index_bytes < needed:
        return None
    return (
        f"segment.index.bytes is {values.segment_index_bytes}, a full segment of {values.segment_bytes} bytes can need "
        f"{needed}: it may roll before it is full"
    )


def _jitter_too_big(values: EffectiveRollSettings) -> str | None:
    if values.segment_jitter_ms < values.segment_ms:
        return None
    return f"segment.jitter.ms {values.segment_jitter_ms} reaches segment.ms {values.segment_ms}: it may roll at once"


def _message_too_big(values: EffectiveRollSettings) -> str | None:
    if values.segment_bytes >= values.max_message_bytes:
        return None
    return f"segment.bytes is {values.segment_bytes}, max.message.bytes {values.max_message_bytes}"


def _roll_after_retention(values: EffectiveRollSettings) -> str | None:
    if "delete" not in values.cleanup_policy or values.retention_ms == UNLIMITED:
        return None
    if values.segment_ms <= values.retention_ms:
        return None
    return f"segment.ms {values.segment_ms} is above retention.ms {values.retention_ms}: records can stay for both"


_Rule = tuple[str, Severity, Callable[[EffectiveRollSettings], str | None]]
_RULES: tuple[_Rule, ...] = (
    (f"segment.index.bytes at least {LEAST_INDEX_BYTES}", "error", _index_too_small),
    ("jitter below segment.ms", "error", _jitter_too_big),
    ("segment.bytes not below max.message.bytes, or large batches are refused", "error", _message_too_big),
    ("indexes large enough for a full segment", "warning", _index_full_first),
    ("segments roll within the retention time", "warning", _roll_after_retention),
)


def _fetch_fits(
    topic: str, settings: Mapping[int, EffectiveRollSettings], replica_fetch_max_bytes: Mapping[int, int]
) -> Iterable[Check]:
    """A chunk larger than segment.bytes makes a follower's append throw; in 2.0 its whole fetcher thread dies."""
    fetches = {broker: replica_fetch_max_bytes[broker] for broker in settings if broker in replica_fetch_max_bytes}
    unknown = sorted(set(settings) - set(fetches))
    broken = [
        f"segment.bytes {settings[broker].segment_bytes} against {fetch} on broker {broker}"
        for broker, fetch in sorted(fetches.items())
        if settings[broker].segment_bytes < fetch
    ]
    if unknown:
        broken.append(f"replica.fetch.max.bytes is unknown on broker {_ids(unknown)}")
    if broken:
        yield Check(
            "segment_settings_sound",
            topic,
            "segment.bytes not below replica.fetch.max.bytes, or a new replica's fetcher can stop",
            "; ".join(broken),
            False,
        )


def _unchanged(topic: str, brokers: Sequence[int], before: EffectiveConfigs, after: EffectiveConfigs) -> Check:
    """The same broker, then and now."""
    changes = []
    for broker in brokers:
        then = before.get((topic, broker))
        if then is None:
            changes.append(f"unknown at the snapshot on broker {broker}")
        elif then != after[topic, broker]:
            changes.append(f"{differences(then, after[topic, broker])} on broker {broker}")
    finding = "; ".join(changes) if changes else f"as at the snapshot on broker {_ids(brokers)}"
    return Check("segment_settings_unchanged", topic, "the same settings as at the snapshot", finding, not changes)


def _same_on_new_broker(topic: str, moves: Sequence[Move], before: EffectiveConfigs, after: EffectiveConfigs) -> Check:
    """A partition's effective settings can change merely because it moved: brokers may have other static values."""
    found = []
    for move in moves:
        origins = [before[topic, broker] for broker in move.before if (topic, broker) in before]
        for broker in move.added:
            here, where = after.get((topic, broker)), f"partition {move.topic_partition.partition}, broker {broker}"
            if here is None or not origins:
                found.append(f"{where}: unknown {'here' if origins else 'on the old brokers'}, so not compared")
            elif here not in origins:
                found.append(f"{where}: {differences(origins[0], here)}")
    finding = "; ".join(found) if found else "the same as on a broker that held the partition before"
    return Check(
        "segment_settings_same_on_new_broker",
        topic,
        "a partition rolls on its new brokers as it did on its old ones",
        finding,
        not found,
    )


def differences(then: EffectiveRollSettings, now: EffectiveRollSettings) -> str:
    """`segment.ms 604800000 -> 3600000 (log.roll.ms (STATIC_BROKER_CONFIG))`, one for each setting that differs."""
    return ", ".join(
        f"{key} {_text(getattr(then, field))} -> {_text(getattr(now, field))}{_source(now.sources, key)}"
        for key, field in _FIELDS.items()
        if getattr(then, field) != getattr(now, field)
    )


def _source(sources: Mapping[str, str], key: str) -> str:
    return f" ({sources[key]})" if key in sources else ""


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))
