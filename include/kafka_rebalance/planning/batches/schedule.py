"""Cuts moves into batches. One reassignment znode requests one batch; the next waits until all of it is done.

A batch lasts as long as its busiest broker. So it gets the moves that fit beside its largest partition
(`largest_first`). Then each batch is a smaller copy of the whole, in bytes and in copies, and waiting costs little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kafka_rebalance.documents.proposals import BatchSlot, HeldUp, HeldUpTopic, Timetable
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches.batch_order import LAST, ORDINARY, RELIEVING, in_safe_order
from kafka_rebalance.planning.batches.controller_bytes import Rewrites, Work, bytes_by_batch, partitions_per_batch
from kafka_rebalance.planning.batches.list_schedules import (
    FillOrder,
    filled_batches,
    levelled,
    one_after_another,
    pieces,
)
from kafka_rebalance.planning.batches.transfers import DiskUse, Transfers, disk_use, peak_fraction
from kafka_rebalance.planning.problem.arrays import Floats, Ints, Problem
from kafka_rebalance.planning.rules.disk_limits import disk_limits_meanwhile

_WAYS = (FillOrder(True, True, 0.5, 0.5), FillOrder(True, False, 1.0, 1.0), FillOrder(True, False, 0.25, 0.0))
_MANY = 20_000  # moves; for more, only the way whose cost is linear
_EARLY_SPREAD = FillOrder(False, False, 1.0, 0.25)
_EARLY_WORTH = 1.03  # how much longer all batches may last together so that early moves come first
_NEAR = 1.02  # of the bound; near enough to stop trying
_COPIES_WORTH = 1.005  # how much longer all batches must last with the usual copies of a broker, so that more are made
# The share of the allowed partitions to aim at. With room for more, long batches can be filled better.
_AIM = 0.4


@dataclass(frozen=True, slots=True)
class Schedule:
    """Moves with their batches, and the cost to execute them."""

    moves: tuple[Move, ...]  # by batch, then topic and partition
    batches: int
    busiest_bytes: int  # the busiest broker's bytes in or out, summed over batches
    received: Floats  # [broker] bytes
    sent: Floats
    disks: DiskUse
    peak_disk_fraction: float | None
    controller_bytes: int  # what a batch costs the controller, at most
    copies_at_once: int  # that one broker sends or receives in a batch, at most
    timetable: Timetable


@dataclass(frozen=True, slots=True, eq=False)
class NoRoom:
    """Moves that no order makes safe: both copies of theirs have no room on the disks."""

    moves: Ints  # indices of these moves


def schedule(problem: Problem, moves: Sequence[Move], ranks: Ints, used: Floats, sizes: Rewrites) -> Schedule | NoRoom:
    """Cuts the moves into batches. `ranks` is [move]; `used` is [broker] bytes on disk before.

    The settings limit the partitions and leader changes of a batch, and the copies that a broker sends or receives at
    once. The controller limits the bytes that it rewrites for a batch (`sizes`); a partition that needs more has its
    own batch. The disks limit which copies start: none may fill a disk beyond its headroom while both copies exist. If
    only such copies are left, there is no schedule. Moves that copy nothing and free no full disk come last, in batches
    of their own. Elections of lists that stay the same come after them.
    """
    transfers = Transfers.of(problem, moves)
    copies = transfers.copies > 0
    ranks = np.where(copies | (ranks == RELIEVING), ranks, LAST)  # moves that copy nothing wait for the others
    batch = np.full(len(moves), -1, dtype=np.int64)
    batch[copies] = _filled(problem.settings, transfers, np.flatnonzero(copies), ranks, sizes)
    elects = np.array([move.is_election for move in moves], dtype=bool)  # they need no reassignment request
    for some in (~elects & (ranks == RELIEVING), ~elects & (ranks == LAST), elects):
        still = np.flatnonzero(~copies & some)
        batch[still] = batch.max(initial=-1) + 1 + _in_turn(problem.settings, transfers, still, sizes)
    batch = in_safe_order(transfers, batch, ranks, used, disk_limits_meanwhile(problem))
    if (batch < 0).any():
        return NoRoom(np.flatnonzero(batch < 0))
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
        transfers.copies_at_once(batch),
        timetable(problem.brokers, batch, received, sent),
    )


def _filled(settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints, sizes: Rewrites) -> Ints:
    """The batch, from 0, of each of these moves that copy something.

    A broker makes the usual number of copies at once. It makes as many as it may at most, if that is worth it. For
    many moves the bound says so, because it costs less than to fill all batches twice.
    """
    if not len(moves):
        return moves
    bound = float(np.concatenate(transfers.totals()).max())
    usual, most = (replace(settings, copies_per_broker=copies) for copies in settings.copies)
    if most != usual and len(moves) > _MANY:
        least = transfers.least_busiest_bytes(usual.copies_per_broker, usual.partitions_per_batch)
        return _shortest(most if least > _COPIES_WORTH * bound else usual, transfers, moves, ranks, sizes, bound)[0]
    batch, lasts = _shortest(usual, transfers, moves, ranks, sizes, bound)
    if most != usual and lasts > _NEAR * bound:
        other, shorter = _shortest(most, transfers, moves, ranks, sizes, bound)
        if shorter * _COPIES_WORTH <= lasts:
            batch = other
    return batch


def _shortest(
    settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints, sizes: Rewrites, bound: float
) -> tuple[Ints, float]:
    """(the batch, from 0, of each of these moves, in the shortest of some ways; what all batches last together)

    What batches last is in bytes of their busiest broker; `bound` is what no order of the moves stays below.
    """
    aim = _batches_aimed_at(settings, transfers, moves, sizes)

    def all_at_once(way: FillOrder) -> Ints:
        work = Work(sizes, settings.partitions_per_batch)
        return filled_batches(settings, transfers, found, ranks, work, way, aim)

    def in_turn() -> Ints:
        return one_after_another(settings, transfers, moves, ranks, sizes)

    few = len(moves) <= _MANY
    found = pieces(settings, transfers, moves, ranks) if few else []
    ways: list[Callable[[], Ints]] = [partial(all_at_once, way) for way in _WAYS] if few else []
    best, least = moves, math.inf
    for way in (*ways, in_turn):
        batch = way()
        lasts = _busiest_bytes(transfers, batch)
        if lasts > _NEAR * bound:
            batch = levelled(settings, transfers, moves, batch, ranks, sizes)
            lasts = _busiest_bytes(transfers, batch)
        if lasts < least:
            best, least = batch, lasts
        if least <= _NEAR * bound:
            return best[moves], least
    if few and least > _EARLY_WORTH * bound and (ranks[moves] < ORDINARY).any():
        batch = levelled(settings, transfers, moves, all_at_once(_EARLY_SPREAD), ranks, sizes)
        lasts = _busiest_bytes(transfers, batch)
        if lasts * _EARLY_WORTH < least:
            best, least = batch, lasts
    return best[moves], least


def _busiest_bytes(transfers: Transfers, batch: Ints) -> float:
    """The bytes of the busiest broker in or out, summed over the batches."""
    return float(np.maximum(*transfers.traffic(batch)).max(axis=1).sum())


def _batches_aimed_at(settings: Settings, transfers: Transfers, moves: Ints, sizes: Rewrites) -> int:
    """By partitions, and no fewer than copies a broker, leader changes and the controller need."""
    partitions = settings.partitions_per_batch
    if len(moves) > partitions:
        partitions = math.ceil(_AIM * partitions)
    return max(
        math.ceil(len(moves) / min(partitions, partitions_per_batch(sizes, moves.tolist()))),
        math.ceil(int(transfers.copy_counts().max()) / settings.copies_per_broker),
        math.ceil(int(transfers.changes_leader[moves].sum()) / settings.leader_changes_per_batch),
    )


def _in_turn(settings: Settings, transfers: Transfers, moves: Ints, sizes: Rewrites) -> Ints:
    """The batch, from 0, of each of these moves that copy nothing. One batch is filled after the other."""
    work, batch, partitions, leader_changes = Work(sizes, settings.partitions_per_batch), 0, 0, 0
    found = []
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
        found.append(batch)
    return np.array(found, dtype=np.int64)


# Which brokers copy when, for people: the timetable, and what its batches hold up.


BROKERS_LISTED, BATCHES_LISTED = 12, 50
SLOTS = 60  # equal parts of the plan's time
TOPICS_LISTED = 50


def timetable(brokers: Ints, batch: Ints, received: Floats, sent: Floats) -> Timetable:
    """The brokers with most bytes, and the first batches.

    `brokers` are ids, `batch` is [move] from 0, `received` and `sent` are [batch, broker] bytes. A broker's lanes are
    [slot] shares of the throttle that it uses. `busy` is the share of the time that its own bytes need.
    """
    busier = np.maximum(received, sent)
    lasts = busier.max(axis=1, initial=0.0)
    whole = float(lasts.sum())
    works = busier > 0
    total = np.maximum(received.sum(axis=0), sent.sum(axis=0))
    listed = [int(one) for one in np.lexsort((brokers, -total))[:BROKERS_LISTED] if total[one] > 0]
    per_second = np.divide(1.0, lasts, out=np.zeros(len(lasts)), where=lasts > 0)[:, None]
    overlap = _overlap(lasts, whole)
    lanes = {name: overlap @ (amounts[:, listed] * per_second) for name, amounts in (("in", received), ("out", sent))}
    ends = np.cumsum(lasts)
    moves = np.bincount(batch, minlength=len(lasts))
    return Timetable(
        int((total > 0).sum()),
        tuple(
            {
                "broker": int(brokers[one]),
                "received_bytes": int(received[:, one].sum()),
                "sent_bytes": int(sent[:, one].sum()),
                "first_batch": int(works[:, one].argmax()) + 1,
                "last_batch": len(lasts) - int(works[::-1, one].argmax()),
                "busy": _share(float(busier[:, one].sum()), whole),
                "in": tuple(lanes["in"][:, position].round(3).tolist()),
                "out": tuple(lanes["out"][:, position].round(3).tolist()),
            }
            for position, one in enumerate(listed)
        ),
        len(lasts),
        tuple(
            BatchSlot(
                number + 1,
                int(moves[number]),
                int(received[number].sum()),
                _share(float(ends[number] - lasts[number]), whole),
                _share(float(lasts[number]), whole),
                int(brokers[busier[number].argmax()]) if lasts[number] else None,
            )
            for number in range(min(BATCHES_LISTED, len(lasts)))
        ),
    )


def _overlap(lasts: Floats, whole: float) -> Floats:
    """[slot, batch] The share of the slot during which the batch runs."""
    if not whole:
        return np.zeros((0, len(lasts)))
    ends, slot = np.cumsum(lasts), whole / SLOTS
    upper = slot * np.arange(1, SLOTS + 1)[:, None]
    shared = np.minimum(ends, upper) - np.maximum(ends - lasts, upper - slot)
    share: Floats = np.maximum(0.0, shared) / slot
    return share


def _share(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0


def held_up(moves: Sequence[Move], kafkas_own: Collection[str]) -> HeldUp:
    """Topics that nobody can expand or delete while their batches run: how many, and those with most moves.

    During a reassignment Kafka adds no partitions to a topic (AdminManager.createPartitions:
    ReassignmentInProgressException), and its deletion waits (TopicDeletionManager.isTopicIneligibleForDeletion).
    """
    batches: dict[str, list[int]] = {}
    for move in moves:
        batches.setdefault(move.topic_partition.topic, []).append(move.batch)
    most = sorted(batches, key=lambda topic: (-len(batches[topic]), topic))[:TOPICS_LISTED]
    return HeldUp(
        len(batches),
        tuple(sorted(batches.keys() & set(kafkas_own))),
        tuple(HeldUpTopic(topic, len(batches[topic]), min(batches[topic]), max(batches[topic])) for topic in most),
    )
