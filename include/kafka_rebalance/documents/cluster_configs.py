"""A cluster's configs as one look found them, and what each broker applies to each topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kafka_rebalance.kafka.segment_roll import (
    BROKER_KEYS,
    REMOTE_STORAGE,
    TOPIC_KEYS,
    EffectiveRollSettings,
    effective_roll_settings,
)
from kafka_rebalance.kafka.versions import major_minor
from kafka_rebalance.model.configs import ConfigsByBroker

PROTOCOL_VERSION = "inter.broker.protocol.version"
_COUNT = frozenset((*BROKER_KEYS, *TOPIC_KEYS.values(), REMOTE_STORAGE))


@dataclass(frozen=True, slots=True)
class ClusterConfigs:
    topics: Mapping[str, Mapping[str, str]]  # as set in ZooKeeper
    brokers: ConfigsByBroker  # what applies, as each broker reports it; without brokers that were not asked
    dynamic: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # of brokers, as set in ZooKeeper
    append_bytes: Mapping[str, int] = field(default_factory=dict)  # the least of an ordinary append, where known
    lock_holder: str | None = None  # the run that holds the cluster
    # A big cluster has a million pairs of topic and broker, but few differ in what counts. So each topic and broker
    # gets the number of its kind, and each pair of kinds is computed once.
    _kinds: dict[Any, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found: dict[tuple[int, int], EffectiveRollSettings] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """Of `snapshot/configs.json`."""
        return cls(
            topics=document["topics"],
            brokers={
                int(broker): {key: (value, source) for key, (value, source) in values.items()}
                for broker, values in document["brokers"].items()
            },
            dynamic={int(broker): values for broker, values in document["broker_dynamic"].items()},
            append_bytes=document["append_bytes"],
            lock_holder=document["lock_holder"],
        )

    @property
    def version(self) -> str:
        """The newest Kafka release that a broker speaks, as in `2.8`; 3.9 if no broker reports it."""
        told = [values.get(PROTOCOL_VERSION, (None, ""))[0] for values in self.brokers.values()]
        major, minor = max((major_minor(version) for version in told if version), default=(3, 9))
        return f"{major}.{minor}"

    def roll_settings(self, topic: str, broker: int) -> EffectiveRollSettings:
        """What this broker applies to this topic.

        Raises KafkaRuleError for a value that brokers cannot load, ReadError if the broker does not report a setting.
        """
        pair = self._kind(topic), self._kind(broker)
        if pair not in self._found:
            self._found[pair] = effective_roll_settings(self.topics.get(topic, {}), self.brokers.get(broker, {}))
        return self._found[pair]

    def _kind(self, name: str | int) -> int:
        kind = self._kinds.get(name)
        if kind is None:
            configs: Mapping[Any, Mapping[str, object]] = self.topics if isinstance(name, str) else self.brokers
            counts = frozenset((key, value) for key, value in configs.get(name, {}).items() if key in _COUNT)
            kind = self._kinds[name] = self._kinds.setdefault(counts, len(self._kinds))
        return kind
