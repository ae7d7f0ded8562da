"""The configs of a topic: the names and values that each Kafka version accepts, with Kafka's own messages.

Source: kafka.log.LogConfig (2.0 to 3.4), org.apache.kafka.storage.internals.log.LogConfig (3.5 on) and
org.apache.kafka.common.config.ConfigDef.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.given_json import LONG_MAX, format_double, parse_double, parse_integer, split, trim
from kafka_rebalance.kafka.throttles import EVERY_REPLICA, FOLLOWER_REPLICAS, LEADER_REPLICAS
from kafka_rebalance.kafka.versions import major_minor

_Release = tuple[int, int]

_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
# Names of inter-broker protocol versions (ApiVersion, MetadataVersion), each with the number of its -IVn.
_PROTOCOLS = (
    *(("0.8.0", 0), ("0.8.1", 0), ("0.8.2", 0), ("0.9.0", 0), ("0.10.0", 2), ("0.10.1", 3), ("0.10.2", 1)),
    *(("0.11.0", 3), ("1.0", 1), ("1.1", 1), ("2.0", 2), ("2.1", 3), ("2.2", 2), ("2.3", 2), ("2.4", 2), ("2.5", 1)),
    *(("2.6", 1), ("2.7", 3), ("2.8", 2), ("3.0", 2), ("3.1", 1), ("3.2", 1), ("3.3", 4), ("3.4", 1), ("3.5", 3)),
    *(("3.6", 3), ("3.7", 5), ("3.8", 1), ("3.9", 1)),
)


def check_topic_config(key: str, value: str, *, version: str = "2.0") -> None:
    """Raises KafkaRuleError unless Kafka of that version accepts this name and this value.

    One value that kafka-topics 2.0 accepts is refused too: a message.format.version that no broker can load.
    """
    _values({key: value}, major_minor(version))


def check_topic_configs(
    configs: Mapping[str, str], *, version: str = "2.0", existing: Mapping[str, str] | None = None
) -> None:
    """Raises KafkaRuleError unless Kafka of that version accepts all these configs, in place of the `existing` ones.

    Checks in Kafka's order: all names, then each value, then values that exclude each other. Configs that are not given
    have the brokers' defaults. From 3.6 on, tiered storage may stay but not be turned on, as if no broker had it: once
    a topic has it, a broker without it does not start again.
    """
    release = major_minor(version)
    values = _values(configs, release)
    at_least, at_most = values.get("min.compaction.lag.ms", 0), values.get("max.compaction.lag.ms", LONG_MAX)
    if at_least > at_most:
        raise KafkaRuleError(
            f"conflict topic config setting min.compaction.lag.ms ({at_least}) > max.compaction.lag.ms ({at_most})"
        )
    if values.get("remote.log.delete.on.disable") or values.get("remote.log.copy.disable"):
        raise KafkaRuleError(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
        )
    was_tiered = (existing or {}).get("remote.storage.enable", "").lower() == "true"
    if values.get("remote.storage.enable") and not was_tiered and release >= (3, 6):
        raise KafkaRuleError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
            "Nothing was written. If all brokers have it, set it with kafka-configs.",
        )
    if was_tiered and not values.get("remote.storage.enable") and release >= (3, 9):
        raise KafkaRuleError(
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data "
            "and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want "
            "to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`.",
            "Nothing was written. With ZooKeeper, neither is possible.",
        )


def check_topic_config_names(names: Collection[str], *, version: str = "2.0") -> None:
    """Raises KafkaRuleError for a name that is no topic config of that version. Use it for configs to be removed."""
    known = topic_config_names(version)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise KafkaRuleError(
            f"Unknown topic config name: {unknown[0]}",
            f"Nothing was written. Kafka {version} knows: {', '.join(known)}.",
        )


def topic_config_names(version: str = "2.0") -> tuple[str, ...]:
    return tuple(sorted(_definitions(major_minor(version))))


def parse_config_arguments(arguments: Sequence[str]) -> dict[str, str]:
    """{name: value} of `name=value` texts, trimmed and not yet checked. The last value of a repeated name counts.

    A value with `=` raises KafkaRuleError, because kafka-topics splits at each `=`.
    Source: TopicCommand.parseTopicConfigsToBeAdded (2.0).
    """
    pairs = [split(argument, r"\s*=\s*") for argument in arguments]
    for argument, pair in zip(arguments, pairs, strict=True):
        if len(pair) != 2:
            raise KafkaRuleError(
                'Invalid topic config: all configs to be added must be in the format "key=val".',
                f"{argument!r} is not. Nothing was written.",
            )
    return {trim(name): trim(value) for name, value in pairs}


def _values(configs: Mapping[str, str], release: _Release) -> dict[str, Any]:
    """{name: value as Kafka reads it}, checked in the order of the definitions, as ConfigDef.parse does."""
    check_topic_config_names(configs, version=f"{release[0]}.{release[1]}")
    values = {}
    for name, definition in _definitions(release).items():
        if name in configs:
            values[name] = definition.read(name, configs[name])
            if definition.check is not None:
                definition.check(name, values[name])
    return values


# Reads a value's type (ConfigDef.parseType). The message shows an unreadable value as it was given.


def _read_integer(name: str, text: str, bits: int, kind: str) -> int:
    try:
        return parse_integer(trim(text), bits)
    except ValueError:
        raise _invalid(name, text, f"Not a number of type {kind}") from None


_int = partial(_read_integer, bits=32, kind="INT")
_long = partial(_read_integer, bits=64, kind="LONG")


def _double(name: str, text: str) -> float:
    try:
        return parse_double(trim(text))
    except ValueError:
        raise _invalid(name, text, "Not a number of type DOUBLE") from None


def _boolean(name: str, text: str) -> bool:
    raised = trim(text).upper()
    if raised not in ("TRUE", "FALSE"):
        raise _invalid(name, text, "Expected value to be either true or false")
    return raised == "TRUE"


def _string(_name: str, text: str) -> str:
    return trim(text)


def _list(_name: str, text: str) -> list[str]:
    return re.split(r"\s*,\s*", trim(text), flags=re.ASCII) if trim(text) else []


# Checks a value (ConfigDef.Validator). The message shows a value out of range as it was read.

_Check = Callable[[str, Any], None]


def _at_least(minimum: int, maximum: int | None = None) -> _Check:
    def check(name: str, value: float) -> None:
        if value < minimum:
            raise _invalid(name, value, f"Value must be at least {minimum}")
        if maximum is not None and value > maximum:
            raise _invalid(name, value, f"Value must be no more than {maximum}")

    return check


def _gzip_level(name: str, level: int) -> None:
    if not (1 <= level <= 9 or level == -1):
        raise _invalid(name, level, "Value must be between 1 and 9 or equal to -1")


def _one_of(*known: str) -> _Check:
    def check(name: str, value: str) -> None:
        if value not in known:
            raise _invalid(name, value, f"String must be one of: {', '.join(known)}")

    return check


def _each_one_of(*known: str) -> _Check:
    check_one = _one_of(*known)

    def check(name: str, values: Sequence[str]) -> None:
        for value in values:
            check_one(name, value)

    return check


def _throttled_replicas(release: _Release) -> _Check:
    """ThrottledReplicaListValidator: before 2.8, `*` as the first entry means all; from 2.8 on, `*` must be alone."""
    form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    if release < (2, 3):
        form = "[partitionId],[brokerId]:[partitionId],[brokerId]:..."  # as Kafka prints it, by mistake

    def check(name: str, entries: Sequence[str]) -> None:
        everything = entries[:1] == [EVERY_REPLICA] if release < (2, 8) else "".join(entries) == EVERY_REPLICA
        if not everything and not all(_THROTTLED.fullmatch(entry) for entry in entries):
            raise _invalid(
                name,
                f"[{', '.join(entries)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: {form}",
            )

    return check


def _protocol_version(release: _Release) -> _Check:
    """ApiVersion.apply, from 3.3 on MetadataVersion.fromVersionString: the first two numbers count; of 0.x, three."""
    names = {
        name
        for short, ivs in _PROTOCOLS
        if major_minor(short) <= release
        for name in (short, *(f"{short}-IV{number}" for number in range(ivs)))
    }

    def check(name: str, value: str) -> None:
        parts = split(value, r"\.")
        numbers = 3 if value.startswith("0.") else 2
        key = value if release >= (3, 3) and len(parts) <= numbers else ".".join(parts[:numbers])
        if key in names:
            return
        quoted = value if release >= (3, 3) else f"`{value}`"
        reason = f"Version {quoted} is not a valid version"
        if release < (2, 1):  # only the brokers would check it
            raise KafkaRuleError(reason, f"No broker could load the topic with this {name}. Nothing was written.")
        raise _invalid(name, value, reason)

    return check


def _invalid(name: str, value: object, reason: str) -> KafkaRuleError:
    shown = format_double(value) if isinstance(value, float) else value
    return KafkaRuleError(f"Invalid value {shown} for configuration {name}: {reason}")


@dataclass(frozen=True, slots=True)
class _Definition:
    name: str
    read: Callable[[str, str], Any]
    check: _Check | None = None
    since: _Release = (0, 0)


@cache
def _definitions(release: _Release) -> dict[str, _Definition]:
    """By name, in Kafka's order. If a release changed a rule, the later line replaces the earlier one."""
    definitions = (
        _Definition("segment.bytes", _int, _at_least(14)),
        _Definition("segment.ms", _long, _at_least(1)),
        _Definition("segment.jitter.ms", _long, _at_least(0)),
        _Definition("segment.index.bytes", _int, _at_least(0)),
        _Definition("segment.index.bytes", _int, _at_least(4), since=(3, 3)),
        _Definition("flush.messages", _long, _at_least(0)),
        _Definition("flush.messages", _long, _at_least(1), since=(3, 3)),
        _Definition("flush.ms", _long, _at_least(0)),
        _Definition("retention.bytes", _long),
        _Definition("retention.ms", _long),
        _Definition("retention.ms", _long, _at_least(-1), since=(2, 2)),
        _Definition("max.message.bytes", _int, _at_least(0)),
        _Definition("index.interval.bytes", _int, _at_least(0)),
        _Definition("delete.retention.ms", _long, _at_least(0)),
        _Definition("min.compaction.lag.ms", _long, _at_least(0)),
        _Definition("max.compaction.lag.ms", _long, _at_least(1), since=(2, 3)),
        _Definition("file.delete.delay.ms", _long, _at_least(0)),
        _Definition("min.cleanable.dirty.ratio", _double, _at_least(0, 1)),
        _Definition("cleanup.policy", _list, _each_one_of("compact", "delete")),
        _Definition("unclean.leader.election.enable", _boolean),
        _Definition("min.insync.replicas", _int, _at_least(1)),
        _Definition("compression.type", _string, _one_of("uncompressed", "snappy", "lz4", "gzip", "producer")),
        _Definition(
            "compression.type",
            _string,
            _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            since=(2, 1),
        ),
        _Definition("compression.gzip.level", _int, _gzip_level, since=(3, 8)),
        _Definition("compression.lz4.level", _int, _at_least(1, 17), since=(3, 8)),
        _Definition("compression.zstd.level", _int, _at_least(-131072, 22), since=(3, 8)),
        _Definition("preallocate", _boolean),
        _Definition("message.format.version", _string, _protocol_version(release)),
        _Definition("message.timestamp.type", _string, _one_of("CreateTime", "LogAppendTime")),
        _Definition("message.timestamp.difference.max.ms", _long, _at_least(0)),
        _Definition("message.timestamp.before.max.ms", _long, _at_least(0), since=(3, 6)),
        _Definition("message.timestamp.after.max.ms", _long, _at_least(0), since=(3, 6)),
        _Definition(LEADER_REPLICAS, _list, _throttled_replicas(release)),
        _Definition(FOLLOWER_REPLICAS, _list, _throttled_replicas(release)),
        _Definition("message.downconversion.enable", _boolean, since=(2, 0)),
        _Definition("remote.storage.enable", _boolean, since=(3, 0)),
        _Definition("local.retention.ms", _long, _at_least(-2), since=(3, 0)),
        _Definition("local.retention.bytes", _long, _at_least(-2), since=(3, 0)),
        _Definition("remote.log.copy.disable", _boolean, since=(3, 9)),
        _Definition("remote.log.delete.on.disable", _boolean, since=(3, 9)),
    )
    return {definition.name: definition for definition in definitions if definition.since <= release}
