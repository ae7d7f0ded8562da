"""When Kafka rolls a log segment: the settings for it, as one broker applies them to one topic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.kafka.given_json import INT_MAX
from kafka_rebalance.model.cluster_view import BrokerConfigs

TOPIC_SOURCE = "DYNAMIC_TOPIC_CONFIG"  # AdminClient's name for a value out of `/config/topics/T`
SOURCE_WORDS = {  # AdminClient's names, highest precedence first
    TOPIC_SOURCE: "topic",
    "DYNAMIC_BROKER_CONFIG": "broker dynamic",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "broker dynamic default",
    "STATIC_BROKER_CONFIG": "broker static",
    "DEFAULT_CONFIG": "default",
}
UNLIMITED = -1


class ValueSource(NamedTuple):
    """Where a value comes from: AdminClient's name of the level, and the broker's setting, if it is one."""

    level: str
    broker_key: str | None = None

    @property
    def level_in_words(self) -> str:
        return SOURCE_WORDS.get(self.level, self.level)

    def __str__(self) -> str:
        """For people: `topic`, `log.roll.hours (broker static)`."""
        return self.level_in_words if self.broker_key is None else f"{self.broker_key} ({self.level_in_words})"


class NotReportedError(ReadError):
    """The broker did not report a setting. `problem` says what happened, without what to do."""

    def __init__(self, names: Sequence[str]) -> None:
        self.problem = f"The broker did not report {' or '.join(names)}, so what applies there is unknown"
        super().__init__(f"{self.problem}. Check that the Kafka user may describe the broker's configs.")


_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_NUMBER = re.compile(r"[+-]?[0-9]+")

# Topic override -> the broker's settings in the order of their precedence, each with the factor for the topic's unit.
# A finer unit hides a coarser one (KafkaConfig.logRollTimeMillis, logRollTimeJitterMillis, getLogRetentionTimeMillis).
# Only the finest can be changed dynamically, so it also hides static values if it is set at a higher level.
_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
}
_CLEANUP_POLICY = ("cleanup.policy", "log.cleanup.policy")
_COMPACTION_LAG = ("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")  # 2.3+
REMOTE_STORAGE = "remote.storage.enable"  # of topics alone
# How much of a tiered topic the brokers' own disks keep (KIP-405, 3.6+).
_LOCAL_RETENTION = {
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
}
OF_TIERED = frozenset(_LOCAL_RETENTION)
_AS_RETENTION = -2  # the value that stands for the retention of the whole log, and the default
# A broker has one value of these for all its topics.
CHECK_INTERVAL_MS = "log.retention.check.interval.ms"
REPLICA_FETCH_MAX_BYTES = "replica.fetch.max.bytes"

BROKER_KEYS = (
    *(name for names in _SYNONYMS.values() for name, _ in names),
    _CLEANUP_POLICY[1],
    _COMPACTION_LAG[1],
    *_LOCAL_RETENTION.values(),
    CHECK_INTERVAL_MS,
    REPLICA_FETCH_MAX_BYTES,
)
TOPIC_KEYS = {  # broker key -> topic override; kafka-configs accepts each only for its own entity
    **{name: key for key, names in _SYNONYMS.items() for name, _ in names},
    **{broker_key: key for key, broker_key in (_CLEANUP_POLICY, _COMPACTION_LAG, *_LOCAL_RETENTION.items())},
}


@dataclass(frozen=True, slots=True)
class EffectiveRollSettings:
    """What one broker applies to one topic, for comparison with another broker or another time.

    `retention_ms` and `retention_bytes` are -1 for unlimited. `max_compaction_lag_ms` is None if the broker does not
    know it (below 2.3). `local_retention_ms` and `local_retention_bytes` are what the disks of brokers keep of a tiered
    topic, and None for others, whose whole log is there. The last three take no part in comparisons: two are the same
    for all topics of the broker, and `sources` says where each value comes from.
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
    file_delete_delay_ms: int
    max_compaction_lag_ms: int | None
    local_retention_ms: int | None
    local_retention_bytes: int | None
    retention_check_interval_ms: int = field(compare=False)
    replica_fetch_max_bytes: int = field(compare=False)  # the largest chunk a new replica there appends at once
    sources: Mapping[str, ValueSource] = field(default_factory=dict, compare=False)

    @property
    def deletes(self) -> bool:
        """Whether retention applies."""
        return "delete" in self.cleanup_policy

    @property
    def is_tiered(self) -> bool:
        """Whether brokers move older segments to remote storage."""
        return self.local_retention_ms is not None

    @property
    def on_disk_ms(self) -> int:
        """How long the disks of brokers keep records; -1 is unlimited."""
        return self.retention_ms if self.local_retention_ms is None else self.local_retention_ms

    @property
    def on_disk_bytes(self) -> int:
        """How many bytes of a partition the disks of brokers keep; -1 is unlimited."""
        return self.retention_bytes if self.local_retention_bytes is None else self.local_retention_bytes

    @property
    def roll_ms(self) -> int:
        """How much time a segment may span: from 2.3 on, at most a compacted topic's lag (LogConfig.maxSegmentMs)."""
        if "compact" in self.cleanup_policy and self.max_compaction_lag_ms is not None:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms


def is_tiered(topic_overrides: Mapping[str, str]) -> bool:
    """Whether brokers copy the topic's older segments to remote storage and then delete their own (KIP-405)."""
    return topic_overrides.get(REMOTE_STORAGE, "").strip().lower() == "true"


def effective_roll_settings(topic_overrides: Mapping[str, str], broker_configs: BrokerConfigs) -> EffectiveRollSettings:
    """The settings for rolling and retention of a topic on the broker with these effective configs.

    `topic_overrides` is the config of `/config/topics/T`. `broker_configs` is {key: (value, source)} as the broker
    itself reports it; a value that is not set is None. Precedence: topic > broker, and at the broker ms > minutes >
    hours. Raises ReadError if the broker did not report a setting: its default depends on the version, so it is not
    guessed. Raises KafkaRuleError for a value that brokers cannot load.
    """
    effective = {key: _effective(key, names, topic_overrides, broker_configs) for key, names in _SYNONYMS.items()}
    effective |= {
        key: _effective(key, ((key, 1),), {}, broker_configs) for key in (CHECK_INTERVAL_MS, REPLICA_FETCH_MAX_BYTES)
    }
    lag, lag_name = _COMPACTION_LAG
    if broker_configs.get(lag_name, (None, ""))[0] is not None:  # below 2.3 brokers ignore it, also in a topic
        effective[lag] = _effective(lag, ((lag_name, 1),), topic_overrides, broker_configs)
    tiered = is_tiered(topic_overrides)
    if tiered:
        for key, name in _LOCAL_RETENTION.items():
            # A broker that does not report the key is of a release without tiered storage.
            if key in topic_overrides or broker_configs.get(name, (None, ""))[0] is not None:
                effective[key] = _effective(key, ((name, 1),), topic_overrides, broker_configs)
    policy_key, policy_name = _CLEANUP_POLICY
    policy, policy_source = _winning(policy_key, (policy_name,), topic_overrides, broker_configs)
    values = {key: value for key, (value, _) in effective.items()}

    def local(key: str) -> int | None:
        value = values.get(f"local.{key}", _AS_RETENTION)
        return max(UNLIMITED, values[key] if value == _AS_RETENTION else value) if tiered else None

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
        file_delete_delay_ms=values["file.delete.delay.ms"],
        max_compaction_lag_ms=values.get(lag),
        local_retention_ms=local("retention.ms"),
        local_retention_bytes=local("retention.bytes"),
        retention_check_interval_ms=values[CHECK_INTERVAL_MS],
        replica_fetch_max_bytes=values[REPLICA_FETCH_MAX_BYTES],
        sources={key: source for key, (_, source) in effective.items()} | {policy_key: policy_source},
    )


def _effective(
    key: str, names: tuple[tuple[str, int], ...], topic_overrides: Mapping[str, str], broker_configs: BrokerConfigs
) -> tuple[int, ValueSource]:
    """(value in the unit of the topic's key, its source)"""
    value, source = _winning(key, tuple(name for name, _ in names), topic_overrides, broker_configs)
    if source.broker_key is None:
        return _number(key, value), source
    return _number(source.broker_key, value) * dict(names).get(source.broker_key, 1), source


def _winning(
    key: str, names: tuple[str, ...], topic_overrides: Mapping[str, str], broker_configs: BrokerConfigs
) -> tuple[str, ValueSource]:
    """(the text that counts, its source)"""
    if key in topic_overrides:
        return topic_overrides[key], ValueSource(TOPIC_SOURCE)
    for name in names:
        value, level = broker_configs.get(name, (None, ""))
        if value is not None:
            return value, ValueSource(level, name)
    raise NotReportedError(names)


def _number(key: str, value: str) -> int:
    text = value.strip()
    if not _NUMBER.fullmatch(text):
        raise KafkaRuleError(
            f"Invalid value {value} for configuration {key}: Not a number of type LONG",
            "Brokers cannot load it. Correct it with kafka-configs.",
        )
    return int(text)


class RollReason(StrEnum):
    SIZE = "size"
    TIME = "time"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    OFFSET = "offset"


def should_roll(
    *,
    segment_size: int,
    max_segment_bytes: int,
    messages_size: int,
    first_batch_timestamp: int | None,
    max_timestamp_in_messages: int,
    created_ms: int,
    now_ms: int,
    segment_ms: int,
    roll_jitter_ms: int,
    offset_index_entries: int,
    offset_index_max_entries: int,
    time_index_entries: int,
    time_index_max_entries: int,
    base_offset: int,
    max_offset_in_messages: int,
) -> RollReason | None:
    """The first reason why Kafka rolls the segment before it appends these messages; None: it does not roll.

    Sizes are in bytes, times in milliseconds. `first_batch_timestamp` is the largest timestamp of the segment's first
    batch. If it is None or negative (magic 0), the wall clock and the time at which the segment was opened count.
    `offset_index_max_entries` is segment.index.bytes / 8, `time_index_max_entries` is segment.index.bytes / 12, rounded
    down. Leaders and followers decide alike.
    Source: LogSegment.shouldRoll and timeWaitedForRoll, the same from 2.0 to 3.9.
    """
    if segment_size > max_segment_bytes - messages_size:
        return RollReason.SIZE
    if first_batch_timestamp is not None and first_batch_timestamp >= 0:
        # Only message time counts: a message older than the first one has waited a negative time, so it never rolls.
        waited_ms = max_timestamp_in_messages - first_batch_timestamp
    else:
        waited_ms = now_ms - created_ms
    if segment_size > 0 and waited_ms > segment_ms - roll_jitter_ms:
        return RollReason.TIME
    if offset_index_entries >= offset_index_max_entries:
        return RollReason.OFFSET_INDEX
    # One slot stays free for the entry that rolling itself appends.
    if time_index_entries >= time_index_max_entries - 1:
        return RollReason.TIME_INDEX
    # Indexes hold 32-bit offsets relative to the base.
    if not 0 <= max_offset_in_messages - base_offset <= INT_MAX:
        return RollReason.OFFSET
    return None
