"""Makes full batches shorter: partitions change batches, and no other batch lasts longer.

The rule: the busiest end of a batch gives one of its partitions to another batch. Or it exchanges the partition for a
smaller one of the same end there. All ends of both partitions must have room in the other batch without making it
longer, and stay below the length of this batch. So the sum of all lengths only falls. Each batch stays within its
limits, and no partition comes later than its rank asks. The shortest batch comes first. The work ends when nothing
improves, or when the steps are used up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches.controller_bytes import Rewrites, Work, bearable
from kafka_rebalance.planning.batches.transfers import Transfers
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints

_STEPS = 4_000  # partitions to look at: about a second, on large and small clusters
_CHANGED = 64  # partitions to look at closely as an exchange for one
_GAIN = 1e-9  # of the length of a batch; less is rounding
_LOWER = 0.5  # of the length of a batch is low enough; of changes that reach it, fewest bytes win


class _Change(NamedTuple):
    """A partition that leaves a batch, and the one that comes instead. Less is better, in this order."""

    level: float  # bytes of the busiest changed end afterwards, or the level that is low enough
    spent: float  # extra bytes of the end in the other batch
    leaves: int
    comes: int  # -1: nothing
    to: int


def levelled(settings: Settings, transfers: Transfers, moves: Ints, batch: Ints, ranks: Ints, sizes: Rewrites) -> Ints:
    """[move] The new batch of each of these moves, which all copy something; `batch` is the old one, 0 for all others.

    Empty batches disappear.
    """
    levels = _Levels(settings, transfers, moves, batch, ranks, sizes)
    while levels.steps < _STEPS:
        before = levels.lasts.sum()
        for number in np.argsort(levels.lasts, kind="stable").tolist():
            while levels.steps < _STEPS and levels.lower(number):
                pass
        if levels.lasts.sum() >= before * (1 - 1e-4):
            break
    kept = np.unique(levels.batch[moves], return_inverse=True)[1]
    levels.batch[moves] = kept.ravel()
    return levels.batch


class _Levels:
    """The load of each end in each batch, while partitions change batches."""

    def __init__(
        self, settings: Settings, transfers: Transfers, moves: Ints, batch: Ints, ranks: Ints, sizes: Rewrites
    ) -> None:
        self.settings, self.changes_leader, self.ranks, self.sizes = settings, transfers.changes_leader, ranks, sizes
        self.moves = moves
        self.batch = batch.copy()
        self.steps = 0
        self.ends, self.loads, self.places = transfers.ends(settings.copies_per_broker)
        ends, batches = 2 * transfers.brokers + 1, int(batch[moves].max()) + 1
        cells = (self.ends[moves] * batches + self.batch[moves, None]).ravel()
        self.load, self.copies = (
            np.bincount(cells, amounts[moves].ravel(), ends * batches).reshape(ends, batches)
            for amounts in (self.loads, self.places)
        )
        self.partitions = np.bincount(self.batch[moves], minlength=batches)
        self.leader_changes = np.bincount(self.batch[moves], self.changes_leader[moves], batches)
        self.lasts = self.load.max(axis=0)
        self.rank = np.full(batches, ranks.max())  # of the earliest partition that was in the batch at the start
        np.minimum.at(self.rank, self.batch[moves], ranks[moves])
        self.checks_controller = Work(sizes, settings.partitions_per_batch).matters
        self._of_end: dict[int, tuple[Ints, Floats]] = {}

    def lower(self, batch: int) -> bool:
        """Moves one partition of the busiest end of the batch to another batch, if possible. Returns whether it did."""
        end = int(self.load[:, batch].argmax())
        pieces = self._pieces(end)[0]
        best: _Change | None = None
        for place in np.flatnonzero(self.batch[pieces] == batch).tolist():
            self.steps += 1
            for change in (self._exchanged(batch, end, place), self._given(batch, end, int(pieces[place]))):
                if change is not None and (best is None or change < best):
                    best = change
        if best is None or (self.checks_controller and not self._bearable(batch, best)):
            return False
        self._put(best.leaves, best.to)
        if best.comes >= 0:
            self._put(best.comes, batch)
        self.lasts[batch] = self.load[:, batch].max()
        return True

    def _exchanged(self, batch: int, end: int, place: int) -> _Change | None:
        """The best exchange of the end's partition at this place for a smaller one of the end in another batch."""
        pieces, loads = self._pieces(end)
        leaves, mine, level = int(pieces[place]), loads[place], self.load[end, batch]
        at = self.batch[pieces]
        fits = (loads < mine) & (at != batch) & (self.lasts[at] - self.load[end, at] >= mine - loads)
        fits &= (self.rank[at] <= self.ranks[leaves]) & (self.ranks[pieces] >= self.rank[batch])
        some = np.flatnonzero(fits)
        if not len(some):
            return None
        # Sorted by load: take the largest that make the batch short enough, or else the smallest.
        enough = int(np.searchsorted(mine - loads[some], (1 - _LOWER) * level))
        some = some[max(0, min(enough, len(some) - _CHANGED)) :][:_CHANGED]
        comes, to = pieces[some], self.batch[pieces[some]]
        theirs, our = self.ends[comes], self.ends[leaves]
        shared = our[None, :, None] == theirs[:, None, :]  # [candidate, our end, its end]
        # The loads of our ends there, and of its ends here, after the exchange.
        there = self.load[our, to[:, None]] + self.loads[leaves] - (shared * self.loads[comes][:, None, :]).sum(axis=2)
        here = self.load[theirs, batch] + self.loads[comes] - (shared * self.loads[leaves][:, None]).sum(axis=1)
        copies_there = self.copies[our, to[:, None]] + self.places[leaves]
        copies_there -= (shared * self.places[comes][:, None, :]).sum(axis=2)
        copies_here = self.copies[theirs, batch] + self.places[comes]
        copies_here -= (shared * self.places[leaves][:, None]).sum(axis=1)
        levels = np.maximum(here.max(axis=1), level - mine + loads[some])
        good: Bools = (there <= self.lasts[to][:, None]).all(axis=1) & (levels < level * (1 - _GAIN))
        most = self.settings.copies_per_broker
        good &= (copies_there <= most).all(axis=1) & (copies_here <= most).all(axis=1)
        more = self.changes_leader[comes].astype(np.int64) - int(self.changes_leader[leaves])
        good &= self.leader_changes[batch] + more <= self.settings.leader_changes_per_batch
        good &= self.leader_changes[to] - more <= self.settings.leader_changes_per_batch
        found = np.flatnonzero(good)
        if not len(found):
            return None
        levels, spent = np.maximum(levels[found], _LOWER * level), mine - loads[some][found]
        first = int(np.lexsort((spent, levels))[0])
        chosen = found[first]
        return _Change(float(levels[first]), float(spent[first]), leaves, int(comes[chosen]), int(to[chosen]))

    def _given(self, batch: int, end: int, leaves: int) -> _Change | None:
        """Gives the partition to the batch with the least room left for the end, if any fits."""
        ends, loads, places = self.ends[leaves], self.loads[leaves], self.places[leaves]
        fits: Bools = (self.load[ends] + loads[:, None] <= self.lasts).all(axis=0)
        fits &= (self.copies[ends] + places[:, None] <= self.settings.copies_per_broker).all(axis=0)
        fits &= (self.partitions < self.settings.partitions_per_batch) & (self.rank <= self.ranks[leaves])
        if self.changes_leader[leaves]:
            fits &= self.leader_changes < self.settings.leader_changes_per_batch
        fits[batch] = False
        some = np.flatnonzero(fits)
        if not len(some):
            return None
        level, mine = float(self.load[end, batch]), float(loads[ends == end].sum())
        to = int(some[(self.lasts - self.load[end])[some].argmin()])
        return _Change(max(level - mine, _LOWER * level), mine, leaves, -1, to) if mine > _GAIN * level else None

    def _pieces(self, end: int) -> tuple[Ints, Floats]:
        """(the moves with this end, largest first; its load of each)"""
        if end not in self._of_end:
            of_end = self.ends[self.moves] == end
            pieces = self.moves[of_end.any(axis=1)]
            loads = (self.loads[pieces] * (self.ends[pieces] == end)).sum(axis=1)
            order = np.lexsort((pieces, -loads))
            self._of_end[end] = pieces[order], loads[order]
        return self._of_end[end]

    def _put(self, move: int, batch: int) -> None:
        for number, sign in ((int(self.batch[move]), -1), (batch, 1)):
            self.load[self.ends[move], number] += sign * self.loads[move]
            self.copies[self.ends[move], number] += sign * self.places[move]
            self.partitions[number] += sign
            self.leader_changes[number] += sign * int(self.changes_leader[move])
        self.batch[move] = batch

    def _bearable(self, batch: int, change: _Change) -> bool:
        for number, goes, joins in ((batch, change.leaves, change.comes), (change.to, change.comes, change.leaves)):
            there = self.moves[self.batch[self.moves] == number]
            there = np.append(there[there != goes], [joins] if joins >= 0 else [])
            if not bearable(self.sizes, there.astype(np.int64)):
                return False
        return True
