"""Fills batches with partitions, largest first, so that the busiest broker of each has as little load as possible.

A partition goes to a batch in which all of its brokers have room without making the batch longer. If there is none, it
makes a batch longer or opens a new one, whichever is cheaper. A new batch may cost more, because it also brings new
places for copies.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches.batch_order import LAST, ORDINARY
from kafka_rebalance.planning.batches.controller_bytes import OneBatch, Rewrites, Work, bearable, partitions_per_batch
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


# Fills one batch after the other: the broker with most bytes left gets its largest partition that fits, then the next.
#
# A batch lasts as long as the largest partition that waits, because another batch would last as long. Long batches
# have too few places to keep every broker busy. What they do not bring to a broker, that broker needs later, on its
# own time. So it counts what each broker has left after them, and the one with most left is always next.
#
# - Partitions that nearly fill a batch come before that. If one stays behind, the next batch is as long again.
# - Early partitions wait for the first batch that is not long, because they are small, and the places of a long one
#   are
#   scarce. The batches with early partitions run first (`batch_order`).


_NEARLY_FILLS = 0.2  # of a batch: longer partitions come before those of the neediest broker
_LOOKED_AT = 2  # times the places of a batch: so many of these partitions, and of early ones, to look at
_NOT_LONG = 2  # times the mean length of a batch
_TRIES, _FEW_TRIES = 20, 2  # partitions of an end that do not fit, then no more; fewer with less than half of the most
_REFUSED = 250  # by the controller's limit, then the batch is full
_ROUNDING = 1 + 1e-12


def one_after_another(settings: Settings, transfers: Transfers, moves: Ints, ranks: Ints, sizes: Rewrites) -> Ints:
    """[move] The batch, from 0, of each of these moves, which all copy something; 0 for all other moves.

    Partitions of an early rank fill up to an eighth of the first batches that are not long.
    """
    ends, loads, places = transfers.ends(settings.copies_per_broker)
    moves = moves[np.lexsort((moves, -loads[moves].max(axis=1)))]
    filling = _BatchByBatch(
        settings,
        _Waiting(2 * transfers.brokers, ends[moves], loads[moves], places[moves]),
        transfers.changes_leader[moves],
        ranks[moves] < ORDINARY,
        sizes,
        moves.tolist(),
    )
    batch = np.zeros(len(ranks), dtype=np.int64)
    number = 0
    while filling.waiting.count:
        batch[moves[filling.next_batch()]] = number
        number += 1
    return batch


class _Waiting:
    """The partitions that wait, by number, and those of each end; the largest come first."""

    def __init__(self, ends: int, end: Ints, loads: Floats, places: Ints) -> None:
        """`end`, `loads` and `places` are [partition, position], in order of size; `ends` stands for no end."""
        self.count = len(end)
        self.ends: list[list[tuple[int, float, int]]] = [  # [partition] (end, bytes, copies)
            [(of, load, copies) for of, load, copies in zip(*row, strict=True) if of < ends]
            for row in zip(end.tolist(), loads.tolist(), places.tolist(), strict=True)
        ]
        self.longest: list[float] = loads.max(axis=1, initial=0.0).tolist()
        partition, position = np.nonzero(end < ends)
        of, load = end[partition, position], loads[partition, position]
        order = np.lexsort((partition, -load, of))
        self.bytes: list[float] = np.bincount(of, load, ends).tolist()  # [end] of all its partitions
        self.copies: list[int] = np.bincount(of, places[partition, position], ends).astype(np.int64).tolist()
        # The partitions of all ends in one list, and where those of each end begin.
        self.begins: list[int] = np.searchsorted(of[order], np.arange(ends + 1)).tolist()
        self.listed: list[int] = partition[order].tolist()
        self._shorter: list[float] = (-load[order]).tolist()
        self._next = list(range(len(order) + 1))  # [place in the list] a later place, or itself if its partition waits
        places_in_list: Ints = np.empty(len(order), dtype=np.int64)
        places_in_list[order] = np.arange(len(order))
        cuts = np.searchsorted(partition, np.arange(self.count + 1)).tolist()
        flat = places_in_list.tolist()
        self._places = [flat[begin:end] for begin, end in pairwise(cuts)]
        self.is_there = [True] * self.count
        self._first = 0

    @property
    def largest(self) -> int:
        """The largest partition that waits."""
        while not self.is_there[self._first]:
            self._first += 1
        return self._first

    def from_largest(self, most: int) -> Sequence[int]:
        """Those that wait of so many partitions from the largest on."""
        some = range(self._first, min(self._first + most, len(self.is_there)))
        return [partition for partition in some if self.is_there[partition]]

    def at_or_after(self, place: int) -> int:
        """The first place in the list, from this one on, whose partition waits."""
        found, following = place, self._next
        while following[found] != found:
            found = following[found]
        while following[place] != found:
            following[place], place = found, following[place]
        return found

    def fitting(self, end: int, room: float, place: int) -> int:
        """The first place of the end, from this one on, of a partition that has no more bytes than `room`."""
        return bisect_left(self._shorter, -room, place, self.begins[end + 1])

    def of_end(self, end: int) -> Iterator[float]:
        """The bytes of its partitions that wait, the largest first."""
        place = self.at_or_after(self.begins[end])
        while place < self.begins[end + 1]:
            yield -self._shorter[place]
            place = self.at_or_after(place + 1)

    def remove(self, partition: int) -> None:
        for end, load, copies in self.ends[partition]:
            self.bytes[end] -= load
            self.copies[end] -= copies
        for place in self._places[partition]:
            self._next[place] = place + 1
        self.is_there[partition] = False
        self.count -= 1


class _BatchByBatch:
    """One batch after the other. Partitions are numbers, the largest first."""

    def __init__(
        self,
        settings: Settings,
        waiting: _Waiting,
        changes_leader: Bools,
        is_early: Bools,
        sizes: Rewrites,
        moves: Sequence[int],
    ) -> None:
        self.settings, self.waiting, self.sizes, self.moves = settings, waiting, sizes, moves
        self.changes_leader: list[bool] = changes_leader.tolist()
        self.leader_changes = sum(self.changes_leader)  # that wait
        self.most = min(float(settings.partitions_per_batch), partitions_per_batch(sizes, moves))
        least_by_places = sum(waiting.longest[:: settings.partitions_per_batch])
        self.long = _NOT_LONG * max(*waiting.bytes, least_by_places) / self._batches()
        early = is_early & (np.array(waiting.longest) <= self.long)
        self.early_share = max(_EARLY, float(early.mean()))
        self.is_early: list[bool] = early.tolist()  # a partition that makes its batch long cannot come early
        self.early: list[int] = np.flatnonzero(early).tolist()  # that wait

    def _batches(self) -> int:
        """So many there must be at least for what waits."""
        least: int = max(
            math.ceil(self.waiting.count / self.most),
            math.ceil(max(self.waiting.copies, default=0) / self.settings.copies_per_broker),
            math.ceil(self.leader_changes / self.settings.leader_changes_per_batch),
        )
        return least

    def _length(self) -> float:
        """Of the next batch, in bytes."""
        waiting = self.waiting
        most = max(waiting.bytes)
        lasts, even = waiting.longest[waiting.largest], most / self._batches()
        if even > lasts:  # then what the end with most bytes left can fill
            lasts, filled = even, 0.0
            for load in islice(waiting.of_end(waiting.bytes.index(most)), self.settings.copies_per_broker):
                filled += load
                if filled >= even:
                    lasts = filled
                    break
        return lasts * _ROUNDING

    def next_batch(self) -> list[int]:
        """The partitions of the next batch. They wait no longer."""
        lasts, waiting = self._length(), self.waiting
        batch = _Batch(self.settings, self.sizes, lasts, len(waiting.bytes))
        self._put(waiting.largest, batch)
        looked_at = _LOOKED_AT * self.settings.partitions_per_batch
        if lasts <= self.long:
            soon = math.ceil(self.early_share * min(self.settings.partitions_per_batch, waiting.count + 1))
            for partition in self.early[:looked_at]:
                if soon == 0 or batch.is_full:
                    break
                soon -= waiting.is_there[partition] and self._put(partition, batch)
            self.early[:looked_at] = [one for one in self.early[:looked_at] if waiting.is_there[one]]
        for partition in waiting.from_largest(looked_at):
            if batch.is_full or waiting.longest[partition] <= _NEARLY_FILLS * lasts:
                break
            if not self.is_early[partition]:
                self._put(partition, batch)
        self._fill(batch)
        return batch.partitions

    def _put(self, partition: int, batch: _Batch) -> bool:
        """Puts the partition into the batch if there is room. Returns whether it did."""
        ends, leads = self.waiting.ends[partition], self.changes_leader[partition]
        if not batch.takes(partition, self.moves[partition], ends, leads):
            return False
        self.waiting.remove(partition)
        self.leader_changes -= leads
        return True

    def _fill(self, batch: _Batch) -> None:
        """Gives the end with most bytes left its largest partition that fits, until the batch is full."""
        left, waiting = self.waiting.bytes, self.waiting
        heap = [(-much, end) for end, much in enumerate(left) if much > 0]
        heapq.heapify(heap)
        many = max(left) / 2
        place, refused = list(waiting.begins), [0] * len(left)
        while heap and not batch.is_full:
            much, end = heap[0]
            if -much > left[end]:
                heapq.heapreplace(heap, (-left[end], end))
                continue
            tries, found = _TRIES if -much > many else _FEW_TRIES, False
            at = waiting.fitting(end, batch.room[end], place[end]) if batch.places[end] else waiting.begins[end + 1]
            while refused[end] < tries and not found:
                at = waiting.at_or_after(at)
                if at >= waiting.begins[end + 1]:
                    break
                partition, at = waiting.listed[at], at + 1
                found = not self.is_early[partition] and self._put(partition, batch)
                refused[end] += not found
            place[end] = at
            if found:
                heapq.heapreplace(heap, (-left[end], end))
            else:
                heapq.heappop(heap)


class _Batch:
    """One batch while it is filled: the bytes and copies that each end has left."""

    def __init__(self, settings: Settings, sizes: Rewrites, lasts: float, ends: int) -> None:
        self.settings = settings
        self.partitions: list[int] = []
        self.room, self.places = [lasts] * ends, [settings.copies_per_broker] * ends
        self._work = OneBatch(sizes)
        self._leader_changes, self._refused = 0, 0

    @property
    def is_full(self) -> bool:
        return len(self.partitions) >= self.settings.partitions_per_batch or self._refused >= _REFUSED

    def takes(self, partition: int, move: int, ends: Sequence[tuple[int, float, int]], leads: bool) -> bool:
        """Whether the batch takes the partition, whose ends need these bytes and copies. If so, it is in."""
        if leads and self._leader_changes >= self.settings.leader_changes_per_batch:
            return False
        for end, load, copies in ends:
            if self.room[end] < load or self.places[end] < copies:
                return False
        if not self._work.added(move):
            self._refused += 1
            return False
        for end, load, copies in ends:
            self.room[end] -= load
            self.places[end] -= copies
        self._leader_changes += leads
        self.partitions.append(partition)
        return True


# Makes full batches shorter: partitions change batches, and no other batch lasts longer.
#
# The rule: the busiest end of a batch gives one of its partitions to another batch. Or it exchanges the partition for
# a smaller one of the same end there. All ends of both partitions must have room in the other batch without making it
# longer, and stay below the length of this batch. So the sum of all lengths only falls. Each batch stays within its
# limits, and no partition comes later than its rank asks. The shortest batch comes first. The work ends when nothing
# improves, or when the steps are used up.


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
