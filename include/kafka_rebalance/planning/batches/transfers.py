"""Moves as arrays: who receives, who sends, and how much of it in which batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Moves as arrays. Brokers are indices, and an *end* is a broker that receives, or, counted on, one that sends."""

    brokers: int
    size: Floats  # [move] bytes of one replica
    copies: Ints  # [move] replicas that are new
    source: Ints  # [move] who sends them: the leader of before
    changes_leader: Bools  # [move]
    added: tuple[Ints, Ints]  # (move, broker) of each new replica, in the order of the moves
    removed: tuple[Ints, Ints]  # (move, broker) of each replica that goes
    starts: Ints  # [move + 1] where each move's part of `added` begins

    @classmethod
    def of(cls, problem: Problem, moves: Sequence[Move]) -> Self:
        index = {broker: number for number, broker in enumerate(problem.brokers.tolist())}
        added = [[index[broker] for broker in move.added] for move in moves]
        removed = [[index[broker] for broker in move.removed] for move in moves]
        copies = _lengths(added)
        return cls(
            len(index),
            np.array([move.size_bytes for move in moves], dtype=np.float64),
            copies,
            np.array([index[move.source] for move in moves], dtype=np.int64),
            np.array([move.changes_leader for move in moves], dtype=bool),
            _flat(added, copies),
            _flat(removed, _lengths(removed)),
            np.concatenate([[0], np.cumsum(copies)]),
        )

    def ends(self, move: int, most: int) -> tuple[Ints, Floats, Ints]:
        """(the ends of the move, bytes that each sends or receives, copies that each is counted for)

        The last are `most` at most: a partition that alone needs more copies goes where its brokers have none.
        """
        copies = int(self.copies[move])
        ends, counted = np.empty(copies + 1, dtype=np.int64), np.ones(copies + 1, dtype=np.int64)
        ends[:copies], ends[copies] = self.receivers(move), self.brokers + self.source[move]
        counted[copies] = copies
        return ends, counted * self.size[move], np.minimum(counted, most)

    def receivers(self, move: int) -> Ints:
        """The brokers to which the move brings a replica."""
        return self.added[1][self.starts[move] : self.starts[move + 1]]

    def totals(self) -> tuple[Floats, Floats]:
        """([broker] bytes received, [broker] bytes sent) by all moves."""
        move, broker = self.added
        received = summed(broker, self.size[move], self.brokers)
        return received, summed(self.source, self.size * self.copies, self.brokers)

    def copy_counts(self) -> Ints:
        """[end] Copies that it sends or receives in all."""
        received = np.bincount(self.added[1], minlength=self.brokers)
        sent = np.bincount(self.source, self.copies, self.brokers).astype(np.int64)
        return np.concatenate([received, sent])

    def traffic(self, batch: Ints) -> tuple[Floats, Floats]:
        """([batch, broker] bytes received, and sent); `batch` is [move], from 0."""
        move, broker = self.added
        received = self._table(batch, move, broker, self.size[move])
        every = np.arange(len(batch))
        return received, self._table(batch, every, self.source, self.size * self.copies)

    def freed(self, batch: Ints) -> Floats:
        """[batch, broker] Bytes that are deleted when the batch is done."""
        move, broker = self.removed
        return self._table(batch, move, broker, self.size[move])

    def _table(self, batch: Ints, move: Ints, broker: Ints, amount: Floats) -> Floats:
        batches = int(batch.max(initial=-1)) + 1
        cells = summed(batch[move] * self.brokers + broker, amount, batches * self.brokers)
        return cells.reshape(batches, self.brokers)


def summed(places: Ints, amounts: Floats, length: int) -> Floats:
    """[place] The sum of the amounts there."""
    return np.bincount(places, amounts, length).astype(np.float64)  # of no amount at all, numpy gives integers


def _lengths(lists: Sequence[Sequence[int]]) -> Ints:
    return np.array([len(entries) for entries in lists], dtype=np.int64)


def _flat(lists: Sequence[Sequence[int]], lengths: Ints) -> tuple[Ints, Ints]:
    values = np.array([entry for entries in lists for entry in entries], dtype=np.int64)
    return np.repeat(np.arange(len(lists)), lengths), values
