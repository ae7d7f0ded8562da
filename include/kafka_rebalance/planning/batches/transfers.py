"""Moves as arrays: who receives, who sends, and how much in which batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, moved_lists
from kafka_rebalance.planning.rules.disk_limits import disk_limits_meanwhile, sized_disks

ROUNDING = 1e-6  # of a disk
_LONGEST = 6  # batches to look at in a bound: shorter ones bring brokers as much as they last


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Moves as arrays of broker indices. An *end* is a broker that receives, or its index + `brokers` if it sends."""

    brokers: int
    size: Floats  # [move] bytes of one replica
    copies: Ints  # [move] new replicas
    source: Ints  # [move] the sender: the leader before
    changes_leader: Bools  # [move]
    added: tuple[Ints, Ints]  # (move, broker) of each new replica, in the order of the moves
    removed: tuple[Ints, Ints]  # (move, broker) of each old replica
    starts: Ints  # [move + 1] where the part of each move in `added` begins

    @classmethod
    def of(cls, problem: Problem, moves: Sequence[Move]) -> Self:
        lists = moved_lists(problem, moves)
        move, position = np.nonzero(lists.new)
        gone, place = np.nonzero(lists.gone)
        copies = np.bincount(move, minlength=len(moves))
        return cls(
            len(problem.brokers),
            lists.size_bytes.astype(np.float64),
            copies,
            lists.source,
            lists.changes_leader,
            (move, lists.after[move, position]),
            (gone, lists.before[gone, place]),
            np.concatenate([[0], np.cumsum(copies)]),
        )

    def ends(self, most: int) -> tuple[Ints, Floats, Ints]:
        """[move, position] (the ends of each move, bytes of each end, copies that count for each end).

        At most `most` copies count: a partition that needs more joins a batch in which its brokers have none. The
        sender comes last. Past it the end is 2 x `brokers`, of which nothing counts.
        """
        (move, broker), moves = self.added, np.arange(len(self.copies))
        shape = len(moves), int(self.copies.max(initial=0)) + 1
        ends, counted = np.full(shape, 2 * self.brokers), np.zeros(shape, dtype=np.int64)
        ends[move, np.arange(len(move)) - self.starts[move]] = broker
        counted[move, np.arange(len(move)) - self.starts[move]] = 1
        ends[moves, self.copies], counted[moves, self.copies] = self.brokers + self.source, self.copies
        return ends, counted * self.size[:, None], np.minimum(counted, most)

    def receivers(self, move: int) -> Ints:
        return self.added[1][self.starts[move] : self.starts[move + 1]]

    def totals(self) -> tuple[Floats, Floats]:
        """([broker] bytes received, [broker] bytes sent) by all moves."""
        move, broker = self.added
        received = summed(broker, self.size[move], self.brokers)
        return received, summed(self.source, self.size * self.copies, self.brokers)

    def copy_counts(self) -> Ints:
        """[end] The copies of all moves that it sends or receives."""
        received = np.bincount(self.added[1], minlength=self.brokers)
        sent = np.bincount(self.source, self.copies, self.brokers).astype(np.int64)
        return np.concatenate([received, sent])

    def copies_at_once(self, batch: Ints) -> int:
        """The most copies that one broker sends or receives in one batch; `batch` is [move], from 0."""
        move, broker = self.added
        received = self._table(batch, move, broker, np.ones(len(move)))
        sent = self._table(batch, np.arange(len(batch)), self.source, self.copies.astype(np.float64))
        return int(max(received.max(initial=0), sent.max(initial=0)))

    def least_busiest_bytes(self, copies: int, partitions: int) -> float:
        """What no batches stay below, in bytes of their busiest brokers, with so many copies and partitions in a batch.

        The longest n batches last at least as long as the largest partition, the next after `partitions` others, and so
        on. They bring a broker at most its n x `copies` largest replicas; the rest takes it its time. For every n.
        """
        move, broker = self.added
        end, size = np.concatenate([broker, self.brokers + self.source[move]]), np.tile(self.size[move], 2)
        order = np.lexsort((-size, end))
        end, size = end[order], size[order]
        earliest = (np.arange(len(end)) - np.searchsorted(end, end)) // copies  # so many batches its larger ones need
        longest = np.sort(self.size * self.copies)[::-1]
        least = lasts = 0.0
        for batches, largest in enumerate([*longest[::partitions][:_LONGEST].tolist(), 0.0]):
            rest = summed(end, size * (earliest >= batches), 2 * self.brokers)
            least = max(least, lasts + float(rest.max(initial=0.0)))
            lasts += largest
        return least

    def traffic(self, batch: Ints) -> tuple[Floats, Floats]:
        """[batch, broker] (bytes received, bytes sent); `batch` is [move], from 0."""
        move, broker = self.added
        received = self._table(batch, move, broker, self.size[move])
        every = np.arange(len(batch))
        return received, self._table(batch, every, self.source, self.size * self.copies)

    def freed(self, batch: Ints) -> Floats:
        """[batch, broker] Bytes that Kafka deletes when the batch is done."""
        move, broker = self.removed
        return self._table(batch, move, broker, self.size[move])

    def _table(self, batch: Ints, move: Ints, broker: Ints, amount: Floats) -> Floats:
        batches = int(batch.max(initial=-1)) + 1
        cells = summed(batch[move] * self.brokers + broker, amount, batches * self.brokers)
        return cells.reshape(batches, self.brokers)


def summed(places: Ints, amounts: Floats, length: int) -> Floats:
    """[place] The sum of its amounts."""
    return np.bincount(places, amounts, length).astype(np.float64)  # without any amount numpy returns integers


# The bytes on each disk while the batches run.


@dataclass(frozen=True, slots=True, eq=False)
class DiskUse:
    """Bytes on the disks over time: all brokers before the first batch (batch 0), then those that a batch changes."""

    batch: Ints
    broker: Ints  # ids
    peak_bytes: Ints  # while both copies exist
    after_bytes: Ints  # once the old ones are deleted


def disk_use(transfers: Transfers, batch: Ints, used: Floats, brokers: Ints) -> DiskUse:
    """`used` is [broker] bytes before; `brokers` are ids."""
    arriving, freed = transfers.traffic(batch)[0], transfers.freed(batch)
    after = used + np.cumsum(arriving - freed, axis=0)
    peak = after + freed
    number, broker = np.nonzero((arriving > 0) | (freed > 0))
    return DiskUse(
        np.concatenate([np.zeros(len(used), dtype=np.int64), number + 1]),
        np.concatenate([brokers, brokers[broker]]),
        np.concatenate([used, peak[number, broker]]).astype(np.int64),
        np.concatenate([used, after[number, broker]]).astype(np.int64),
    )


def overfilled(problem: Problem, disks: DiskUse, used: Floats) -> Ints:
    """Brokers whose disks copies fill beyond their headroom, and beyond what these disks held before.

    The one furthest beyond its headroom comes first.
    """
    peak, sized = _peaks(problem, disks, used), sized_disks(problem)
    limit = np.where(sized, np.maximum(disk_limits_meanwhile(problem), used), np.inf)
    beyond = np.where(sized, peak - limit, 0.0) / np.where(sized, problem.disk_capacity, 1.0)
    order = np.argsort(-beyond, kind="stable")
    return order[beyond[order] > ROUNDING]


def _peaks(problem: Problem, disks: DiskUse, used: Floats) -> Floats:
    """[broker] The most bytes on its disks."""
    peak = used.copy()
    np.maximum.at(peak, np.searchsorted(problem.brokers, disks.broker), disks.peak_bytes.astype(np.float64))
    return peak


def peak_fraction(problem: Problem, disks: DiskUse, used: Floats) -> float | None:
    """The highest used share of a disk of known size, of brokers that stay; None: no size is known."""
    known = sized_disks(problem)
    if not known.any():
        return None
    peak = _peaks(problem, disks, used)
    return round(float((peak[known] / problem.disk_capacity[known]).max()), 6)
