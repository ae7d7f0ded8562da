"""The cluster as arrays, for the planner's computations.

Brokers and topics are indices. -1 in `replicas` is past the end of a shorter list. Loads are always [broker, resource].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kafka_rebalance.documents.proposals import HistoryUsed
from kafka_rebalance.kafka.who_may_receive import Shut
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_T = TypeVar("_T", np.bool_, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class LogDirs:
    """Brokers with several log dirs.

    Kafka puts a new replica into the log dir with the fewest replicas, however full it is (LogManager.nextLogDir in
    2.0, nextLogDirs since). So every log dir may be next.
    """

    count: Ints  # [broker]; 0 if it has one, or if sizes are unknown
    room: Floats  # [broker] bytes that the fullest takes with `disk_headroom` kept free; inf where `count` is 0
    rooms: Floats  # [broker] bytes that all of them take; inf where `count` is 0
    fullest: tuple[str, ...]  # [broker] path of the fullest; "" where `count` is 0
    unknown: Bools  # [broker] has several of unknown size


@dataclass(frozen=True, slots=True, eq=False)
class DirContents:
    """The replicas in each log dir, of brokers with several."""

    broker: Ints  # [dir] broker index
    path: tuple[str, ...]  # [dir]
    total_bytes: Floats  # [dir]; NaN if the broker does not tell
    used_bytes: Floats  # [dir] by anything; if the broker does not tell, by its replicas
    holding: Ints  # [partition row, position] index of the replica's dir; -1: past the end, or unknown
    is_open: Bools  # [dir] it gets new replicas


@dataclass(frozen=True, slots=True)
class Waiting:
    """A partition that nobody can copy unless these brokers, which are to be emptied, come back."""

    partition: TopicPartition
    brokers: tuple[int, ...]
    being_deleted: bool  # its topic; else it has no leader


@dataclass(frozen=True, slots=True, eq=False)
class Pools:
    """Which pool has each topic and each broker. The last pool is of all that no pool of the settings names."""

    names: tuple[str, ...]
    of_topic: Ints  # [topic]
    of_broker: Ints  # [broker]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One snapshot and the settings of its plan. Rows are sorted by topic and partition, brokers by id."""

    settings: Settings
    snapshot_digest: str
    topics: tuple[str, ...]
    topic: Ints  # [partition row] index into topics
    partition: Ints
    replicas: Ints  # [partition row, position] broker index, -1 past the end; position 0 is the preferred leader
    leader: Ints  # [partition row] index of today's leader; the first replica if that is unknown
    size_bytes: Ints  # of one replica; 0 where unknown
    bytes_in: Floats | None  # bytes a second, produced; None: nothing is known
    bytes_out: Floats | None  # bytes a second, to consumers
    movable: Bools  # [partition row] selected by the settings, and not excluded
    pinned: Bools  # [partition row] `pinned_topics`: the list may change its order, but not its brokers
    rack_pinned: Bools  # [partition row] `rack_pinned_topics`: a replica may only go to brokers of its own rack
    in_sync: Bools  # [partition row, position] in the ISR, or the ISR is unknown; False past the end
    min_insync: Ints  # [partition row] min.insync.replicas; 0 where unknown
    unknown_sizes: int  # partitions of unknown size, which counts as 0
    brokers: Ints  # ids
    racks: tuple[str | None, ...]
    registered: Bools  # False: replica lists name the broker, but it has no row in the table
    leaving: Bools  # to be emptied
    closed: Bools  # `brokers_out`, and cordoned brokers that stay: they keep what they have, and receive nothing
    disk_capacity: Floats  # bytes; NaN where unknown: a known size limits its broker even if others are unknown
    disk_used: Floats  # bytes in use by anything; NaN where unknown
    log_dirs: LogDirs
    dir_contents: DirContents
    networks: Floats  # [broker, (in, out)] bytes a second; NaN where unknown
    lasting_bytes: Ints | None = None  # the part of size_bytes that retention will leave; None: all of it
    growth_bytes_per_day: Floats | None = None  # of one replica, by the ledger's samples; 0 if they are too few
    history: HistoryUsed | None = None  # what this problem has from the ledger's samples
    only_receivers: Bools | None = None  # [broker] `brokers_in` or `new_brokers_only`; None: no such limit
    shut: Mapping[int, Shut] = field(default_factory=dict)  # {broker index: why Kafka gives it no new replica}
    # Every topic has an id, which a controller of 2.8 or later has given it (KIP-516, KafkaController.processTopicIds).
    has_topic_ids: bool = False
    kafkas_own: frozenset[str] = frozenset()  # topics that hold the state of Kafka itself, or the cluster's lock
    waits: tuple[Waiting, ...] = ()  # partitions that are left out until a broker comes back
    left: Ints | None = (
        None  # [partition row, n] brokers to which it may not go back, -1 past the end; None: no such limit
    )
    # {candidate: [partition row, position] the list that the last proposal gave the partition, -1: none}
    proposed: Mapping[str, Ints] = field(default_factory=dict)
    pools: Pools | None = None  # `broker_pools`; None: there are none, or this is the problem of one of them
    foreign: Bools | None = None  # [broker] in the problem of one pool: the brokers of the others
    foreign_replicas: Ints | None = None  # [broker] in the problem of one pool: the replicas of the others' topics

    @property
    def relocatable(self) -> Bools:
        """[partition row] Partitions whose replicas may go to other brokers."""
        return self.movable & ~self.pinned

    def name_of(self, row: int | np.int64) -> TopicPartition:
        return TopicPartition(self.topics[self.topic[row]], int(self.partition[row]))

    @property
    def staying(self) -> Bools:
        """[broker] Brokers of the cluster that remains; in the problem of one pool, of the pool that remains."""
        stays = self.registered & ~self.leaving
        return stays if self.foreign is None else stays & ~self.foreign

    @property
    def evened(self) -> Bools:
        """[broker] Brokers whose loads a plan makes even: they may give replicas, and lead what they hold."""
        return self.staying & ~self.closed

    @property
    def receivers(self) -> Bools:
        """[broker] Brokers that may receive replicas; the others of `evened` only give."""
        receivers = self.evened if self.only_receivers is None else self.evened & self.only_receivers
        if self.shut:
            receivers = receivers.copy()
            receivers[list(self.shut)] = False
        return receivers

    @property
    def cordoned(self) -> Bools:
        """[broker] Brokers that no new list may name, because Kafka refuses it."""
        return np.isin(np.arange(len(self.brokers)), [one for one, why in self.shut.items() if why is Shut.CORDONED])

    @property
    def some_only_give(self) -> bool:
        """Whether some brokers that stay may give replicas and receive none."""
        return self.only_receivers is not None or bool(self.shut)


def naming(lists: Ints, brokers: Bools) -> Bools:
    """[row] Whether the list names one of these brokers."""
    named = (lists >= 0) & brokers[np.maximum(lists, 0)]
    rows: Bools = np.any(named, axis=1)
    return rows


def replication(replicas: Ints) -> Ints:
    """[partition row] How many replicas each partition has."""
    counts: Ints = (replicas >= 0).sum(axis=1)
    return counts


def widened(replicas: Ints, width: int) -> Ints:
    """The lists with room for at least `width` replicas each."""
    more = width - replicas.shape[1]
    return np.pad(replicas, ((0, 0), (0, more)), constant_values=-1) if more > 0 else replicas


def among(replicas: Ints, before: Ints) -> Bools:
    """[row, column] Whether the replica was in the partition's list before."""
    known: Bools = (replicas >= 0) & (replicas[:, :, None] == before[:, None, :]).any(axis=2)
    return known


def added(replicas: Ints, before: Ints) -> Bools:
    """[row, column] Whether the replica was not in the partition's list before."""
    return (replicas >= 0) & ~among(replicas, before)


def changed_lists(before: Ints, now: Ints) -> Bools:
    """[row] Whether the list differs, in order or in brokers."""
    width = max(before.shape[1], now.shape[1])
    changed: Bools = (widened(before, width) != widened(now, width)).any(axis=1)
    return changed


def lagging(problem: Problem, replicas: Ints) -> Bools:
    """[row, column] Whether the replica was in the list before and is out of the ISR in the snapshot.

    A new replica does not lag: it has caught up when its copy ends.
    """
    behind = (problem.replicas >= 0) & ~problem.in_sync
    rows = np.flatnonzero(behind.any(axis=1))
    found = np.zeros(replicas.shape, dtype=bool)
    out = np.where(behind[rows], problem.replicas[rows], -2)
    found[rows] = (replicas[rows][:, :, None] == out[:, None, :]).any(axis=2)
    return found


def led_first(replicas: Ints, leaders: Ints) -> Ints:
    """The lists, where each of these leaders has changed places with the first replica."""
    rows = np.arange(len(replicas))
    position = (replicas == leaders[:, None]).argmax(axis=1)
    result = replicas.copy()
    result[rows, position], result[:, 0] = replicas[:, 0], leaders
    return result


def todays_leaders_first(problem: Problem) -> Problem:
    """The problem, where today's leader is the first replica of every list.

    Its searches count a leader change where today's leader stops leading, and a move of another replica costs none.
    """
    rows = np.arange(len(problem.replicas))
    position = (problem.replicas == problem.leader[:, None]).argmax(axis=1)

    def exchanged(values: NDArray[_T]) -> NDArray[_T]:
        result = values.copy()
        result[rows, position], result[:, 0] = values[:, 0], values[rows, position]
        return result

    contents = replace(problem.dir_contents, holding=exchanged(problem.dir_contents.holding))
    return replace(
        problem,
        replicas=exchanged(problem.replicas),
        in_sync=exchanged(problem.in_sync),
        dir_contents=contents,
    )


def firsts(*keys: Ints) -> Bools:
    """Which entries are the first with each of their keys, so that no two of them share one."""
    first = np.ones(len(keys[0]), dtype=bool)
    for key in keys:
        unseen = np.zeros(len(key), dtype=bool)
        unseen[np.unique(key, return_index=True)[1]] = True
        first &= unseen
    return first


def left_aligned(replicas: Ints) -> Ints:
    """The lists without gaps, in the same order."""
    order = np.argsort(replicas < 0, axis=1, kind="stable")
    return np.take_along_axis(replicas, order, axis=1)
