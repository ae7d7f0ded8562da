"""Chains of new leaders: a broker passes a leader on, and the one that takes it passes on another.

Lists say who may lead what, so a broker with too many leaders may share no list with one that has too few. Broker 1
then gives a leader to broker 2, which gives one to broker 3. Only the ends of a chain lead more or fewer partitions: it
is an augmenting path (Ford and Fulkerson, 1956), here the shortest one over the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, distance
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints

_ENDS = 20  # of chains of one broker to look at, those first that gain most
_TRIED = 100  # partitions to choose from for one step


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Partitions whose replica at the position leads in the end; the leader of each gives to that of the next."""

    rows: Ints
    positions: Ints
    brokers: Ints  # one more than rows: who gives first, who passes on, who takes last

    def changes(self, weights: Floats) -> Floats:
        """[broker of the chain, resource] By how much its load changes."""
        moved, change = weights[self.rows], np.zeros((len(self.brokers), weights.shape[1]))
        change[:-1] -= moved
        change[1:] += moved
        return change


@dataclass(slots=True, eq=False)
class Leading:
    """Who may pass which leaders to whom, as it was when this was made.

    Lists that have changed their order since are left out, unless the same brokers could still pass them on.
    """

    lists: Ints  # [partition row, position]
    may_lead: Bools  # [partition row, position]
    may_lose: Bools  # [partition row]
    weights: Floats  # [partition row, resource]
    brokers: int
    _row: Ints = field(init=False)
    _position: Ints = field(init=False)
    _begins: Ints = field(init=False)  # [giver * brokers + taker] where their partitions begin
    _passes: Bools = field(init=False)  # [giver, taker]

    def __post_init__(self) -> None:
        row, position = np.nonzero(self.may_lead[:, 1:] & self.may_lose[:, None])
        pair = self.lists[row, 0] * self.brokers + self.lists[row, position + 1]
        order = np.argsort(pair, kind="stable")
        self._row, self._position = row[order], position[order] + 1
        counts = np.bincount(pair, minlength=self.brokers**2)
        self._begins = np.concatenate([[0], np.cumsum(counts)])
        self._passes = counts.reshape(self.brokers, -1) > 0

    def chains(self, broker: int, loads: Floats, bands: Bands, *, gives: bool) -> Iterator[Chain]:
        """Chains of at least two steps that begin at the broker, or with `gives` False end there.

        Those come first whose ends gain most if a mean leader goes from the first to the last.
        """
        passes = self._passes if gives else self._passes.T
        parent, depth = _nearest(passes, broker)
        ends = np.flatnonzero(depth > 1)
        one = self.weights.mean(axis=0) * (1 if gives else -1)
        gain = _change(loads, bands, ends, one) + _change(loads, bands, np.array([broker]), -one)
        promising = ends[np.argsort(gain, kind="stable")][: min(_ENDS, int((gain < 0).sum()))]
        for end in promising.tolist():
            path = [end]
            while path[-1] != broker:
                path.append(int(parent[path[-1]]))
            chain = self._along(path[::-1] if gives else path, loads, bands)
            if chain is not None:
                yield chain

    def _along(self, path: list[int], loads: Floats, bands: Bands) -> Chain | None:
        """The chain over these brokers: each step passes on what leaves its giver nearest to its band."""
        rows: list[int] = []
        positions: list[int] = []
        taken = np.zeros(self.weights.shape[1])
        for giver, taker in pairwise(path):
            pair = giver * self.brokers + taker
            some = np.arange(self._begins[pair], self._begins[pair + 1])
            row, position = self._row[some], self._position[some]
            some = some[(self.lists[row, 0] == giver) & (self.lists[row, position] == taker)][:_TRIED]
            if not len(some):
                return None
            weights = self.weights[self._row[some]]
            off = distance(loads[giver] + taken - weights, bands.low[giver], bands.high[giver])
            if taker == path[-1]:
                off += distance(loads[taker] + weights, bands.low[taker], bands.high[taker])
            best = some[int(off.argmin())]
            rows.append(int(self._row[best]))
            positions.append(int(self._position[best]))
            taken = self.weights[rows[-1]]
        return Chain(np.array(rows), np.array(positions), np.array(path))


def _nearest(passes: Bools, start: int) -> tuple[Ints, Ints]:
    """([broker] the one before it on a shortest way from `start`, [broker] the steps of this way; 0: there is none)"""
    parent, depth = np.full(len(passes), -1), np.zeros(len(passes), dtype=np.int64)
    seen, frontier, steps = np.arange(len(passes)) == start, np.array([start]), 0
    while len(frontier):
        steps += 1
        reached = passes[frontier].any(axis=0) & ~seen
        parent[reached] = frontier[passes[np.ix_(frontier, np.flatnonzero(reached))].argmax(axis=0)]
        depth[reached], seen = steps, seen | reached
        frontier = np.flatnonzero(reached)
    return parent, depth


def _change(loads: Floats, bands: Bands, brokers: Ints, more: Floats) -> Floats:
    """[broker] Change of its distance to its band with so much more."""
    now, low, high = loads[brokers], bands.low[brokers], bands.high[brokers]
    change: Floats = distance(now + more, low, high) - distance(now, low, high)
    return change
