"""Moves cut into batches: what one reassignment znode asks for, and the next may only ask when all of it is done.

A batch lasts as long as its busiest broker. So it is filled with what fits beside its largest partition
(`largest_first`): each batch becomes a scaled copy of the whole, in bytes and in copies, and barriers cost little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.documents.proposals.candidate_figures import Timetable
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches.batch_order import (
    LAST,
    ORDINARY,
    RELIEVING,
    DiskUse,
    disk_use,
    in_safe_order,
    peak_fraction,
)
from kafka_rebalance.planning.batches.controller_bytes import Rewrites, Work, bytes_by_batch, partitions_per_batch
from kafka_rebalance.planning.batches.largest_first import FillOrder, filled_batches, pieces
from kafka_rebalance.planning.batches.shorter_batches import levelled
from kafka_rebalance.planning.batches.timetable import timetable
from kafka_rebalance.planning.batches.transfers import Transfers
from kafka_rebalance.planning.problem.arrays import Floats, Ints, Problem
from kafka_rebalance.planning.rules.disk_limits import disk_limits_meanwhile

_WAYS = (FillOrder(True, True, 0.5, 0.5), FillOrder(True, False, 1.0, 1.0), FillOrder(True, False, 0.25, 0.0))
_WAYS_OF_MANY = (FillOrder(True, False, 1.0, 0.25),)  # each takes as long as the others
_MANY = 20_000  # moves
_EARLY_SPREAD = FillOrder(False, False, 1.0, 0.25)
_EARLY_WORTH = 1.03  # what all batches may last longer in all for what is early to come as early as it can
_NEAR = 1.02  # of the bound: no further trial
# Of the partitions that a batch may have, so many are aimed at: with room for more, long batches are filled better.
_AIM = 0.4


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
    timetable: Timetable


def schedule(problem: Problem, moves: Sequence[Move], ranks: Ints, used: Floats, sizes: Rewrites) -> Schedule:
    """Cuts the moves into batches. `ranks` is [move]; `used` is [broker] bytes on disk before.

    Limits of the settings: partitions and leader changes a batch, and copies a broker sends or receives at once. Limit
    of the controller: the bytes it rewrites for a batch (`sizes`); a partition that alone needs more has its own batch.
    Limit of the disks: no copy starts that would fill one beyond its headroom while both copies exist, unless nothing
    else is left to do. Moves that copy nothing and free no full disk come last, in batches of their own, and behind
    them elections of lists that stay.
    """
    transfers = Transfers.of(problem, moves)
    copies = transfers.copies > 0
    ranks = np.where(copies | (ranks == RELIEVING), ranks, LAST)  # what copies nothing waits for what does
    batch = np.full(len(moves), -1, dtype=np.int64)
    batch[copies] = _filled(problem.settings, transfers, np.flatnonzero(copies), ranks, sizes)
    elects = np.array([move.is_election for move in moves], dtype=bool)  # these no reassignment is requested for
    for some in (~elects & (ranks == RELIEVING), ~elects & (ranks == LAST), elects):
        still = np.flatnonzero(~copies & some)
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
        timetable(problem.brokers, batch, received, sent),
    )


def _filled(settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints, sizes: Rewrites) -> Ints:
    """The batch, from 0, of each of these moves that copy something, in the way that takes least in all."""
    if not len(moves):
        return moves
    aim = _batches_aimed_at(settings, transfers, moves, sizes)
    bound = float(np.concatenate(transfers.totals()).max())
    found = pieces(settings, transfers, moves, ranks)

    def in_way(way: FillOrder) -> tuple[Ints, float]:
        """([move] batch, how long they last in all)"""
        work = Work(sizes, 1, settings.partitions_per_batch)
        batch = filled_batches(settings, transfers, found, ranks, work, way, aim)
        return batch, _length(transfers, moves, batch)

    best, least = moves, math.inf
    for way in _WAYS if len(moves) <= _MANY else _WAYS_OF_MANY:
        batch, lasts = in_way(way)
        if lasts < least:
            best, least = batch, lasts
        if least <= _NEAR * bound:
            return best[moves]
    if least > _EARLY_WORTH * bound and (ranks[moves] < ORDINARY).any():
        batch, lasts = in_way(_EARLY_SPREAD)
        if lasts * _EARLY_WORTH < least:
            best = batch
    return levelled(settings, transfers, moves, best, ranks, sizes)[moves]


def _length(transfers: Transfers, moves: Ints, batch: Ints) -> float:
    """Bytes of the busiest broker in or out, summed over the batches; `batch` is [move], as far as `moves` are."""
    only = np.zeros(len(batch), dtype=bool)
    only[moves] = True
    received, sent = transfers.traffic(np.where(only, batch, 0))  # the others copy nothing
    return float(np.maximum(received, sent).max(axis=1).sum())


def _batches_aimed_at(settings: Settings, transfers: Transfers, moves: Ints, sizes: Rewrites) -> int:
    """What is aimed at: by partitions, and no less than copies a broker, leader changes and the controller need."""
    partitions = settings.partitions_per_batch
    if len(moves) > partitions:
        partitions = math.ceil(_AIM * partitions)
    return max(
        math.ceil(len(moves) / min(partitions, partitions_per_batch(sizes, moves.tolist()))),
        math.ceil(int(transfers.copy_counts().max()) / settings.copies_per_broker),
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
