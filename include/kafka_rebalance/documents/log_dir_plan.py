"""log_dirs.json: what a run of kafka_log_dirs was asked for, its moves, and what they do to each log dir."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import NamedTuple

from kafka_rebalance.documents.json_files import LOG_DIRS, JsonFile, Time
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


@dataclass(frozen=True, slots=True)
class LogDirPlan:
    """The moves in the order in which they are requested, and the limits under which they run."""

    cluster_id: str
    job: str
    moves: tuple[LogDirMove, ...]
    throttle_bytes_per_second: int  # of all copies within one broker together
    copies_per_broker: int  # at once
    disk_headroom: float  # share of a log dir's disk that stays free
    windows: tuple[str, ...] = ()  # of the policy, in which copies begin and end; empty: at any time

    @property
    def digest(self) -> str:
        return digest_of(asdict(self))

    @property
    def brokers(self) -> frozenset[int]:
        return frozenset(move.broker for move in self.moves)

    @property
    def size_bytes(self) -> int:
        return sum(move.size_bytes for move in self.moves)

    @property
    def seconds(self) -> float:
        """At the throttle, of the broker with most bytes: brokers copy side by side."""
        by_broker = Counter[int]()
        for move in self.moves:
            by_broker[move.broker] += move.size_bytes
        return max(by_broker.values(), default=0) / self.throttle_bytes_per_second


@dataclass(frozen=True, slots=True)
class DirForecast:
    """One log dir, in bytes. `peak_bytes` is the most that its disk, or where that is unknown its replicas, may take:
    nothing that leaves it counts, because Kafka deletes that only later.
    """

    broker: int
    path: str
    before_bytes: int  # of its replicas
    after_bytes: int
    peak_bytes: int
    total_bytes: int | None  # of its disk; None: not told (before Kafka 3.3)


@dataclass(frozen=True, slots=True)
class PlannedLogDirs:
    """`digest` is the plan's: people approve it. `broker`, `log_dir`, `tolerance` and `of_run` are as asked for."""

    connection_id: str
    policy_digest: str
    nonce: str
    observed_at: Time
    dag_id: str
    run_id: str
    requested_by: str | None
    reason: str
    broker: int | None
    log_dir: str | None
    tolerance: float
    of_run: str | None
    plan: LogDirPlan
    digest: str
    dirs: tuple[DirForecast, ...]  # of the brokers on which something moves
    bound_bytes: int  # no plan that does the job copies less
    left_bytes: int  # outside the band, on all brokers
    policy_windows: tuple[str, ...] = ()  # also where the plan takes none


LOG_DIRS_FILE = JsonFile(LOG_DIRS, PlannedLogDirs)
