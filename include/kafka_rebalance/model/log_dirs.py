"""Moves of replicas between the log dirs of one broker: what a run was approved to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicPartition


class Replica(NamedTuple):
    """One replica of a partition, by its broker's id."""

    topic: str
    partition: int
    broker: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


@dataclass(frozen=True, slots=True)
class LogDirMove:
    """One replica, and its log dirs before and after: absolute paths on its broker."""

    topic: str
    partition: int
    broker: int
    before: str
    after: str
    size_bytes: int

    @property
    def replica(self) -> Replica:
        return Replica(self.topic, self.partition, self.broker)


@dataclass(frozen=True)
class LogDirPlan:
    """The moves in the order in which they are requested, and the limits under which they run."""

    cluster_id: str
    job: str
    moves: tuple[LogDirMove, ...]
    throttle_bytes_per_second: int  # of all copies within one broker together
    copies_per_broker: int  # at once
    disk_headroom: float  # share of a log dir's disk that stays free

    @cached_property
    def digest(self) -> str:
        return digest_of(self.to_mapping())

    @property
    def brokers(self) -> frozenset[int]:
        return frozenset(move.broker for move in self.moves)

    @property
    def size_bytes(self) -> int:
        return sum(move.size_bytes for move in self.moves)

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values: what the digest is computed from."""
        return {**asdict(self), "moves": [asdict(move) for move in self.moves]}

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> LogDirPlan:
        return cls(**{**given, "moves": tuple(LogDirMove(**move) for move in given["moves"])})
