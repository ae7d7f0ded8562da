"""Fills batches with partitions, largest first, so that the busiest broker of each has as little load as possible.

A partition goes to a batch in which all of its brokers have room without making the batch longer. If there is none, it
makes a batch longer or opens a new one, whichever is cheaper. A new batch may cost more, because it also brings new
places for copies.
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

_OPENING = 8  # a new batch may cost this many times the bytes by which an open one would grow
_EARLY = 1 / 8  # share of early partitions in a batch; with more it would be long and idle
_GROWTH = 1.005  # length of a batch over that of the partition that opened it, so that tiny ones use free places
_NEVER = 1e300  # bytes by which a batch would have to grow that may not take a piece; finite, so that 0 of it is 0


@dataclass(frozen=True, slots=True)
class FillOrder:
    """A way to fill batches. The best way depends on what is scarce: bytes, copies, or time for early moves."""

    # All early partitions go into batches before the others. If not, the largest come first, early or not, and early
    # ones join batches with early ones if there is room. They come later then, but no batch gets longer.
    early_first: bool
    # Early partitions may make a batch longer rather than open another. They come sooner, and the batch is longer.
    piles_early: bool
    # How large a partition is: bytes x copies ^ copies_count x (load of its busiest broker) ^ busy_count. A partition
    # with many copies fills more brokers and leaves them fewer copies. No batch may leave the busiest brokers idle.
    copies_count: float
    busy_count: float


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    number: int
    ends: tuple[int, ...]  # the receivers, then the sender
    load: tuple[float, ...]  # bytes of each of these ends
    places: tuple[int, ...]  # copies that count for each of these ends
    changes_leader: bool
    rank: int

    @property
    def is_early(self) -> bool:
        return self.rank < ORDINARY


def pieces(settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints) -> list[Piece]:
    """The pieces of these moves, which all copy something."""
    tables = (*transfers.ends(settings.copies_per_broker), transfers.copies + 1, transfers.changes_leader, ranks)
    columns = (table[moves].tolist() for table in tables)
    return [
        Piece(move, tuple(ends[:count]), tuple(loads[:count]), tuple(places[:count]), leads, rank)
        for move, ends, loads, places, count, leads, rank in zip(moves.tolist(), *columns, strict=True)
    ]


def filled_batches(
    settings: Settings, transfers: Transfers, found: Sequence[Piece], ranks: Ints, work: Work, way: FillOrder, aim: int
) -> Ints:
    """[move] The batch, from 0, of each of these pieces, which go in one after the other; 0 for all other moves.

    It opens more than `aim` batches only for a partition that no open batch can take.
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
    """Batches while they are filled: the bytes and copies that each broker has left, in and out."""

    def __init__(
        self, settings: Settings, tightness: Floats, work: Work, way: FillOrder, aim: int, early_per_batch: int
    ) -> None:
        """`tightness` is [end], the weight of its room."""
        self.settings, self.work, self.way, self.early_per_batch = settings, work, way, early_per_batch
        self.tightness = tightness
        self.aim = aim
        self.opened = 0
        self.room = np.zeros((len(tightness), 64))  # [end, batch] bytes; -_NEVER where no copy may follow
        self.places = np.zeros((len(tightness), 64), dtype=np.int64)  # [end, batch] copies
        self.spare = np.zeros((len(tightness), 64))  # [end, batch] weighted bytes for each copy that the end has left
        self.partitions = np.zeros(64, dtype=np.int64)  # [batch]
        self.leader_changes = np.zeros(64, dtype=np.int64)
        self.early = np.zeros(64, dtype=np.int64)
        self.rank = np.full(64, LAST)  # of the earliest partition there
        # [batch, whether a piece changes its leader, whether it is early] 0, or _NEVER: the batch has enough of these
        self.closed = np.zeros((2, 2, 64))
        self._first = 0  # the first batch that is not full of partitions

    def put(self, piece: Piece) -> int:
        """Puts the piece into a batch, or into a new one. Returns the batch."""
        batch, growth = self._best(piece)
        longest = max(piece.load)
        price = 1 if piece.is_early and self.way.piles_early else _OPENING
        if batch is None or (growth * price > longest and self.opened < self.aim):
            batch, growth = self._open(), _GROWTH * longest
        if growth > 0:
            self.room[:, batch] += growth
            self.spare[:, batch] = self.tightness * self.room[:, batch] / np.maximum(self.places[:, batch], 1)
        for end, load, places in zip(piece.ends, piece.load, piece.places, strict=True):
            self.places[end, batch] -= places
            left = int(self.places[end, batch])
            self.room[end, batch] = self.room[end, batch] - load if left else -_NEVER
            self.spare[end, batch] = self.tightness[end] * self.room[end, batch] / max(left, 1)
        self.partitions[batch] += 1
        self.leader_changes[batch] += piece.changes_leader
        self.early[batch] += piece.is_early
        self.rank[batch] = min(self.rank[batch], piece.rank)
        self._close(batch)
        self.work.add(piece.number, batch)
        while self._first < self.opened and self.partitions[self._first] >= self.settings.partitions_per_batch:
            self._first += 1
        return batch

    def _close(self, batch: int) -> None:
        """Keeps pieces out of which the batch has enough."""
        if self.partitions[batch] >= self.settings.partitions_per_batch:
            self.closed[:, :, batch] = _NEVER
        if self.leader_changes[batch] >= self.settings.leader_changes_per_batch:
            self.closed[1, :, batch] = _NEVER
        if self.way.early_first and self.early[batch] >= self.early_per_batch:
            self.closed[:, 1, batch] = _NEVER

    def _open(self) -> int:
        """Opens a batch of length 0. Returns its number."""
        if self.opened == len(self.partitions):
            for name in ("room", "places", "spare", "partitions", "leader_changes", "early", "rank", "closed"):
                values = getattr(self, name)
                setattr(self, name, np.concatenate([values, np.full_like(values, LAST * (name == "rank"))], axis=-1))
        if self.opened:
            self.work.append()
        self.places[:, self.opened] = self.settings.copies_per_broker
        self.opened += 1
        return self.opened - 1

    def _best(self, piece: Piece) -> tuple[int | None, float]:
        """(the best open batch, or None if the piece fits none; the bytes by which the batch grows)"""
        if not self.opened:
            return None, 0.0
        some = slice(self._first, self.opened)
        growth = self.closed[int(piece.changes_leader), int(piece.is_early), some]
        # Row by row takes half the time of all rows at once.
        for end, load, places in zip(piece.ends, piece.load, piece.places, strict=True):
            growth = np.maximum(growth, load - self.room[end, some])
            if places > 1:
                growth[self.places[end, some] < places] = _NEVER
        if self.work.matters:
            growth[self.work.full(piece.number)[some]] = _NEVER
        least = float(growth.min(initial=_NEVER))
        if least == _NEVER:
            return None, 0.0
        if least > 0:
            emptiest = np.where(growth == least, self.partitions[some], self.settings.partitions_per_batch).argmin()
            return self._first + int(emptiest), least
        # Most bytes for each copy that its brokers have left, so that both run out evenly.
        wanted = np.zeros(len(growth))
        for end in piece.ends:
            wanted += self.spare[end, some]
        wanted[~self._free(piece, some, growth)] = -np.inf
        return self._first + int(wanted.argmax()), 0.0

    def _free(self, piece: Piece, some: slice, growth: Floats) -> Bools:
        """[batch] The choice among batches that need not grow; at least one."""
        free: Bools = growth == 0
        if not self.way.early_first:
            for rank in range(piece.rank, ORDINARY):
                together = free & (self.rank[some] <= rank)
                if together.any():
                    return together
        return free
