"""The cluster as arrays: what the planner computes on.

Brokers and topics are indices; -1 in `replicas` is the end of a shorter list. Loads are always [broker, resource].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_rebalance.documents.proposals.history_used import HistoryUsed
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LogDirs:
    """Brokers with several log dirs. Kafka puts a new replica into the one with the fewest replicas, however full it is

    (LogManager.nextLogDir in 2.0, nextLogDirs since), so any of them may be next.
    """

    count: Ints  # [broker]; 0 with one, or where sizes are unknown
    room: Floats  # [broker] bytes that the fullest takes with `disk_headroom` kept free; inf where `count` is 0
    rooms: Floats  # [broker] bytes that all of them take; inf where `count` is 0
    fullest: tuple[str, ...]  # [broker] path of the fullest; "" where `count` is 0
    unknown: Bools  # [broker] has several, and their sizes are unknown


@dataclass(frozen=True, slots=True, eq=False)
class DirContents:
    """What lies in each log dir of the brokers with several."""

    broker: Ints  # [dir] broker index
    path: tuple[str, ...]  # [dir]
    total_bytes: Floats  # [dir]; NaN where the broker does not tell
    used_bytes: Floats  # [dir] by whatever; where the broker does not tell, by its replicas
    holding: Ints  # [partition row, position] index of the dir in which the replica lies; -1: past the end, or unknown


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One snapshot and what is asked of it. Rows are sorted by topic and partition, brokers by id."""

    settings: Settings
    snapshot_digest: str
    topics: tuple[str, ...]
    topic: Ints  # [partition row] index into topics
    partition: Ints
    replicas: Ints  # [partition row, position] broker index, -1 past the end; position 0 is the preferred leader
    leader: Ints  # [partition row] index of the broker that leads now; the first replica's where that is not known
    size_bytes: Ints  # of one replica; 0 where unknown
    bytes_in: Floats | None  # bytes a second, produced; None: nothing is known
    bytes_out: Floats | None  # bytes a second, to consumers
    movable: Bools  # [partition row] selected by the settings and not excluded
    pinned: Bools  # [partition row] `pinned_topics`: the list may be re-ordered, its brokers are these
    rack_pinned: Bools  # [partition row] `rack_pinned_topics`: a replica goes to brokers of its own rack only
    in_sync: Bools  # [partition row, position] in the ISR, or of a partition whose ISR is unknown; False past the end
    min_insync: Ints  # [partition row] min.insync.replicas; 0 where unknown
    unknown_sizes: int  # partitions whose size is unknown and counts as 0
    brokers: Ints  # ids
    racks: tuple[str | None, ...]
    registered: Bools  # False: only named in replica lists, the broker itself is not in the table
    leaving: Bools  # to be emptied
    closed: Bools  # `brokers_out`: keep what they have, receive nothing
    disk_capacity: Floats  # bytes; NaN where unknown: what is known of one broker binds whatever else is not
    disk_used: Floats  # bytes in use, whatever by; NaN where unknown
    log_dirs: LogDirs
    dir_contents: DirContents
    networks: Floats  # [broker, (in, out)] bytes a second; NaN where unknown
    lasting_bytes: Ints | None = None  # of size_bytes, what retention will have left; None: all of it
    growth_bytes_per_day: Floats | None = None  # of one replica, by the ledger's samples; 0 where they do not reach
    history: HistoryUsed | None = None  # what the ledger's samples gave to this problem

    @property
    def relocatable(self) -> Bools:
        """[partition row] Partitions whose replicas may go to other brokers."""
        return self.movable & ~self.pinned

    def name_of(self, row: int | np.int64) -> TopicPartition:
        """The partition of that row."""
        return TopicPartition(self.topics[self.topic[row]], int(self.partition[row]))

    @property
    def staying(self) -> Bools:
        """[broker] Brokers that hold the cluster in the end."""
        return self.registered & ~self.leaving

    @property
    def receivers(self) -> Bools:
        """[broker] Brokers that may be given replicas and leaders."""
        return self.staying & ~self.closed


def replication(replicas: Ints) -> Ints:
    """[partition row] Replicas each partition has."""
    counts: Ints = (replicas >= 0).sum(axis=1)
    return counts


def widened(replicas: Ints, width: int) -> Ints:
    """The lists with room for `width` replicas each."""
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
    """[row] Whether the list is another one, its order included."""
    width = max(before.shape[1], now.shape[1])
    changed: Bools = (widened(before, width) != widened(now, width)).any(axis=1)
    return changed


def lagging(problem: Problem, replicas: Ints) -> Bools:
    """[row, column] Whether the replica was in the list before and is out of the ISR in the snapshot.

    A replica that is new to the list is not: it has caught up when its copy ends.
    """
    behind = (problem.replicas >= 0) & ~problem.in_sync
    rows = np.flatnonzero(behind.any(axis=1))
    found = np.zeros(replicas.shape, dtype=bool)
    out = np.where(behind[rows], problem.replicas[rows], -2)
    found[rows] = (replicas[rows][:, :, None] == out[:, None, :]).any(axis=2)
    return found


def led_first(replicas: Ints, leaders: Ints) -> Ints:
    """The lists, each with this one of its replicas first, which changes places with the one that was."""
    rows = np.arange(len(replicas))
    position = (replicas == leaders[:, None]).argmax(axis=1)
    result = replicas.copy()
    result[rows, position], result[:, 0] = replicas[:, 0], leaders
    return result


def firsts(*keys: Ints) -> Bools:
    """Which entries are the first with each of their keys, so that no two of them share one."""
    first = np.ones(len(keys[0]), dtype=bool)
    for key in keys:
        unseen = np.zeros(len(key), dtype=bool)
        unseen[np.unique(key, return_index=True)[1]] = True
        first &= unseen
    return first


def left_aligned(replicas: Ints) -> Ints:
    """The lists with their gaps closed, order kept."""
    order = np.argsort(replicas < 0, axis=1, kind="stable")
    return np.take_along_axis(replicas, order, axis=1)
