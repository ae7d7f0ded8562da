"""How even a cluster ends when not all of a plan is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.evenness.scores import Score, scores
from kafka_rebalance.planning.problem.arrays import Problem, all_loads, loads_now, shares, widened


def scores_with(problem: Problem, lists: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Score]:
    """The scores once these partitions have these replicas and preferred leaders; every other one as in the snapshot.

    A partition or broker that the snapshot does not have has no load that could be counted: such a list is left as it
    was there.
    """
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    known = {tp: replicas for tp, replicas in lists.items() if replicas and all(broker in index for broker in replicas)}
    if not known:
        return scores(problem, loads_now(problem), shares(problem))
    after = widened(problem.replicas, max(map(len, known.values()))).copy()
    leaders = problem.leader.copy()
    topics = {topic: number for number, topic in enumerate(problem.topics)}
    for tp, replicas in known.items():
        if tp.topic not in topics:
            continue
        rows = np.flatnonzero((problem.topic == topics[tp.topic]) & (problem.partition == tp.partition))
        after[rows] = -1
        after[rows, : len(replicas)] = [index[broker] for broker in replicas]
        leaders[rows] = index[replicas[0]]
    return scores(problem, all_loads(problem, after, leaders), shares(problem))
