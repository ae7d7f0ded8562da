"""The cost of the way back, once a plan is done."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.documents.candidate_figures import WayBack
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.problem.arrays import Ints, Problem, added


def batch_of_rows(problem: Problem, moves: Sequence[Move]) -> Ints:
    """[partition row] The batch in which it moves, from 1; 0 where it does not."""
    number = {name: position for position, name in enumerate(problem.topics)}
    width = 1 + int(problem.partition.max(initial=0))
    keys = problem.topic * width + problem.partition  # ascending, as the problem's rows are
    wanted = [number[move.topic_partition.topic] * width + move.topic_partition.partition for move in moves]
    batch = np.zeros(len(keys), dtype=np.int64)
    batch[np.searchsorted(keys, np.array(wanted, dtype=np.int64))] = [move.batch for move in moves]
    return batch


def way_back(problem: Problem, replicas: Ints, batch: Ints) -> WayBack:
    """The cost to go back after the last batch: bytes to copy, and seconds with the same batches and throttle.

    Kafka deletes old replicas at the end of their batch. So the leader after the plan copies each of them again.
    `batch` is [partition row].
    """
    rows, brokers = np.flatnonzero(batch > 0), len(problem.brokers)
    before, after, number, size = problem.replicas[rows], replicas[rows], batch[rows], problem.size_bytes[rows]
    missing = added(before, after)
    move, position = np.nonzero(missing)
    cells = (1 + int(batch.max(initial=0))) * brokers
    received = np.bincount(number[move] * brokers + before[move, position], size[move], cells)
    sent = np.bincount(number * brokers + after[:, 0], size * missing.sum(axis=1), cells)
    busiest = float(np.maximum(received, sent).reshape(-1, brokers).max(axis=1).sum())
    throttle = problem.settings.throttle_bytes_per_second
    return WayBack(int((size * missing.sum(axis=1)).sum()), round(busiest / throttle, 3) if throttle else None)
