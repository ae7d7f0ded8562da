"""When Kafka rolls a log segment: the settings that decide it, as one broker applies them to one topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_rebalance.errors import KafkaRuleError, ReadError

TOPIC_SOURCE = "DYNAMIC_TOPIC_CONFIG"  # AdminClient's name for a value out of `/config/topics/T`
REPLICA_FETCH_MAX_BYTES = "replica.fetch.max.bytes"
UNLIMITED = -1

_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_NUMBER = re.compile(r"[+-]?[0-9]+")

# Topic override -> the broker's settings, the one that wins first, with the factor that turns them into the same unit.
# A finer unit hides a coarser one (KafkaConfig.logRollTimeMillis, logRollTimeJitterMillis, getLogRetentionTimeMillis);
# only the finest can be changed dynamically, so it also hides static values when it is set at a higher level.
_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
    "retention.bytes": (("log.retention.bytes", 1),),
}
_CLEANUP_POLICY = ("cleanup.policy", "log.cleanup.policy")

BROKER_KEYS = (
    *(name for names in _SYNONYMS.values() for name, _ in names),
    _CLEANUP_POLICY[1],
    REPLICA_FETCH_MAX_BYTES,
)


@dataclass(frozen=True, slots=True)
class EffectiveRollSettings:
    """What one broker applies to one topic. `sources` says where each comes from; it takes no part in comparisons.

    `retention_ms` and `retention_bytes` are -1 for unlimited.
    """

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    retention_ms: int
    retention_bytes: int
    cleanup_policy: tuple[str, ...]
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)  # topic key -> "broker key (source)"


def effective_roll_settings(
    topic_overrides: Mapping[str, str], broker_configs: Mapping[str, tuple[str | None, str]]
) -> EffectiveRollSettings:
    """The settings that decide rolling and retention of a topic on the broker whose effective configs are given.

    `topic_overrides` is the config of `/config/topics/T`; `broker_configs` is {key: (value, source)} as the broker
    itself reports it, value None where it is not set. Precedence: topic > broker, and at the broker ms > minutes >
    hours. Raises ReadError if the broker did not report what is needed (its default depends on the version, so it is
    not guessed), KafkaRuleError for a value that brokers cannot load.
    """
    found = {key: _effective(key, topic_overrides, broker_configs) for key in _SYNONYMS}
    topic_key, broker_key = _CLEANUP_POLICY
    policy, policy_source = topic_overrides.get(topic_key), TOPIC_SOURCE
    if policy is None:
        reported, source = _reported(broker_key, broker_configs)
        if reported is None:
            raise _not_reported((broker_key,))
        policy, policy_source = reported, f"{broker_key} ({source})"
    values = {key: value for key, (value, _) in found.items()}
    return EffectiveRollSettings(
        segment_bytes=values["segment.bytes"],
        segment_ms=values["segment.ms"],
        segment_jitter_ms=values["segment.jitter.ms"],
        segment_index_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        max_message_bytes=values["max.message.bytes"],
        retention_ms=max(UNLIMITED, values["retention.ms"]),
        retention_bytes=max(UNLIMITED, values["retention.bytes"]),
        cleanup_policy=tuple(part.strip() for part in policy.split(",") if part.strip()),
        sources={key: source for key, (_, source) in found.items()} | {topic_key: policy_source},
    )


def replica_fetch_max_bytes(broker_configs: Mapping[str, tuple[str | None, str]]) -> int:
    """The largest chunk this broker asks a leader for, per partition: what a new replica on it appends at once."""
    value, _ = _reported(REPLICA_FETCH_MAX_BYTES, broker_configs)
    if value is None:
        raise _not_reported((REPLICA_FETCH_MAX_BYTES,))
    return _number(REPLICA_FETCH_MAX_BYTES, value)


def _effective(
    key: str, topic_overrides: Mapping[str, str], broker_configs: Mapping[str, tuple[str | None, str]]
) -> tuple[int, str]:
    if key in topic_overrides:
        return _number(key, topic_overrides[key]), TOPIC_SOURCE
    for name, factor in _SYNONYMS[key]:
        value, source = _reported(name, broker_configs)
        if value is not None:
            return _number(name, value) * factor, f"{name} ({source})"
    raise _not_reported(tuple(name for name, _ in _SYNONYMS[key]))


def _reported(name: str, broker_configs: Mapping[str, tuple[str | None, str]]) -> tuple[str | None, str]:
    return broker_configs.get(name, (None, ""))


def _number(key: str, value: str) -> int:
    text = value.strip()
    if not _NUMBER.fullmatch(text):
        raise KafkaRuleError(
            f"Invalid value {value} for configuration {key}: Not a number of type LONG",
            "Brokers cannot load it. Correct it with kafka-configs.",
        )
    return int(text)


def _not_reported(names: tuple[str, ...]) -> ReadError:
    return ReadError(
        f"The broker did not report {' or '.join(names)}, so what applies there is unknown. Nothing was written. "
        "Check that the Kafka user may describe the broker's configs."
    )
