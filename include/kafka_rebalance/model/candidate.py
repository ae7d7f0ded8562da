"""Moves, candidates, and the digest that ties an approval to exactly one candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import attrgetter

from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's replicas before and after; position 0 is the preferred leader."""

    topic_partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int  # of one replica
    batch: int = 0
    reason: str = ""
    leader: int = -1  # the leader in the snapshot; -1: none, or unknown

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that receive a copy."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def bytes_to_copy(self) -> int:
        return self.size_bytes * len(self.added)

    @property
    def source(self) -> int:
        """The broker that sends the copies: the leader before, or else the first replica; -1: there is none."""
        return self.leader if self.leader in self.before else (*self.before, -1)[0]

    @property
    def changes_leader(self) -> bool:
        """Whether another broker leads in the end. The run elects the first broker of `after`."""
        return self.after[:1] != (self.source,)

    @property
    def is_election(self) -> bool:
        """Whether the list stays the same, and the run only elects its first replica."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class Batch:
    """The moves that one reassignment znode requests, and the digest of their candidate."""

    number: int
    moves: tuple[Move, ...]
    candidate_digest: str

    @property
    def elects(self) -> bool:
        """Whether it has only elections, which need no reassignment request."""
        return all(move.is_election for move in self.moves)


class Status(StrEnum):
    """Whether a candidate reaches its goal."""

    OK = "ok"
    PARTIAL = "partial"  # stopped at a limit, or short of the goal; the note says which
    INFEASIBLE = "infeasible"  # not offered
    FAILED = "failed"  # not offered: its computation raised an error, which the note has


OFFERED = (Status.OK, Status.PARTIAL)  # a person may choose these


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposed assignment, as in the table `candidates` and in `proposals.json`."""

    name: str
    digest: str
    status: str  # of Status
    moves: tuple[Move, ...]
    note: str = ""
    summary: Mapping[str, float | int | None] = field(default_factory=dict)  # the wide row, see planning.tables

    @property
    def batches(self) -> tuple[Batch, ...]:
        by_number = groupby(sorted(self.moves, key=attrgetter("batch")), attrgetter("batch"))
        return tuple(Batch(number, tuple(moves), self.digest) for number, moves in by_number)


def candidate_digest(name: str, snapshot_digest: str, settings: Mapping[str, object], moves: Iterable[Move]) -> str:
    """SHA-256 (hex) of what runs: the snapshot it starts from, the settings, and every move with its batch."""
    return digest_of(
        {
            "candidate": name,
            "snapshot": snapshot_digest,
            "settings": settings,
            "moves": [
                [
                    *m.topic_partition,
                    list(m.before),
                    list(m.after),
                    m.batch,
                    # Only if it is not the first replica: plans of older versions do not have it.
                    *([m.source] if (m.source,) != m.before[:1] else []),
                ]
                for m in sorted(moves, key=lambda m: (m.batch, m.topic_partition))
            ],
        }
    )


def brokers_touched(moves: Sequence[Move]) -> frozenset[int]:
    """Every broker that holds a replica before or after."""
    return frozenset(broker for move in moves for broker in (*move.before, *move.after))


# The loads that a plan makes even between brokers.


class Metric(StrEnum):
    """A load of brokers, in the order of the tables' rows. Files hold these values."""

    REPLICAS = "replicas"
    DISK = "disk"
    BYTES_IN = "bytes_in"
    LEADERS = "leaders"
    LEADER_BYTES_OUT = "leader_bytes_out"

    @property
    def noun(self) -> str:
        """The words of a sentence, as in `its share of bytes on disk`."""
        return _NOUNS[self]

    @property
    def heading(self) -> str:
        return self.noun.capitalize()

    @property
    def is_count(self) -> bool:
        """Whether its unit is replicas, not bytes."""
        return self in (Metric.REPLICAS, Metric.LEADERS)


_NOUNS: Mapping[str, str] = {
    Metric.REPLICAS: "replicas",
    Metric.DISK: "bytes on disk",
    Metric.BYTES_IN: "bytes in",
    Metric.LEADERS: "leaders",
    Metric.LEADER_BYTES_OUT: "bytes out of leaders",
}


def noun_of(name: str) -> str:
    """The noun of a metric in a file. A metric of a later version keeps its name."""
    return _NOUNS.get(name, name)
