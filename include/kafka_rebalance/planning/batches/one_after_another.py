"""Fills one batch after the other, each with the partitions that shorten the rest most.

A batch lasts as long as its largest partition that waits, and takes what fits beside it. What is scarce decides:

- An end with most bytes left must be busy all the time, or the plan lasts longer. The others need not.
- Each batch has few places for partitions. If they are scarce, a large partition is worth more than many small ones.
- Very large partitions go together, because few others can keep the ends busy meanwhile.
"""

from __future__ import annotations

import math

import numpy as np

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches.batch_order import ORDINARY
from kafka_rebalance.planning.batches.controller_bytes import OneBatch, Rewrites, partitions_per_batch
from kafka_rebalance.planning.batches.transfers import Transfers
from kafka_rebalance.planning.problem.arrays import Floats, Ints

# The partitions that may join a batch: so many of the largest, and about as many of all other sizes. So the cost is
# linear in the moves.
_LARGEST = 3_000
_REFUSED = 250  # by the controller's limit, then the batch is full
_FIRST_LOOK = 512  # of them; each further look has twice as many
_SCARCITY = 4  # exponent of (least time by places / least time by bytes), the worth of a byte for its size alone
_LONG, _VERY_LONG = 1.0, 4  # the worth of a byte of a partition as long as the batch; and how fast it falls below
_EARLY = 1 / 8  # share of early partitions in a batch
_EARLY_WORTH = 2  # times the worth of others, if early partitions do not come first
_ROUNDING = 1 + 1e-12


def one_after_another(
    settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints, sizes: Rewrites, *, early_first: bool
) -> Ints:
    """[move] The batch, from 0, of each of these moves, which all copy something; 0 for all other moves.

    With `early_first`, partitions of an early rank fill up to an eighth of the first batches.
    """
    filling = _Filling(settings, transfers, moves, ranks, sizes, early_first)
    batch = np.zeros(len(ranks), dtype=np.int64)
    number = 0
    while len(filling.left):
        batch[filling.moves[filling.next_batch()]] = number
        number += 1
    return batch


class _Filling:
    """What waits: partitions, largest first, and the bytes and copies of each end."""

    def __init__(
        self, settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints, sizes: Rewrites, early_first: bool
    ) -> None:
        self.settings, self.sizes, self.early_first = settings, sizes, early_first
        loads = transfers.ends(settings.copies_per_broker)[1][moves].max(axis=1)
        self.moves = moves[np.lexsort((moves, -loads))]
        self.ends, self.loads, self.places = (table[self.moves] for table in transfers.ends(settings.copies_per_broker))
        self.longest = self.loads.max(axis=1)  # [partition] bytes of its busiest end
        self.leads = transfers.changes_leader[self.moves]
        self.early = ranks[self.moves] < ORDINARY
        self.early_share = max(_EARLY, float(self.early.mean()))
        self.count = 2 * transfers.brokers + 1  # ends; the last stands for no end
        self.bytes = self._summed(self.loads, np.arange(len(self.moves)))
        self.copies = self._summed(self.places, np.arange(len(self.moves)))
        self.bearable = partitions_per_batch(sizes, self.moves.tolist())
        self.left = np.arange(len(self.moves))

    def _summed(self, table: Floats | Ints, some: Ints) -> Floats:
        """[end] The sum over these partitions."""
        found = np.bincount(self.ends[some].ravel(), table[some].ravel(), self.count)
        found[-1] = 0
        return found.astype(np.float64)

    def next_batch(self) -> Ints:
        """The partitions of the next batch. They wait no longer."""
        most = self.settings.partitions_per_batch
        batches = max(
            math.ceil(len(self.left) / min(most, self.bearable)),
            math.ceil(self.copies.max() / self.settings.copies_per_broker),
            math.ceil(int(self.leads[self.left].sum()) / self.settings.leader_changes_per_batch),
        )
        lasts = max(float(self.longest[self.left[0]]), float(self.bytes.max()) / batches) * _ROUNDING
        chosen = self._fitting(self._by_worth(lasts), lasts)
        self.bytes = np.maximum(self.bytes - self._summed(self.loads, chosen), 0)
        self.copies -= self._summed(self.places, chosen)
        self.left = np.setdiff1d(self.left, chosen, assume_unique=True)
        return chosen

    def _by_worth(self, lasts: float) -> Ints:
        """The partitions that may join a batch of this length, the best first. The largest always comes first."""
        some, others = self.left[:_LARGEST], self.left[_LARGEST:]
        some = np.concatenate([some, others[:: max(1, len(others) // _LARGEST)]])
        early = self.left[self.early[self.left]]
        if len(early):
            some = np.union1d(some, early)
        longest, most_bytes = self.longest[some], max(float(self.bytes.max()), 1.0)
        least_by_places = float(self.longest[self.left[:: self.settings.partitions_per_batch]].sum())
        worth = longest * (least_by_places / most_bytes) ** _SCARCITY
        lasts = max(lasts, 1.0)
        worth += _LONG * longest * (longest / lasts) ** _VERY_LONG
        # The part of the batch for which each end must be busy, if nothing is to be lost.
        needed = np.maximum(0.0, 1 - (most_bytes - self.bytes) / lasts)
        needed[-1] = 0
        for end, load in zip(self.ends[some].T, self.loads[some].T, strict=True):
            worth += needed[end] * load
        if len(early) and self.early_first:
            soon = early[: math.ceil(self.early_share * min(self.settings.partitions_per_batch, len(self.left)))]
            worth[np.searchsorted(some, early)] = -np.inf
            worth[np.searchsorted(some, soon)] = np.inf
        elif len(early):
            worth[np.searchsorted(some, early)] *= _EARLY_WORTH
        worth[0] = np.inf
        order: Ints = some[np.argsort(-worth, kind="stable")]
        return order[: len(order) - int((worth == -np.inf).sum())]

    def _fitting(self, offered: Ints, lasts: float) -> Ints:
        """One after the other, those that fit beside the others in a batch of this length."""
        settings, leader_changes = self.settings, 0
        room, places = np.full(self.count, lasts), np.full(self.count, float(settings.copies_per_broker))
        work = OneBatch(self.sizes)
        room[-1] = places[-1] = np.inf
        chosen: list[int] = []
        at, look, refused = 0, _FIRST_LOOK, 0
        while at < len(offered) and len(chosen) < settings.partitions_per_batch and refused < _REFUSED:
            some = offered[at : at + look]
            at, look = at + look, 2 * look
            ends, loads, counted = self.ends[some], self.loads[some], self.places[some]
            fits = ((room[ends] >= loads) & (places[ends] >= counted)).all(axis=1)
            if chosen:
                fits &= work.may_fit(self.moves[some])
            rows = (some[fits].tolist(), ends[fits].tolist(), loads[fits].tolist(), counted[fits].tolist())
            left, free = room.tolist(), places.tolist()
            for number, of, load, count in zip(*rows, strict=True):
                leads = bool(self.leads[number])
                if leads and leader_changes >= settings.leader_changes_per_batch:
                    continue
                if any(left[end] < much or free[end] < many for end, much, many in zip(of, load, count, strict=True)):
                    continue
                if not work.added(int(self.moves[number])):
                    refused += 1
                    continue
                for end, much, many in zip(of, load, count, strict=True):
                    left[end] -= much
                    free[end] -= many
                chosen.append(number)
                leader_changes += leads
                if len(chosen) == settings.partitions_per_batch or refused >= _REFUSED:
                    break
            room, places = np.array(left), np.array(free)
        return np.array(chosen, dtype=np.int64)
