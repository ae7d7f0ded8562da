"""The effect of losing one broker or one rack while a plan runs, and afterwards.

Between two batches, each partition that has moved is in sync on its new replicas. While a batch runs, its partitions
are in sync on the old replicas. New replicas count after the batch: the controller removes old replicas only when all
new ones are in the ISR (KafkaController.onPartitionReassignment). So the state in a batch is the state before it.
Partitions that do not move keep the ISR of the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.documents.proposals.candidate_figures import Course, Loss, WorstCase
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, replication, widened

TOPICS_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Exposure:
    """The losses that each partition does not survive: [row, position] index of a broker or rack; -1: none.

    `always` marks partitions that are lost with any broker or rack, so that fewer replicas never look better.
    """

    before: Ints
    after: Ints
    always_before: Bools
    always_after: Bools


def worst_case(problem: Problem, replicas: Ints, batch: Ints) -> WorstCase:
    """The worst single losses. `replicas` are the lists after; `batch` is [partition row], 0: it does not move."""
    least = problem.min_insync
    known = least > 0
    moved = batch > 0
    after = np.where(moved[:, None], replicas, -1)
    in_sync_before = np.where(problem.in_sync, problem.replicas, -1)
    counts_before, counts_after = replication(in_sync_before), replication(after)
    nothing = np.zeros(len(least), dtype=bool)
    under_before, under_after = known & (counts_before < least), known & moved & (counts_after < least)
    by_broker = _Exposure(
        _where(known & (counts_before == least), in_sync_before),
        _where(known & (counts_after == least), after),
        under_before,
        under_after,
    )
    racks = sorted({rack for rack, here in zip(problem.racks, problem.registered, strict=True) if here and rack})
    number = {rack: index for index, rack in enumerate(racks)}
    rack_of = np.array([number.get(rack, -1) if rack else -1 for rack in problem.racks], dtype=np.int64)
    by_rack = _Exposure(_only_rack(rack_of, in_sync_before), _only_rack(rack_of, after), nothing, nothing)
    brokers: list[int | str] = list(problem.brokers.tolist())
    return WorstCase(
        _worst(problem, by_broker, brokers, batch) if known.any() else None,
        _worst(problem, by_rack, list(racks), batch) if len(racks) > 1 else None,
        int((~known).sum()),
        int(under_before.sum()),
        int(np.where(moved, under_after, under_before).sum()),
    )


def _where(rows: Bools, lists: Ints) -> Ints:
    return np.where(rows[:, None], lists, -1)


def _only_rack(rack_of: Ints, lists: Ints) -> Ints:
    """[row, 1] The rack of all replicas of a list; -1: there are several racks, or it is unknown."""
    racks = np.where(lists >= 0, rack_of[lists], -2)  # -2: past the end
    first = racks[np.arange(len(racks)), (lists >= 0).argmax(axis=1)] if racks.size else np.empty(0, dtype=np.int64)
    same = ((racks == first[:, None]) | (racks == -2)).all(axis=1) & (first >= 0)
    return np.where(same, first, -1)[:, None]


def _worst(problem: Problem, exposure: _Exposure, names: list[int | str], batch: Ints) -> Course:
    """`names` are the brokers or racks. State k is after k batches, while batch k + 1 runs."""
    states, moved = int(batch.max(initial=0)) + 1, np.flatnonzero(batch > 0)
    change = np.zeros(states * len(names), dtype=np.int64)
    change[: len(names)] = np.bincount(exposure.before[exposure.before >= 0], minlength=len(names))
    for lists, sign in ((exposure.before[moved], -1), (exposure.after[moved], 1)):
        rows, columns = np.nonzero(lists >= 0)
        cells = batch[moved][rows] * len(names) + lists[rows, columns]
        change += sign * np.bincount(cells, minlength=len(change))
    always = np.zeros(states, dtype=np.int64)
    always[0] = int(exposure.always_before.sum())
    np.subtract.at(always, batch[moved], exposure.always_before[moved].astype(np.int64))
    np.add.at(always, batch[moved], exposure.always_after[moved].astype(np.int64))
    hit = np.cumsum(change.reshape(states, len(names)) + always[:, None], axis=0)
    most = hit.max(axis=1)
    width = max(exposure.before.shape[1], exposure.after.shape[1])
    before, after = widened(exposure.before, width), widened(exposure.after, width)

    def loss(state: int, number: int) -> Loss:
        lost = int(hit[state].argmax())
        yet = (batch > state) | (batch == 0)
        held = np.where(yet[:, None], before, after)
        always_lost = np.where(yet, exposure.always_before, exposure.always_after)
        rows = np.flatnonzero((held == lost).any(axis=1) | always_lost)
        topics, counts = np.unique(problem.topic[rows], return_counts=True)
        first = sorted(range(len(topics)), key=lambda at: (-counts[at], topics[at]))[:TOPICS_NAMED]
        named = tuple(problem.topics[topics[at]] for at in first)
        return Loss(number, names[lost], int(most[state]), named, len(topics))

    worst = int(most[:-1].argmax()) if states > 1 else 0
    return Course(
        loss(0, 0),
        loss(worst, worst + 1) if states > 1 else None,
        loss(states - 1, 0),
        int((most[:-1] > most[0]).sum()),
    )
