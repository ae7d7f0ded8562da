"""The cluster as arrays: what the planner computes on.

Brokers and topics are indices; -1 in `replicas` is the end of a shorter list. Loads are always [broker, resource].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafka_rebalance.model.settings import Settings

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

METRICS = ("replicas", "disk", "bytes_in", "leaders", "leader_bytes_out")
REPLICA_METRICS = METRICS[:3]  # follow replicas: moving one costs bytes
LEADER_METRICS = METRICS[3:]  # follow the leader: re-ordering a list, and an election, cost nothing
REPLICAS, DISK, BYTES_IN = range(3)


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
    known_of: Mapping[str, int]  # column of capacities -> of how many brokers that stay it is known, where not of all
    nic_in: Floats | None  # bytes a second; None unless known for every broker that stays: only shares are made of it
    nic_out: Floats | None
    networks: Floats  # [broker, (in, out)] bytes a second as stated, NaN where not: for people, of single brokers
    lasting_bytes: Ints | None = None  # of size_bytes, what retention will have left; None: all of it
    growth_bytes_per_day: Floats | None = None  # of one replica, by the ledger's samples; 0 where they do not reach
    history: Mapping[str, Any] | None = None  # what the ledger's samples gave to this problem

    @property
    def relocatable(self) -> Bools:
        """[partition row] Partitions whose replicas may go to other brokers."""
        return self.movable & ~self.pinned

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


def replica_weights(problem: Problem) -> Floats:
    """[partition row, REPLICA_METRICS] What one replica weighs: 1, bytes, bytes a second (0 where not known)."""
    rows = len(problem.size_bytes)
    bytes_in = problem.bytes_in if problem.bytes_in is not None else np.zeros(rows)
    lasting = problem.size_bytes if problem.lasting_bytes is None else problem.lasting_bytes
    return np.stack([np.ones(rows), lasting.astype(np.float64), bytes_in], axis=1)


def leader_weights(problem: Problem, replicas: Ints) -> Floats:
    """[partition row, LEADER_METRICS] What leading weighs: 1, and bytes a second sent to followers and consumers."""
    rows = len(problem.size_bytes)
    out = problem.bytes_out.copy() if problem.bytes_out is not None else np.zeros(rows)
    if problem.bytes_in is not None:
        out += (replication(replicas) - 1) * problem.bytes_in
    return np.stack([np.ones(rows), out], axis=1)


def replica_loads(replicas: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, resource] Sum of the weights of the replicas that each broker holds."""
    rows = np.nonzero(replicas >= 0)[0]
    held = replicas[replicas >= 0]
    return np.stack([np.bincount(held, weights[rows, k], brokers) for k in range(weights.shape[1])], axis=1)


def leader_loads(leaders: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, resource] Sum of the weights of the partitions that the broker leads; `leaders` is [partition row]."""
    return np.stack([np.bincount(leaders, weights[:, k], brokers) for k in range(weights.shape[1])], axis=1)


def bytes_out(problem: Problem, replicas: Ints, leaders: Ints) -> Floats | None:
    """[broker] Bytes a second that leave it, None where not known what comes in. `leaders` is [partition row].

    Where nothing says what consumers read they count as reading once what is written, as for the throttle `auto`
    (`execution.rates.traffic`). The planner's own metric leaves them out then.
    """
    if problem.bytes_in is None:
        return None
    read = problem.bytes_in if problem.bytes_out is None else problem.bytes_out
    sent = (replication(replicas) - 1) * problem.bytes_in + read
    return leader_loads(leaders, sent[:, None], len(problem.brokers))[:, 0]


def loads_now(problem: Problem) -> Floats:
    """[broker, METRICS] Every load as it is now, with who leads now; in its own unit."""
    return all_loads(problem, problem.replicas, problem.leader)


def all_loads(problem: Problem, replicas: Ints, leaders: Ints) -> Floats:
    """[broker, METRICS] Every load, in its own unit. `leaders` is [partition row], broker indices."""
    brokers = len(problem.brokers)
    return np.hstack(
        [
            replica_loads(replicas, replica_weights(problem), brokers),
            leader_loads(leaders, leader_weights(problem, replicas), brokers),
        ]
    )


def known_metrics(problem: Problem) -> tuple[str, ...]:
    """The metrics that this snapshot has figures for."""
    known = ["replicas", "disk"]
    known += ["bytes_in"] if problem.bytes_in is not None else []
    known += ["leaders"]
    known += ["leader_bytes_out"] if problem.bytes_in is not None or problem.bytes_out is not None else []
    return tuple(known)


def shares(problem: Problem) -> Floats:
    """[broker, METRICS] The share of the whole that each staying broker should carry; columns sum to 1.

    By capacity where it is known for every broker that stays, else equal. Replicas go with the disk they lie on and
    leaders with the network they send on: equal counts on unequal brokers would contradict the other resources. Where
    the network is unknown leaders are equal even on unequal disks: who has the larger disk need not send faster.
    """
    stays = problem.staying.astype(np.float64)
    disk = None if np.isnan(problem.disk_capacity[problem.staying]).any() else problem.disk_capacity
    by_metric = (disk, disk, problem.nic_in, problem.nic_out, problem.nic_out)
    columns = [stays if capacity is None else np.where(problem.staying, capacity, 0.0) for capacity in by_metric]
    return np.stack([column / column.sum() for column in columns], axis=1)
