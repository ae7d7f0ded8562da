"""Configs of small clusters for the tests of segment settings, as brokers of a version report them with nothing set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.documents.snapshot import ClusterConfigs
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.segments.open_files import Placed

STATIC, DYNAMIC, DYNAMIC_DEFAULT, DEFAULT = (
    "STATIC_BROKER_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "DEFAULT_CONFIG",
)
DAY = 86_400_000
MIB = 1 << 20
KAFKAS_DEFAULTS = {  # of 3.9
    "log.segment.bytes": "1073741824",
    "log.roll.ms": None,
    "log.roll.hours": "168",
    "log.roll.jitter.ms": None,
    "log.roll.jitter.hours": "0",
    "log.index.size.max.bytes": "10485760",
    "log.index.interval.bytes": "4096",
    "message.max.bytes": "1048588",
    "log.retention.ms": None,
    "log.retention.minutes": None,
    "log.retention.hours": "168",
    "log.retention.bytes": "-1",
    "log.cleanup.policy": "delete",
    "log.segment.delete.delay.ms": "60000",
    "log.cleaner.max.compaction.lag.ms": "9223372036854775807",
    "log.retention.check.interval.ms": "300000",
    "replica.fetch.max.bytes": "1048576",
    "inter.broker.protocol.version": "3.9-IV0",
}


def reported(source: str = STATIC, **changes: Any) -> dict[str, tuple[str | None, str]]:
    """What one broker reports; `log_roll_ms=5` is set, on the level named."""
    values: dict[str, tuple[str | None, str]] = {key: (value, DEFAULT) for key, value in KAFKAS_DEFAULTS.items()}
    return values | {key.replace("_", "."): (str(value), source) for key, value in changes.items()}


def configs(
    topics: Mapping[str, Mapping[str, Any]] | None = None,
    brokers: Mapping[int, Mapping[str, tuple[str | None, str]]] | None = None,
    **others: Any,
) -> ClusterConfigs:
    """Brokers 1 to 4 with nothing set unless said otherwise; the topics' values as texts."""
    texts = {topic: {key: str(value) for key, value in values.items()} for topic, values in (topics or {}).items()}
    return ClusterConfigs(texts, dict.fromkeys((1, 2, 3, 4), reported()) | dict(brokers or {}), **others)


def placed(name: str, replicas: tuple[int, ...], size_bytes: int = 1000) -> Placed:
    topic, _, partition = name.rpartition("-")
    return Placed(TopicPartition(topic, int(partition)), replicas, size_bytes)


def configs_document(
    topics: Mapping[str, Mapping[str, str]], brokers: Mapping[int, Mapping[str, tuple[str | None, str]]] | None = None
) -> dict[str, Any]:
    """What the snapshot writes as configs.json, of `configs`."""
    return {
        "topics": {topic: dict(values) for topic, values in topics.items()},
        "brokers": {
            str(broker): {key: list(value) for key, value in values.items()}
            for broker, values in configs(topics, brokers).brokers.items()
        },
        "broker_dynamic": {},
        "append_bytes": {},
        "lock_holder": None,
    }
