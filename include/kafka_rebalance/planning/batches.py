"""Moves cut into batches: what one reassignment znode asks for, and the next may only ask when all of it is done.

A batch lasts as long as its busiest broker. So a batch is opened by the largest partition that finds no room in those
already open, lasts as long as this one takes, and is filled by others that fit beside it: each batch becomes a scaled
copy of the whole, in bytes and in copies, and barriers cost little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.model.proposal import Move
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.arrays import Bools, Floats, Ints, Problem
from kafka_rebalance.planning.controller import Rewrites, Work, bytes_by_batch, partitions_per_batch
from kafka_rebalance.planning.timeline import (
    LAST,
    ORDINARY,
    RELIEVING,
    DiskUse,
    Transfers,
    disk_limits_meanwhile,
    disk_use,
    in_safe_order,
    peak_fraction,
)

_MOST, _SPARE = 1.5, 4 / 3  # batches for each that is needed: at most, and where partitions are much of a size
_SHORTER = 4  # a batch may last this part of the mean one, so that tiny partitions fill one as well
# Largest first, but what counts as large: a partition with many copies fills more brokers at once, and leaves them
# fewer copies for what fits better. To which power its copies count is tried, while there are not too many moves.
_TRIALS, _TRIED_MOVES = (1.0, 0.5, 0.25), 20_000
_NEAR = 1.01  # of the bound: no further trial
_EARLY = 1 / 8  # of the partitions in a batch that may be there for their rank: more would leave it long and idle
_GROWTH = 1.005  # what a batch may outlast the partition that opened it by, so that tiny ones use up free places


@dataclass(frozen=True, slots=True)
class Schedule:
    """Moves with their batch, and what executing them takes."""

    moves: tuple[Move, ...]  # by batch, then topic and partition
    batches: int
    busiest_bytes: int  # sum over batches of the busiest broker's bytes in or out
    received: Floats  # [broker] bytes
    sent: Floats
    disks: DiskUse
    peak_disk_fraction: float | None
    controller_bytes: int  # of znodes that the controller rewrites in the batch in which it rewrites most


def schedule(problem: Problem, moves: Sequence[Move], ranks: Ints, used: Floats, sizes: Rewrites) -> Schedule:
    """Cuts the moves into batches. `ranks` is [move]; `used` is [broker] bytes on disk before.

    Limits of the settings: partitions and leader changes a batch, and copies a broker sends or receives at once. Limit
    of the controller: the bytes it rewrites for a batch (`sizes`); a partition that alone needs more has its own batch.
    Limit of the disks: no copy starts that would fill one beyond its headroom while both copies exist, unless nothing
    else is left to do. Moves that copy nothing and free no full disk come last, in batches of their own.
    """
    transfers = Transfers.of(problem, moves)
    copies = transfers.copies > 0
    ranks = np.where(copies | (ranks == RELIEVING), ranks, LAST)  # what copies nothing waits for what does
    batch = np.full(len(moves), -1, dtype=np.int64)
    batch[copies] = _filled(problem.settings, transfers, np.flatnonzero(copies), ranks, sizes)
    for rank in (RELIEVING, LAST):
        still = np.flatnonzero(~copies & (ranks == rank))
        batch[still] = batch.max(initial=-1) + 1 + _in_turn(problem.settings, transfers, still, sizes)
    batch = in_safe_order(transfers, batch, ranks, used, disk_limits_meanwhile(problem))
    batched = [replace(move, batch=int(number) + 1) for move, number in zip(moves, batch, strict=True)]
    batched.sort(key=lambda move: (move.batch, move.topic_partition))
    received, sent = transfers.traffic(batch)
    disks = disk_use(transfers, batch, used, problem.brokers)
    return Schedule(
        tuple(batched),
        int(batch.max(initial=-1)) + 1,
        int(np.maximum(received, sent).max(axis=1, initial=0.0).sum()),
        received.sum(axis=0),
        sent.sum(axis=0),
        disks,
        peak_fraction(problem, disks, used),
        int(bytes_by_batch(sizes, batch).max(initial=0)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """One move as it is put into a batch."""

    number: int
    ends: Ints  # who receives, and who sends
    load: Floats  # bytes that each of these ends receives or sends
    places: Floats  # copies that each of them is counted for
    changes_leader: bool
    is_early: bool  # ranks before the ordinary ones


class _Filling:
    """Batches while they are being filled: what is left of each broker's bytes and copies, in and out."""

    def __init__(self, settings: Settings, ends: int, work: Work, early_per_batch: int) -> None:
        self.settings, self.work, self.early_per_batch = settings, work, early_per_batch
        self.opened = 0
        self.room = np.zeros((ends, 64))  # [end, batch] bytes
        self.places = np.zeros((ends, 64))  # [end, batch] copies
        self.partitions = np.zeros(64, dtype=np.int64)  # [batch]
        self.leader_changes = np.zeros(64, dtype=np.int64)
        self.early = np.zeros(64, dtype=np.int64)
        self._first = 0  # the first batch that is not full of partitions

    def open(self, bytes_a_broker: float) -> int:
        """One more batch, in which every broker may send and receive as many bytes; returns its number."""
        if self.opened == len(self.partitions):
            for name in ("room", "places", "partitions", "leader_changes", "early"):
                values = getattr(self, name)
                setattr(self, name, np.concatenate([values, np.zeros_like(values)], axis=-1))
        if self.opened:
            self.work.append()
        self.room[:, self.opened] = bytes_a_broker
        self.places[:, self.opened] = self.settings.copies_per_broker
        self.opened += 1
        return self.opened - 1

    def best(self, piece: _Piece, tightness: Floats) -> int | None:
        """The open batch that has most bytes left for each copy that is left, or None: it fits none.

        `tightness` is [end], how much each counts.
        """
        some = slice(self._first, self.opened)
        room, places = self.room[piece.ends, some], self.places[piece.ends, some]
        fits: Bools = self.partitions[some] < self.settings.partitions_per_batch
        fits &= ((room >= piece.load[:, None]) & (places >= piece.places[:, None])).all(axis=0)
        if piece.changes_leader:
            fits &= self.leader_changes[some] < self.settings.leader_changes_per_batch
        if piece.is_early:
            fits &= self.early[some] < self.early_per_batch
        if self.work.matters:
            fits &= ~self.work.full(piece.number)[some]
        if not fits.any():
            return None
        lack = (tightness[piece.ends, None] * room / np.maximum(places, 1)).sum(axis=0)
        return self._first + int(np.where(fits, lack, -1.0).argmax())

    def add(self, piece: _Piece, batch: int) -> None:
        self.room[piece.ends, batch] -= piece.load
        self.places[piece.ends, batch] -= piece.places
        self.partitions[batch] += 1
        self.leader_changes[batch] += piece.changes_leader
        self.early[batch] += piece.is_early
        self.work.add(piece.number, batch)
        while self._first < self.opened and self.partitions[self._first] >= self.settings.partitions_per_batch:
            self._first += 1


def _filled(settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints, sizes: Rewrites) -> Ints:
    """The batch, from 0, of each of these moves that copy something: of some ways to fill batches, the shortest in all.

    Where most partitions are of a size, few fit beside the one that opens a batch, and the batches are far more than
    needed: then a batch lasts a multiple of the partition that opens it.
    """
    if not len(moves):
        return moves
    fewest = _fewest_batches(settings, transfers, moves, sizes)
    bound = float(np.concatenate(transfers.totals()).max())
    early_per_batch = math.ceil(max(_EARLY, float((ranks[moves] < ORDINARY).mean())) * len(moves) / fewest)

    def filled(shortest: float, copies_count: float, *, multiples: bool = False) -> tuple[Ints, int]:
        work = Work(sizes, 1, settings.partitions_per_batch)
        filling = _Filling(settings, 2 * transfers.brokers, work, early_per_batch)
        order = np.lexsort((-transfers.size[moves] * transfers.copies[moves] ** copies_count, ranks[moves]))
        return _filled_from(filling, transfers, moves[order], ranks, shortest, multiples=multiples), filling.opened

    best, least = None, math.inf
    for copies_count in _TRIALS if len(moves) <= _TRIED_MOVES else _TRIALS[:1]:
        # What needs but one batch lasts no longer than the bound in one.
        batch, opened = filled(bound / (_SHORTER * fewest if fewest > 1 else 1), copies_count)
        lasts = _length(transfers, moves, batch)
        if lasts < least and opened <= int(_MOST * fewest) + 1:
            best, least = batch, lasts
        if least <= _NEAR * bound:
            break
    if best is None:
        best, _ = filled(bound / int(_SPARE * fewest), _TRIALS[0], multiples=True)
    return best[moves]


def _length(transfers: Transfers, moves: Ints, batch: Ints) -> float:
    """Bytes of the busiest broker in or out, summed over the batches; `batch` is [move], as far as `moves` are."""
    only = np.zeros(len(batch), dtype=bool)
    only[moves] = True
    received, sent = transfers.traffic(np.where(only, batch, 0))  # the others copy nothing
    return float(np.maximum(received, sent).max(axis=1).sum())


def _filled_from(
    filling: _Filling, transfers: Transfers, moves: Ints, ranks: Ints, shortest: float, *, multiples: bool
) -> Ints:
    """[move] The batch of each of these moves, put in one after the other.

    A batch may last as long as the move that opens it, or as `shortest`, whichever is more: that is what the busiest
    broker may copy in any batch, in bytes.
    """
    total = np.concatenate(transfers.totals())
    tightness = total / max(float(total.max()), 1.0)
    batch = np.zeros(len(ranks), dtype=np.int64)
    for move in moves.tolist():
        ends, copies = transfers.ends(move)
        # A partition that alone needs more copies than allowed goes where its brokers have none.
        places = np.minimum(copies, filling.settings.copies_per_broker)
        load = copies * transfers.size[move]
        is_early = bool(ranks[move] < ORDINARY)
        piece = _Piece(move, ends, load, places, bool(transfers.changes_leader[move]), is_early)
        found = filling.best(piece, tightness)
        if found is None:
            longest = float(load.max())
            times = math.ceil(shortest / longest) if multiples and longest else 1
            found = filling.open(_GROWTH * max(shortest, times * longest))
        filling.add(piece, found)
        batch[move] = found
    return batch


def _fewest_batches(settings: Settings, transfers: Transfers, moves: Ints, sizes: Rewrites) -> int:
    """Fewer cannot be: by partitions, copies a broker, leader changes and the controller's bytes."""
    most_copies = int(transfers.copy_counts().max())
    return max(
        math.ceil(len(moves) / min(settings.partitions_per_batch, partitions_per_batch(sizes, moves.tolist()))),
        math.ceil(most_copies / settings.copies_per_broker),
        math.ceil(int(transfers.changes_leader[moves].sum()) / settings.leader_changes_per_batch),
    )


def _in_turn(settings: Settings, transfers: Transfers, moves: Ints, sizes: Rewrites) -> Ints:
    """The batch, from 0, of each of these moves that copy nothing: one is filled after the other."""
    return np.fromiter(_turns(settings, transfers, moves, sizes), dtype=np.int64, count=len(moves))


def _turns(settings: Settings, transfers: Transfers, moves: Ints, sizes: Rewrites) -> Iterator[int]:
    work, batch, partitions, leader_changes = Work(sizes, 1, settings.partitions_per_batch), 0, 0, 0
    for move in moves.tolist():
        leads = bool(transfers.changes_leader[move])
        if (
            partitions == settings.partitions_per_batch
            or leader_changes + leads > settings.leader_changes_per_batch
            or work.full(move)[batch]
        ):
            work.append()
            batch, partitions, leader_changes = batch + 1, 0, 0
        work.add(move, batch)
        partitions, leader_changes = partitions + 1, leader_changes + leads
        yield batch
