"""Batches filled with partitions, largest first, so that the busiest broker of each is as little busier as can be.

A partition goes where every broker that copies it has bytes left in what the batch lasts anyway. Where there is no such
batch, it makes one last longer, or opens another, whichever is cheaper: a new one also brings new places for copies, so
it may cost more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches.batch_order import LAST, ORDINARY
from kafka_rebalance.planning.batches.controller_bytes import Work
from kafka_rebalance.planning.batches.transfers import Transfers
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints

_OPENING = 8  # times the bytes by which a batch grows is what opening another may cost instead
_EARLY = 1 / 8  # of the partitions in a batch that may be there for their rank: more would leave it long and idle
_GROWTH = 1.005  # what a batch may outlast the partition that opened it by, so that tiny ones use up free places


@dataclass(frozen=True, slots=True)
class FillOrder:
    """A way to fill batches. Which is best depends on what is short: bytes, copies, or time for what is early."""

    # All of what is early is put into batches before the rest. Otherwise the largest are, early or not, and what is
    # early goes where something early is already, if there is room. It comes later, and no batch is longer for it.
    early_first: bool
    # What is early may fill a batch on top of each other, rather than open another: it comes sooner, and the batch is
    # longer for it.
    piles_early: bool
    # Largest first, but what is large? A partition with many copies fills more brokers at once, and leaves them fewer
    # copies for what fits better; and it is the busiest brokers for which no batch may be idle. To which power the
    # count of copies makes a partition large, and how busy the busiest of its brokers is.
    copies_count: float
    busy_count: float


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One move as it is put into a batch."""

    number: int
    ends: tuple[int, ...]  # who receives, and who sends
    load: tuple[float, ...]  # bytes that each of these ends receives or sends
    places: tuple[int, ...]  # copies that each of them is counted for
    changes_leader: bool
    rank: int

    @property
    def is_early(self) -> bool:
        """Whether it ranks before the ordinary ones."""
        return self.rank < ORDINARY


def pieces(settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints) -> list[Piece]:
    """These moves, of which each copies something."""
    found = []
    for move in moves.tolist():
        ends, load, places = transfers.ends(move, settings.copies_per_broker)
        found.append(
            Piece(
                move,
                tuple(ends.tolist()),
                tuple(load.tolist()),
                tuple(places.tolist()),
                bool(transfers.changes_leader[move]),
                int(ranks[move]),
            )
        )
    return found


def filled_batches(
    settings: Settings, transfers: Transfers, found: Sequence[Piece], ranks: Ints, work: Work, way: FillOrder, aim: int
) -> Ints:
    """[move] The batch, from 0, of each of these pieces, put in one after the other; 0 for all other moves.

    `aim` batches are opened at most, and more only where none of so many can take a partition.
    """
    moves = np.array([piece.number for piece in found], dtype=np.int64)
    total = np.concatenate(transfers.totals())
    tightness = total / max(float(total.max()), 1.0)
    tightest = tightness[transfers.brokers + transfers.source]
    np.maximum.at(tightest, transfers.added[0], tightness[transfers.added[1]])
    weight = transfers.size[moves] * transfers.copies[moves] ** way.copies_count * tightest[moves] ** way.busy_count
    early_share = max(_EARLY, float((ranks[moves] < ORDINARY).mean()))
    filling = _Filling(settings, tightness, work, way, aim, math.ceil(early_share * len(moves) / aim))
    batch = np.zeros(len(ranks), dtype=np.int64)
    keys = (-weight, ranks[moves]) if way.early_first else (ranks[moves], -weight)
    for place in np.lexsort(keys).tolist():
        batch[moves[place]] = filling.put(found[place])
    return batch


class _Filling:
    """Batches while they are being filled: what is left of each broker's bytes and copies, in and out."""

    def __init__(
        self, settings: Settings, tightness: Floats, work: Work, way: FillOrder, aim: int, early_per_batch: int
    ) -> None:
        """`tightness` is [end], how much the room of each counts."""
        self.settings, self.work, self.way, self.early_per_batch = settings, work, way, early_per_batch
        self.tightness = tightness.tolist()
        self.aim = aim
        self.opened = 0
        self.room = np.zeros((len(tightness), 64))  # [end, batch] bytes
        self.places = np.zeros((len(tightness), 64))  # [end, batch] copies
        self.partitions = np.zeros(64, dtype=np.int64)  # [batch]
        self.leader_changes = np.zeros(64, dtype=np.int64)
        self.early = np.zeros(64, dtype=np.int64)
        self.rank = np.full(64, LAST)  # of the earliest partition there
        self._first = 0  # the first batch that is not full of partitions

    def put(self, piece: Piece) -> int:
        """Puts it into a batch, a new one if need be; returns the batch."""
        batch, growth = self._best(piece)
        longest = max(piece.load)
        price = 1 if piece.is_early and self.way.piles_early else _OPENING
        if batch is None or (growth * price > longest and self.opened < self.aim):
            batch, growth = self._open(), _GROWTH * longest
        if growth > 0:
            self.room[:, batch] += growth
        for end, load, places in zip(piece.ends, piece.load, piece.places, strict=True):
            self.room[end, batch] -= load
            self.places[end, batch] -= places
        self.partitions[batch] += 1
        self.leader_changes[batch] += piece.changes_leader
        self.early[batch] += piece.is_early
        self.rank[batch] = min(self.rank[batch], piece.rank)
        self.work.add(piece.number, batch)
        while self._first < self.opened and self.partitions[self._first] >= self.settings.partitions_per_batch:
            self._first += 1
        return batch

    def _open(self) -> int:
        """One more batch, which lasts no time yet; returns its number."""
        if self.opened == len(self.partitions):
            for name in ("room", "places", "partitions", "leader_changes", "early", "rank"):
                values = getattr(self, name)
                setattr(self, name, np.concatenate([values, np.full_like(values, LAST * (name == "rank"))], axis=-1))
        if self.opened:
            self.work.append()
        self.places[:, self.opened] = self.settings.copies_per_broker
        self.opened += 1
        return self.opened - 1

    def _best(self, piece: Piece) -> tuple[int | None, float]:
        """(the open batch to take, or None: it fits none; by how many bytes the batch grows)"""
        some = slice(self._first, self.opened)
        fits: Bools = self.partitions[some] < self.settings.partitions_per_batch
        growth = np.zeros(len(fits))
        # Row by row: that takes half the time of all at once.
        for end, load, places in zip(piece.ends, piece.load, piece.places, strict=True):
            fits &= self.places[end, some] >= places
            np.maximum(growth, load - self.room[end, some], out=growth)
        if piece.changes_leader:
            fits &= self.leader_changes[some] < self.settings.leader_changes_per_batch
        if piece.is_early and self.way.early_first:
            fits &= self.early[some] < self.early_per_batch
        if self.work.matters:
            fits &= ~self.work.full(piece.number)[some]
        growth[~fits] = np.inf
        least = float(growth.min(initial=np.inf))
        if least == np.inf:
            return None, 0.0
        if least > 0:
            emptiest = np.where(growth == least, self.partitions[some], self.settings.partitions_per_batch).argmin()
            return self._first + int(emptiest), least
        # Most bytes for each copy that its brokers may still make: both are used up evenly.
        wanted = np.zeros(len(fits))
        for end in piece.ends:
            wanted += self.tightness[end] * self.room[end, some] / np.maximum(self.places[end, some], 1)
        wanted[~self._free(piece, some, growth)] = -np.inf
        return self._first + int(wanted.argmax()), 0.0

    def _free(self, piece: Piece, some: slice, growth: Floats) -> Bools:
        """[batch] Which of those that need not grow are to be chosen from: at least one."""
        free: Bools = growth == 0
        if not self.way.early_first:
            for rank in range(piece.rank, ORDINARY):
                together = free & (self.rank[some] <= rank)
                if together.any():
                    return together
        return free
