"""The lists of moves as arrays, before and after: figures of all moves at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, added, widened


@dataclass(frozen=True, slots=True, eq=False)
class MovedLists:
    """Both lists of each move, equally wide. Brokers are indices, -1 past the end."""

    before: Ints  # [move, position]
    after: Ints  # [move, position]
    source: Ints  # [move] the sender, as `Move.source`
    size_bytes: Ints  # [move]

    @property
    def new(self) -> Bools:
        """[move, position] Which replicas of the lists after are copied."""
        return added(self.after, self.before)

    @property
    def gone(self) -> Bools:
        """[move, position] Which replicas of the lists before are removed."""
        return added(self.before, self.after)

    @property
    def copied_bytes(self) -> Ints:
        """[move] As `Move.bytes_to_copy`."""
        copied: Ints = self.new.sum(axis=1) * self.size_bytes
        return copied

    @property
    def changes_leader(self) -> Bools:
        """[move] As `Move.changes_leader`."""
        changes: Bools = self.after[:, 0] != self.source
        return changes

    @property
    def is_election(self) -> Bools:
        """[move] As `Move.is_election`."""
        elects: Bools = (self.before == self.after).all(axis=1)
        return elects


def moved_lists(problem: Problem, moves: Sequence[Move]) -> MovedLists:
    before, after = (_indices(problem, lists) for lists in ([m.before for m in moves], [m.after for m in moves]))
    width = max(before.shape[1], after.shape[1])
    before, after = widened(before, width), widened(after, width)
    leader = _indices(problem, [(move.leader,) if move.leader >= 0 else () for move in moves])[:, :1]
    leads = (leader >= 0) & (before == leader)
    source = np.where(leads.any(axis=1), leader[:, 0], before[:, 0])
    return MovedLists(before, after, source, np.array([move.size_bytes for move in moves], dtype=np.int64))


def _indices(problem: Problem, lists: Sequence[Sequence[int]]) -> Ints:
    """[list, position] The indices of these broker ids, -1 past the end. Every id is one of the problem's."""
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    ids = np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum()))
    found = np.full((len(lists), max(1, int(counts.max(initial=0)))), -1, dtype=np.int64)
    found[np.arange(found.shape[1]) < counts[:, None]] = np.searchsorted(problem.brokers, ids)
    return found
