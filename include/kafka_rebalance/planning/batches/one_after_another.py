"""Fills one batch after the other: the broker with most bytes left gets its largest partition that fits, then the next.

A batch lasts as long as the largest partition that waits, because another batch would last as long. Long batches have
too few places to keep every broker busy. What they do not bring to a broker, that broker needs later, on its own time.
So it counts what each broker has left after them, and the one with most left is always next.

- Partitions that nearly fill a batch come before that. If one stays behind, the next batch is as long again.
- Early partitions wait for the first batch that is not long, because they are small, and the places of a long one are
  scarce. The batches with early partitions run first (`batch_order`).
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

import numpy as np

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches.batch_order import ORDINARY
from kafka_rebalance.planning.batches.controller_bytes import OneBatch, Rewrites, partitions_per_batch
from kafka_rebalance.planning.batches.transfers import Transfers
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints

_NEARLY_FILLS = 0.2  # of a batch: longer partitions come before those of the neediest broker
_LOOKED_AT = 2  # times the places of a batch: so many of these partitions, and of early ones, to look at
_EARLY = 1 / 8  # share of early partitions in a batch
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
    filling = _Filling(
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


class _Filling:
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
