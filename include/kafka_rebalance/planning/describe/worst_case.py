"""The effect of losing one broker or one rack while a plan runs, and afterwards.

Between two batches, each partition that has moved is in sync on its new replicas. While a batch runs, its partitions
are in sync on the old replicas. New replicas count after the batch: the controller removes old replicas only when all
new ones are in the ISR (KafkaController.onPartitionReassignment). So the state in a batch is the state before it.
Partitions that do not move keep the ISR of the snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.documents.candidate_figures import Course, Loss, WorstCase
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, replication, widened

TOPICS_NAMED = 3


def worst_case(problem: Problem, replicas: Ints, batch: Ints) -> WorstCase:
    """The worst single losses. `replicas` are the lists after; `batch` is [partition row], 0: it does not move."""
    least, moved, lost_anyway = problem.min_insync, batch > 0, len(problem.brokers)
    known = least > 0

    def exposed(lists: Ints, rows: Bools) -> Ints:
        """[row, position] Brokers whose loss the partition does not survive, or one `lost_anyway`; -1: none."""
        counts = replication(lists)
        found = np.where((rows & (counts == least))[:, None], lists, -1)
        found[rows & (counts < least), 0] = lost_anyway
        return found

    in_sync_before, after = np.where(problem.in_sync, problem.replicas, -1), np.where(moved[:, None], replicas, -1)
    by_broker = exposed(in_sync_before, known), exposed(after, known & moved)
    under_before, under_after = (lists[:, 0] == lost_anyway for lists in by_broker)
    racks = sorted({rack for rack, here in zip(problem.racks, problem.registered, strict=True) if here and rack})
    number = {rack: index for index, rack in enumerate(racks)}
    rack_of = np.array([number.get(rack, -1) if rack else -1 for rack in problem.racks], dtype=np.int64)
    by_rack = _only_rack(rack_of, in_sync_before), _only_rack(rack_of, after)
    return WorstCase(
        _worst(problem, *by_broker, problem.brokers.tolist(), batch) if known.any() else None,
        _worst(problem, *by_rack, racks, batch) if len(racks) > 1 else None,
        int((~known).sum()),
        int(under_before.sum()),
        int(np.where(moved, under_after, under_before).sum()),
    )


def _only_rack(rack_of: Ints, lists: Ints) -> Ints:
    """[row, 1] The rack of all replicas of a list; -1: there are several racks, or it is unknown."""
    racks = np.where(lists >= 0, rack_of[lists], -2)  # -2: past the end
    first = racks[np.arange(len(racks)), (lists >= 0).argmax(axis=1)] if racks.size else np.empty(0, dtype=np.int64)
    same = ((racks == first[:, None]) | (racks == -2)).all(axis=1) & (first >= 0)
    return np.where(same, first, -1)[:, None]


def _worst(problem: Problem, before: Ints, after: Ints, names: Sequence[int | str], batch: Ints) -> Course:
    """`before` and `after` are [row, position], the losses that the partition does not survive.

    They are indices of `names`, the brokers or racks; -1: none. The number of names means that it is lost with any of
    them, so that fewer replicas never look better. State k is after k batches, while batch k + 1 runs.
    """
    width = max(before.shape[1], after.shape[1])
    before, after = widened(before, width), widened(after, width)
    states, columns, moved = int(batch.max(initial=0)) + 1, len(names) + 1, np.flatnonzero(batch > 0)
    change = np.zeros(states * columns, dtype=np.int64)
    change[:columns] = np.bincount(before[before >= 0], minlength=columns)
    for lists, sign in ((before[moved], -1), (after[moved], 1)):
        rows, positions = np.nonzero(lists >= 0)
        cells = batch[moved][rows] * columns + lists[rows, positions]
        change += sign * np.bincount(cells, minlength=len(change))
    hit = np.cumsum(change.reshape(states, columns), axis=0)
    hit = hit[:, :-1] + hit[:, -1:]
    most = hit.max(axis=1)

    def loss(state: int, number: int) -> Loss:
        lost = int(hit[state].argmax())
        yet = (batch > state) | (batch == 0)
        held = np.where(yet[:, None], before, after)
        rows = np.flatnonzero(((held == lost) | (held == len(names))).any(axis=1))
        topics, counts = np.unique(problem.topic[rows], return_counts=True)
        first = sorted(range(len(topics)), key=lambda at: (-counts[at], topics[at]))[:TOPICS_NAMED]
        named = tuple(problem.topics[topics[at]] for at in first)
        return Loss(number, names[lost], int(most[state]), named, len(topics))

    worst = int(most[:-1].argmax()) if states > 1 else 0
    return Course(loss(0, 0), loss(worst, worst + 1) if states > 1 else None, loss(states - 1, 0))
