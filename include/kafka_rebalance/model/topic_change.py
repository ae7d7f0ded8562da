"""One change of one topic, as the run will write it, and what became of it. People approve it, by its digest."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicIdentity


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A creation, an alteration or a deletion. Numbers of partitions are those of the whole topic."""

    action: str
    topic: str
    cluster_id: str
    kafka_version: str | None  # of the inter-broker protocol: decides what Kafka accepts. None: Kafka checks it itself
    new_partitions: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # broker ids, preferred leader first
    partitions_before: int = 0
    replication_factor: int = 0
    configs_before: Mapping[str, str] = field(default_factory=dict)
    config_changes: Mapping[str, str | None] = field(default_factory=dict)  # None: remove
    identity: TopicIdentity | None = None  # of the topic that is there; None: it is to be created

    @property
    def existing(self) -> TopicIdentity:
        """Of the topic that is to be altered or deleted."""
        assert self.identity is not None
        return self.identity

    @property
    def partitions_after(self) -> int:
        return 0 if self.action == "delete" else self.partitions_before + len(self.new_partitions)

    @property
    def brokers_used(self) -> frozenset[int]:
        return frozenset(broker for brokers in self.new_partitions.values() for broker in brokers)

    @property
    def adds_partitions(self) -> bool:
        return self.action == "alter" and bool(self.new_partitions)

    @property
    def configs_after(self) -> dict[str, str]:
        merged = {**self.configs_before, **self.config_changes}
        return {key: value for key, value in sorted(merged.items()) if value is not None}

    @property
    def changes_nothing(self) -> bool:
        return self.action == "alter" and not self.new_partitions and not self.config_changes

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values, every key present."""
        partitions = {str(partition): list(brokers) for partition, brokers in sorted(self.new_partitions.items())}
        return {**dataclasses.asdict(self), "new_partitions": partitions}

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of what the run will write, and of the topic from which it starts."""
        return digest_of(self.to_mapping())


@dataclass(frozen=True, slots=True)
class Created:
    outcome: Outcome
    orphaned_config: Mapping[str, str] | None = None  # a tool's crash had left it without a topic; it was replaced


@dataclass(frozen=True, slots=True)
class Deletion:
    """How far a deletion is. It ends when assignment, config and marker of the topic are all gone."""

    marked: bool
    topic_left: bool
    config_left: bool
