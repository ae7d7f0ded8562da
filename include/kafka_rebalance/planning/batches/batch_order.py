"""The order of the batches: what has to run first, because a broker would run full while both copies exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.batches.transfers import Transfers, summed
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, added
from kafka_rebalance.planning.rules.disk_limits import disk_limits_meanwhile

# Moves of lower rank are in earlier batches, if the limits and the disks allow it.
URGENT, RELIEVING, ORDINARY, LAST = range(4)


def ranks_of(problem: Problem, was: Ints, now: Ints, repaired: Bools, used: Floats) -> Ints:
    """[partition row] URGENT: replicas out of sync, or in too few racks. RELIEVING: moves that empty full disks."""
    ranks = np.full(len(was), ORDINARY)
    full = used > disk_limits_meanwhile(problem)
    if full.any():
        gone = added(was, now)
        ranks[(gone & full[np.maximum(was, 0)]).any(axis=1)] = RELIEVING
    behind = (problem.replicas >= 0) & ~problem.in_sync
    ranks[behind.any(axis=1) | repaired] = URGENT
    return ranks


def in_safe_order(transfers: Transfers, batch: Ints, ranks: Ints, used: Floats, limit: Floats) -> Ints:
    """[move] The batch, from 0, in which it runs: `batch` in the order of the least rank in each, as the disks allow.

    The next batch is the first that keeps every disk within its limit while both copies exist. If there is none, a part
    of a batch runs that does, and the rest waits. If no move that waits fits, no order makes these safe: -1, they are
    left out. A disk that is above its limit may fill up to its end. Batches of rank LAST wait for all others, unless
    what they remove makes room. `used` is [broker] bytes before.
    """
    batches = int(batch.max(initial=-1)) + 1
    rank = np.full(batches, ranks.max(initial=0), dtype=np.int64)
    np.minimum.at(rank, batch, ranks)
    waiting = np.argsort(rank, kind="stable").tolist()
    arriving, freed = transfers.traffic(batch)[0], transfers.freed(batch)
    receives = arriving.any(axis=0)
    if (used + arriving.sum(axis=0) <= limit)[receives].all():
        place = np.empty(batches, dtype=np.int64)
        place[waiting] = np.arange(batches)
        return place[batch]
    limit = np.maximum(limit, np.minimum(used, used + arriving.sum(axis=0) - freed.sum(axis=0)))
    running = _Running(transfers, batch, ranks, used.copy(), limit, np.full(len(batch), -1))
    while waiting:
        offered = [number for number in waiting if rank[number] < LAST] or waiting
        number = running.fitting(offered, arriving)
        part = np.flatnonzero(batch == number) if number is not None else running.fitting_part(offered)
        if not len(part):
            part = running.fitting_part(waiting)
        part = part[running.place[part] < 0]
        if not len(part):
            break
        number = int(batch[part[0]])
        arriving[number] -= running.run(part)
        if not ((batch == number) & (running.place < 0)).any():
            waiting.remove(number)
    return running.place


@dataclass(slots=True, eq=False)
class _Running:
    """The disks, while one batch runs after the other."""

    transfers: Transfers
    batch: Ints  # [move] as filled
    ranks: Ints  # [move]
    held: Floats  # [broker] bytes now
    limit: Floats  # [broker]
    place: Ints  # [move] the batch, from 0, in which it has run; -1: it waits
    done: int = 0  # batches

    def fitting(self, waiting: Sequence[int], arriving: Floats) -> int | None:
        """The first batch that fits as a whole. `arriving` is [batch, broker] bytes."""
        for some in (waiting[:1], waiting[1:]):
            beyond = (self.held + arriving[some] > self.limit) & (arriving[some] > 0)
            fits = np.flatnonzero(~beyond.any(axis=1))
            if len(fits):
                return some[int(fits[0])]
        return None

    def fitting_part(self, waiting: Sequence[int]) -> Ints:
        """As many moves as fit together of the first batch of which some fit; none if no move fits."""
        move, broker = self.transfers.added
        size = self.transfers.size
        beyond = np.full(len(self.place), -np.inf)
        np.maximum.at(beyond, move, self.held[broker] + size[move] - self.limit[broker])
        beyond[size == 0] = -np.inf  # fits even on a disk above its limit
        beyond[(self.place >= 0) | ~np.isin(self.batch, waiting)] = np.inf
        fits = beyond <= 0
        if not fits.any():
            return np.zeros(0, dtype=np.int64)
        with_some = set(self.batch[fits].tolist())
        number = next(number for number in waiting if number in with_some)
        some = np.flatnonzero(fits & (self.batch == number))
        part, held = [], self.held.copy()
        for candidate in some[np.argsort(self.ranks[some], kind="stable")].tolist():
            brokers = self.transfers.receivers(candidate)
            if size[candidate] == 0 or (held[brokers] + size[candidate] <= self.limit[brokers]).all():
                part.append(candidate)
                held[brokers] += size[candidate]
        return np.array(part)

    def run(self, moves: Ints) -> Floats:
        """Runs these moves as the next batch. Returns [broker] the new bytes."""
        self.place[moves] = self.done
        brought, deleted = (self._bytes(*pairs) for pairs in (self.transfers.added, self.transfers.removed))
        self.held += brought - deleted
        self.done += 1
        return brought

    def _bytes(self, move: Ints, broker: Ints) -> Floats:
        """[broker] Bytes of the pairs whose move is in the running batch."""
        now = self.place[move] == self.done
        return summed(broker[now], self.transfers.size[move[now]], self.transfers.brokers)
