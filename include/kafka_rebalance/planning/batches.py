"""Moves cut into batches: what one reassignment znode asks for, and the next may only ask when all of it is done.

A batch lasts as long as its busiest broker. So partitions go, largest first, into the batch whose busiest broker
grows least: each batch becomes a scaled copy of the whole, and barriers cost almost nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.model.proposal import Move
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.arrays import Floats, Problem
from kafka_rebalance.planning.controller import Rewrites, Work, bytes_by_batch, partitions_per_batch

_SPARE = 1.25  # batches beyond the fewest possible, so that the last ones still have a choice


@dataclass(frozen=True, slots=True)
class Schedule:
    """Moves with their batch, and what executing them takes."""

    moves: tuple[Move, ...]  # by batch, then topic and partition
    batches: int
    busiest_bytes: int  # sum over batches of the busiest broker's bytes in or out
    received: Floats  # [broker] bytes
    sent: Floats
    peak_disk_fraction: float | None
    controller_bytes: int  # of znodes that the controller rewrites in the batch in which it rewrites most


class _Filling:
    """Batches while they are being filled."""

    def __init__(self, batches: int, brokers: int, settings: Settings, partitions: int, sizes: Rewrites) -> None:
        self.settings = settings
        self.most = min(settings.partitions_per_batch, int(np.ceil(1.5 * partitions / max(1, batches))))
        self.work = Work(sizes, batches, self.most)
        self.traffic = np.zeros((batches, 2 * brokers))  # bytes in by broker, then bytes out
        self.peak = np.zeros(batches)  # of the busiest broker
        self.copies = np.zeros((batches, 2 * brokers), dtype=np.int64)
        self.freed = np.zeros((batches, brokers))
        self.partitions = np.zeros(batches, dtype=np.int64)
        self.leader_changes = np.zeros(batches, dtype=np.int64)
        self.urgent = np.zeros(batches, dtype=bool)

    def add(
        self, number: int, move: Move, source: int, added: Sequence[int], removed: Sequence[int], *, urgent: bool
    ) -> int:
        """Puts one partition in, the move of that number; returns its batch."""
        brokers = self.freed.shape[1]
        ends = [*added, brokers + source]
        copies = np.array([1] * len(added) + [len(added)])
        grown = (self.traffic[:, ends] + copies * float(move.size_bytes)).max(axis=1)
        # A partition that alone needs more copies than allowed goes where its brokers have none.
        crowded = (self.copies[:, ends] + copies > np.maximum(self.settings.copies_per_broker, copies)).any(axis=1)
        full = (self.partitions >= self.most) | crowded | self.work.full(number)
        if move.changes_leader:
            full |= self.leader_changes >= self.settings.leader_changes_per_batch
        open_batches = np.flatnonzero(~full)
        if not len(open_batches):
            self._append()
            chosen = len(self.partitions) - 1
        elif urgent:
            chosen = int(open_batches[0])
        else:
            filled = grown[open_batches]
            growth = np.maximum(0.0, filled - self.peak[open_batches])
            least = np.flatnonzero(growth == growth.min())
            chosen = int(open_batches[least[filled[least].argmin()]])
        self.work.add(number, chosen)
        self.traffic[chosen, ends] += copies * float(move.size_bytes)
        self.peak[chosen] = max(self.peak[chosen], float(self.traffic[chosen, ends].max()))
        self.copies[chosen, ends] += copies
        self.freed[chosen, list(removed)] += move.size_bytes
        self.partitions[chosen] += 1
        self.leader_changes[chosen] += move.changes_leader
        self.urgent[chosen] |= urgent
        return chosen

    def _append(self) -> None:
        self.work.append()
        for name in ("traffic", "peak", "copies", "freed", "partitions", "leader_changes", "urgent"):
            values = getattr(self, name)
            setattr(self, name, np.concatenate([values, np.zeros_like(values[:1])]))


def schedule(
    problem: Problem, moves: Sequence[Move], urgent: Sequence[bool], used: Floats, sizes: Rewrites
) -> Schedule:
    """Cuts the moves into batches. `urgent` moves (rack repairs) come first; `used` is [broker] bytes on disk before.

    Limits of the settings: partitions and leader changes a batch, and copies a broker sends or receives at once. Limit
    of the controller: the bytes it rewrites for a batch (`sizes`); a partition that alone needs more has its own batch.
    Moves that copy nothing come last, in batches of their own.
    """
    settings, brokers = problem.settings, len(problem.brokers)
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    copying = [number for number, move in enumerate(moves) if move.added]
    copying.sort(key=lambda number: (not urgent[number], -moves[number].size_bytes, moves[number].topic_partition))
    needed = _batches_needed(settings, moves, copying, sizes)
    filling = _Filling(needed, brokers, settings, len(copying), sizes)
    batch_of: dict[int, int] = {}
    for number in copying:
        move = moves[number]
        batch_of[number] = filling.add(
            number,
            move,
            index[move.before[0]],
            [index[broker] for broker in move.added],
            [index[broker] for broker in move.removed],
            urgent=urgent[number],
        )
    order, peak = _safest_order(problem, filling, used)
    rank = {batch: number for number, batch in enumerate(order)}
    still = sorted((n for n, move in enumerate(moves) if not move.added), key=lambda n: moves[n].topic_partition)
    batches = np.zeros(len(moves), dtype=np.int64)  # [move] from 0
    batches[copying] = [rank[batch_of[number]] for number in copying]
    batches[still] = [len(order) + batch for batch in _in_turn(settings, still, sizes)]
    batched = [replace(move, batch=int(batch) + 1) for move, batch in zip(moves, batches, strict=True)]
    batched.sort(key=lambda move: (move.batch, move.topic_partition))
    traffic = filling.traffic.sum(axis=0)
    return Schedule(
        tuple(batched),
        batched[-1].batch if batched else 0,
        int(filling.traffic.max(axis=1, initial=0.0).sum()),
        traffic[:brokers],
        traffic[brokers:],
        peak,
        int(bytes_by_batch(sizes, batches).max(initial=0)),
    )


def _in_turn(settings: Settings, moves: Sequence[int], sizes: Rewrites) -> Iterator[int]:
    """The batch, from 0, of each of these moves that copy nothing: one is filled after the other."""
    per_batch = min(settings.partitions_per_batch, settings.leader_changes_per_batch)
    work, batch, partitions = Work(sizes, 1, per_batch), 0, 0
    for number in moves:
        if partitions == per_batch or work.full(number)[batch]:
            work.append()
            batch, partitions = batch + 1, 0
        work.add(number, batch)
        partitions += 1
        yield batch


def _batches_needed(settings: Settings, all_moves: Sequence[Move], copying: Sequence[int], sizes: Rewrites) -> int:
    """The fewest batches that the limits leave, and some to spare."""
    moves = [all_moves[number] for number in copying]
    if not moves:
        return 0
    received = Counter(broker for move in moves for broker in move.added)
    sent = Counter(move.before[0] for move in moves for _ in move.added)
    busiest = max(*received.values(), *sent.values())
    fewest = len(moves) / min(settings.partitions_per_batch, partitions_per_batch(sizes, copying))
    return max(
        1 if fewest <= 1 else math.ceil(_SPARE * fewest),
        math.ceil(busiest / settings.copies_per_broker),
        math.ceil(sum(move.changes_leader for move in moves) / settings.leader_changes_per_batch),
    )


def _safest_order(problem: Problem, filling: _Filling, used: Floats) -> tuple[list[int], float | None]:
    """(the batches in the order to run them, the fullest any disk gets meanwhile as a share of its capacity).

    Urgent ones first; then, where capacities are known, one that keeps every disk below its headroom while both
    copies exist, or goes least beyond it.
    """
    waiting = sorted(np.flatnonzero(filling.partitions > 0).tolist(), key=lambda batch: not filling.urgent[batch])
    if problem.disk_capacity is None:
        return waiting, None
    brokers = len(used)
    stays = problem.staying
    capacity = np.where(stays, problem.disk_capacity, np.inf)
    limit = capacity * (1 - problem.settings.disk_headroom)
    peak = float((used[stays] / capacity[stays]).max(initial=0.0))
    held, order = used.copy(), []
    while waiting:
        arriving = filling.traffic[waiting, :brokers]
        excess = np.where(arriving > 0, np.maximum(0, held + arriving - limit), 0.0).max(axis=1)
        safe = np.flatnonzero(excess <= 0)
        batch = waiting.pop(int(safe[0]) if len(safe) else int(excess.argmin()))
        full = held + filling.traffic[batch, :brokers]
        peak = max(peak, float((full[stays] / capacity[stays]).max()))
        held = full - filling.freed[batch]
        order.append(batch)
    return order, round(peak, 6)
