"""The cluster as arrays, for the planner's computations.

Brokers and topics are indices. -1 in `replicas` is past the end of a shorter list. Loads are always [broker, resource].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kafka_rebalance.documents.proposals import HistoryUsed
from kafka_rebalance.kafka.who_may_receive import Shut
from kafka_rebalance.model.candidate import Metric, Move
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
class Rates:
    """What is written to each partition and read from it, what retention deletes, and how fast it grows.

    The arrays are [partition row].
    """

    bytes_in: Floats  # bytes a second, produced; 0 where unknown
    bytes_out: Floats  # bytes a second, to consumers; 0 where unknown
    knows_in: bool  # of some partition
    knows_out: bool
    lasting_bytes: Ints  # the part of size_bytes that retention will leave
    growth_bytes_per_day: Floats  # of one replica, by the ledger's samples; 0 if they are too few
    knows_growth: bool  # of some partition
    history: HistoryUsed | None = None  # what comes from the ledger's samples and a metrics server; None: nothing

    def of(self, rows: Ints) -> Rates:
        """Those of some partitions."""
        return replace(
            self,
            bytes_in=self.bytes_in[rows],
            bytes_out=self.bytes_out[rows],
            lasting_bytes=self.lasting_bytes[rows],
            growth_bytes_per_day=self.growth_bytes_per_day[rows],
        )


@dataclass(frozen=True, slots=True, eq=False)
class EarlierPlans:
    """What earlier plans leave to this one."""

    left: Ints  # [partition row, n] brokers to which it may not go back, -1 past the end; n is 0 if there are none
    # {candidate: [partition row, position] the list that the last proposal gave the partition, -1: none}
    proposed: Mapping[str, Ints]

    def of(self, rows: Ints) -> EarlierPlans:
        """That of some partitions."""
        return EarlierPlans(self.left[rows], {name: lists[rows] for name, lists in self.proposed.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Pools:
    """Which pool has each topic and each broker. The last pool is of all that no pool of the settings names.

    The problem of one pool has no others. It names the brokers and replicas of the others, because they are there.
    """

    names: tuple[str, ...]
    of_topic: Ints  # [topic]
    of_broker: Ints  # [broker]
    foreign: Bools  # [broker] in the problem of one pool: the brokers of the others
    foreign_replicas: Ints  # [broker] in the problem of one pool: the replicas of the others' topics

    @property
    def are_several(self) -> bool:
        """Whether `broker_pools` names any. If not, and in the problem of one pool, one pool has everything."""
        return len(self.names) > 1


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
    rates: Rates
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
    # [partition row, n] of job `replace_log_dir`: brokers whose log dir with this replica is offline, -1 past the end
    failed: Ints
    networks: Floats  # [broker, (in, out)] bytes a second; NaN where unknown
    only_receivers: (
        Bools  # [broker] `brokers_in`, and of job `replace_log_dir` those whose log dirs are online; else all
    )
    shut: Mapping[int, Shut]  # {broker index: why Kafka gives it no new replica}
    pools: Pools  # `broker_pools`
    earlier: EarlierPlans
    waits: tuple[Waiting, ...]  # partitions that are left out until a broker comes back
    kafkas_own: frozenset[str]  # topics that hold the state of Kafka itself, or the cluster's lock
    # Every topic has an id, which a controller of 2.8 or later has given it (KIP-516, KafkaController.processTopicIds).
    has_topic_ids: bool

    @property
    def relocatable(self) -> Bools:
        """[partition row] Partitions whose replicas may go to other brokers."""
        return self.movable & ~self.pinned

    def name_of(self, row: int | np.int64) -> TopicPartition:
        return TopicPartition(self.topics[self.topic[row]], int(self.partition[row]))

    @property
    def staying(self) -> Bools:
        """[broker] Brokers of the cluster that remains; in the problem of one pool, of the pool that remains."""
        return self.registered & ~self.leaving & ~self.pools.foreign

    @property
    def evened(self) -> Bools:
        """[broker] Brokers whose loads a plan makes even: they may give replicas, and lead what they hold."""
        return self.staying & ~self.closed

    @property
    def receivers(self) -> Bools:
        """[broker] Brokers that may receive replicas; the others of `evened` only give."""
        receivers = self.evened & self.only_receivers
        receivers[list(self.shut)] = False
        return receivers

    @property
    def cordoned(self) -> Bools:
        """[broker] Brokers that no new list may name, because Kafka refuses it."""
        return np.isin(np.arange(len(self.brokers)), [one for one, why in self.shut.items() if why is Shut.CORDONED])

    @property
    def some_only_give(self) -> bool:
        """Whether some brokers that stay may give replicas and receive none."""
        return bool(self.settings.brokers_in) or bool(self.shut) or bool(self.failed.size)


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


# Loads: the weight of each replica and leader, the sums on brokers, and each broker's share by capacity.


METRICS = tuple(Metric)
REPLICAS, DISK, BYTES_IN, LEADERS, _ = range(len(METRICS))
REPLICA_METRICS = METRICS[:LEADERS]  # loads of replicas: a move copies bytes
LEADER_METRICS = METRICS[LEADERS:]  # loads of leaders: a new order of a list, or an election, copies nothing


def replica_weights(problem: Problem) -> Floats:
    """[partition row, REPLICA_METRICS] The weight of one replica: 1, bytes, bytes a second (0 where unknown)."""
    rates = problem.rates
    return np.stack([np.ones(len(rates.bytes_in)), rates.lasting_bytes.astype(np.float64), rates.bytes_in], axis=1)


def leader_weights(problem: Problem, replicas: Ints) -> Floats:
    """[partition row, LEADER_METRICS] The weight of leading: 1, and bytes a second to followers and consumers."""
    out = problem.rates.bytes_out + (replication(replicas) - 1) * problem.rates.bytes_in
    return np.stack([np.ones(len(out)), out], axis=1)


def replica_loads(replicas: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, resource] The summed weights of the replicas on each broker."""
    rows = np.nonzero(replicas >= 0)[0]
    held = replicas[replicas >= 0]
    return np.stack([np.bincount(held, weights[rows, k], brokers) for k in range(weights.shape[1])], axis=1)


def leader_loads(leaders: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, resource] The summed weights of the partitions that each broker leads. `leaders` is [partition row]."""
    return np.stack([np.bincount(leaders, weights[:, k], brokers) for k in range(weights.shape[1])], axis=1)


def bytes_out(problem: Problem, replicas: Ints, leaders: Ints) -> Floats | None:
    """[broker] Bytes a second that leave it; None if bytes in are unknown. `leaders` is [partition row].

    If it is unknown what consumers read, they count as one reader of all that is written, as for the throttle `auto`
    (`throttle.rates.traffic`). The planner's own metric leaves them out then.
    """
    sent = sent_bytes(problem, replicas)
    return None if sent is None else leader_loads(leaders, sent[:, None], len(problem.brokers))[:, 0]


def sent_bytes(problem: Problem, replicas: Ints) -> Floats | None:
    """[partition row] Bytes a second that its leader sends, as `bytes_out` counts them; None likewise."""
    rates = problem.rates
    if not rates.knows_in:
        return None
    read = rates.bytes_out if rates.knows_out else rates.bytes_in
    sent: Floats = (replication(replicas) - 1) * rates.bytes_in + read
    return sent


def loads_now(problem: Problem) -> Floats:
    """[broker, METRICS] Every load now, with today's leaders, in its own unit."""
    return all_loads(problem, problem.replicas, problem.leader)


def all_loads(problem: Problem, replicas: Ints, leaders: Ints) -> Floats:
    """[broker, METRICS] Every load, in its own unit. `leaders` is [partition row], broker indices."""
    brokers = len(problem.brokers)
    held = replica_loads(replicas, replica_weights(problem), brokers)
    return np.hstack([held, leader_loads(leaders, leader_weights(problem, replicas), brokers)])


def totals(problem: Problem, loads: Floats) -> Floats:
    """[broker, metric] The loads of all brokers of its pool together."""
    of_broker = problem.pools.of_broker
    return np.stack([np.bincount(of_broker, column)[of_broker] for column in loads.T], axis=1).astype(np.float64)


def known_metrics(problem: Problem) -> tuple[str, ...]:
    """The metrics for which this snapshot has figures."""
    comes_in = problem.rates.knows_in
    is_known = (True, True, comes_in, True, comes_in or problem.rates.knows_out)
    return tuple(metric.value for metric, known in zip(METRICS, is_known, strict=True) if known)


def known_of_all(problem: Problem, capacity: Floats) -> Floats | None:
    """[broker] The capacity, or None unless it is known for every broker that stays: shares need all of them."""
    return None if np.isnan(capacity[problem.staying]).any() else capacity


def preferred_to_lead(problem: Problem) -> Bools:
    """[broker] The evened brokers of `leader_racks`; all evened ones if it names none, or none of theirs."""
    inside = problem.evened & np.array([rack in problem.settings.leader_racks for rack in problem.racks], dtype=bool)
    return inside if inside.any() else problem.evened


def should_lead(problem: Problem, replicas: Ints) -> Bools:
    """[row, position] Which replicas should lead: those on brokers of `leader_racks`, and in a list without one all."""
    held = np.maximum(replicas, 0)
    able: Bools = (replicas >= 0) & problem.evened[held]
    if not problem.settings.leader_racks:
        return able
    inside = able & preferred_to_lead(problem)[held]
    return np.where(np.any(inside, axis=1)[:, None], inside, able)


def _by_leader_racks(problem: Problem, share: Floats) -> Floats:
    """[broker, LEADER_METRICS] The shares, where brokers outside `leader_racks` share only the lists without a replica
    inside. Columns have the sum that they had.
    """
    inside = preferred_to_lead(problem)
    if (inside == problem.evened).all():
        return share
    weights = leader_weights(problem, problem.replicas)
    has_one = np.any((problem.replicas >= 0) & inside[np.maximum(problem.replicas, 0)], axis=1)
    whole = np.maximum(weights.sum(axis=0), 1e-300)
    part = weights[has_one].sum(axis=0) / whole
    outside = problem.evened & ~inside
    result = share.copy()
    total = share[problem.evened].sum(axis=0)
    for brokers, led in ((inside, part), (outside, 1 - part)):
        result[brokers] = share[brokers] / np.maximum(share[brokers].sum(axis=0), 1e-300) * led * total
    return result


def shares(problem: Problem) -> Floats:
    """[broker, METRICS] The share of the whole that each staying broker should carry; columns sum to 1.

    With pools it is the share of what the broker's pool carries (`totals`), and columns sum to 1 in each pool.

    Shares go by capacity if it is known for every broker that stays; else they are equal. Replicas go by the disk and
    leaders by the network: equal counts on unequal brokers would contradict the other resources. If the network is
    unknown, leaders are equal even on unequal disks, because a broker with a larger disk need not send faster. With
    `leader_racks`, brokers of other racks share only what nobody can lead there.
    """
    of_broker, staying = problem.pools.of_broker, problem.staying
    share = np.zeros((len(of_broker), len(METRICS)))
    for number in np.unique(of_broker[staying]):
        stays = staying & (of_broker == number)
        disk, received, sent = (
            np.where(stays, stays.astype(np.float64) if np.isnan(capacity[stays]).any() else capacity, 0.0)
            for capacity in (problem.disk_capacity, *problem.networks.T)
        )
        share += np.stack([column / column.sum() for column in (disk, disk, received, sent, sent)], axis=1)
    if problem.settings.leader_racks:
        share[:, LEADERS:] = _by_leader_racks(problem, share[:, LEADERS:])
    return share


# The lists of moves as arrays, before and after: figures of all moves at once.


@dataclass(frozen=True, slots=True, eq=False)
class MovedLists:
    """Both lists of each move, equally wide. Brokers are indices, -1 past the end."""

    before: Ints  # [move, position]
    after: Ints  # [move, position]
    source: Ints  # [move] the sender, as `Move.source`
    size_bytes: Ints  # [move]

    @property
    def new(self) -> Bools:
        """[move, position] Which replicas of the lists after are copied."""
        return added(self.after, self.before)

    @property
    def gone(self) -> Bools:
        """[move, position] Which replicas of the lists before are removed."""
        return added(self.before, self.after)

    @property
    def copied_bytes(self) -> Ints:
        """[move] As `Move.bytes_to_copy`."""
        copied: Ints = self.new.sum(axis=1) * self.size_bytes
        return copied

    @property
    def changes_leader(self) -> Bools:
        """[move] As `Move.changes_leader`."""
        changes: Bools = self.after[:, 0] != self.source
        return changes

    @property
    def is_election(self) -> Bools:
        """[move] As `Move.is_election`."""
        elects: Bools = (self.before == self.after).all(axis=1)
        return elects


def moved_lists(problem: Problem, moves: Sequence[Move]) -> MovedLists:
    before, after = (_indices(problem, lists) for lists in ([m.before for m in moves], [m.after for m in moves]))
    width = max(before.shape[1], after.shape[1])
    before, after = widened(before, width), widened(after, width)
    leader = _indices(problem, [(move.leader,) if move.leader >= 0 else () for move in moves])[:, :1]
    leads = (leader >= 0) & (before == leader)
    source = np.where(leads.any(axis=1), leader[:, 0], before[:, 0])
    return MovedLists(before, after, source, np.array([move.size_bytes for move in moves], dtype=np.int64))


def rows_of(problem: Problem, moves: Sequence[Move]) -> Ints:
    """[move] Its partition row."""
    number = {name: position for position, name in enumerate(problem.topics)}
    width = 1 + int(problem.partition.max(initial=0))
    keys = problem.topic * width + problem.partition  # ascending, as the problem's rows are
    partitions = (move.topic_partition for move in moves)
    wanted = np.fromiter((number[topic] * width + partition for topic, partition in partitions), np.int64, len(moves))
    return np.searchsorted(keys, wanted)


def _indices(problem: Problem, lists: Sequence[Sequence[int]]) -> Ints:
    """[list, position] The indices of these broker ids, -1 past the end. Every id is one of the problem's."""
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    ids = np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum()))
    indices = np.full((len(lists), max(1, int(counts.max(initial=0)))), -1, dtype=np.int64)
    indices[np.arange(indices.shape[1]) < counts[:, None]] = np.searchsorted(problem.brokers, ids)
    return indices
