"""Moves cut into batches: what one reassignment znode asks for, and the next may only ask when all of it is done.

A batch lasts as long as its busiest broker. So partitions go, largest first, into the batch whose busiest broker
grows least: each batch becomes a scaled copy of the whole, and barriers cost almost nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.model.proposal import Move
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.arrays import Floats, Problem

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


class _Filling:
    """Batches while they are being filled."""

    def __init__(self, batches: int, brokers: int, settings: Settings, partitions: int) -> None:
        self.settings = settings
        self.most = min(settings.partitions_per_batch, int(np.ceil(1.5 * partitions / max(1, batches))))
        self.traffic = np.zeros((batches, 2 * brokers))  # bytes in by broker, then bytes out
        self.peak = np.zeros(batches)  # of the busiest broker
        self.copies = np.zeros((batches, 2 * brokers), dtype=np.int64)
        self.freed = np.zeros((batches, brokers))
        self.partitions = np.zeros(batches, dtype=np.int64)
        self.leader_changes = np.zeros(batches, dtype=np.int64)
        self.urgent = np.zeros(batches, dtype=bool)

    def add(self, move: Move, source: int, added: Sequence[int], removed: Sequence[int], *, urgent: bool) -> int:
        """Puts one partition in; returns its batch."""
        brokers = self.freed.shape[1]
        ends = [*added, brokers + source]
        copies = np.array([1] * len(added) + [len(added)])
        grown = (self.traffic[:, ends] + copies * float(move.size_bytes)).max(axis=1)
        # A partition that alone needs more copies than allowed goes where its brokers have none.
        crowded = (self.copies[:, ends] + copies > np.maximum(self.settings.copies_per_broker, copies)).any(axis=1)
        full = (self.partitions >= self.most) | crowded
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
        self.traffic[chosen, ends] += copies * float(move.size_bytes)
        self.peak[chosen] = max(self.peak[chosen], float(self.traffic[chosen, ends].max()))
        self.copies[chosen, ends] += copies
        self.freed[chosen, list(removed)] += move.size_bytes
        self.partitions[chosen] += 1
        self.leader_changes[chosen] += move.changes_leader
        self.urgent[chosen] |= urgent
        return chosen

    def _append(self) -> None:
        for name in ("traffic", "peak", "copies", "freed", "partitions", "leader_changes", "urgent"):
            values = getattr(self, name)
            setattr(self, name, np.concatenate([values, np.zeros_like(values[:1])]))


def schedule(problem: Problem, moves: Sequence[Move], urgent: Sequence[bool], used: Floats) -> Schedule:
    """Cuts the moves into batches. `urgent` moves (rack repairs) come first; `used` is [broker] bytes on disk before.

    Limits of the settings: partitions and leader changes a batch, and copies a broker sends or receives at once.
    Moves that copy nothing come last, in batches of their own.
    """
    settings, brokers = problem.settings, len(problem.brokers)
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    copying = [number for number, move in enumerate(moves) if move.added]
    copying.sort(key=lambda number: (not urgent[number], -moves[number].size_bytes, moves[number].topic_partition))
    needed = _batches_needed(settings, [moves[number] for number in copying])
    filling = _Filling(needed, brokers, settings, len(copying))
    batch_of: dict[int, int] = {}
    for number in copying:
        move = moves[number]
        batch_of[number] = filling.add(
            move,
            index[move.before[0]],
            [index[broker] for broker in move.added],
            [index[broker] for broker in move.removed],
            urgent=urgent[number],
        )
    order, peak = _safest_order(problem, filling, used)
    rank = {batch: number for number, batch in enumerate(order)}
    batched = [replace(moves[number], batch=rank[batch] + 1) for number, batch in batch_of.items()]
    per_batch = min(settings.partitions_per_batch, settings.leader_changes_per_batch)
    still = sorted((move for move in moves if not move.added), key=lambda move: move.topic_partition)
    batched += [replace(move, batch=len(order) + 1 + number // per_batch) for number, move in enumerate(still)]
    batched.sort(key=lambda move: (move.batch, move.topic_partition))
    traffic = filling.traffic.sum(axis=0)
    return Schedule(
        tuple(batched),
        batched[-1].batch if batched else 0,
        int(filling.traffic.max(axis=1, initial=0.0).sum()),
        traffic[:brokers],
        traffic[brokers:],
        peak,
    )


def _batches_needed(settings: Settings, moves: Sequence[Move]) -> int:
    """The fewest batches that the limits leave, and some to spare."""
    if not moves:
        return 0
    received = Counter(broker for move in moves for broker in move.added)
    sent = Counter(move.before[0] for move in moves for _ in move.added)
    busiest = max(*received.values(), *sent.values())
    fewest = len(moves) / settings.partitions_per_batch
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
