"""How balanced an assignment is, and how balanced a cluster ends when not all of a plan is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kafka_rebalance.documents.candidate_figures import Score
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Problem, widened
from kafka_rebalance.planning.problem.loads import METRICS, all_loads, known_metrics, loads_now, shares, totals


def ratios(problem: Problem, loads: Floats, shares: Floats) -> Floats:
    """[broker, metric] Load over the share of the whole that the broker should carry; 1 where there is no load.

    With pools, the whole is what all brokers of its pool carry.
    """
    mean = shares * totals(problem, loads)
    relative: Floats = np.divide(loads, mean, out=np.where(loads > 0, np.inf, 1.0), where=mean > 0)
    return relative


def scores(problem: Problem, loads: Floats, shares: Floats) -> dict[str, Score]:
    """The scores of every metric that is known, in the order of METRICS."""
    known = known_metrics(problem)
    relative = ratios(problem, loads, shares)[problem.staying]
    return {
        metric: Score(
            round(float(relative[:, k].max()), 6),
            round(float(relative[:, k].min()), 6),
            round(_spread(relative[:, k]), 6),
        )
        for k, metric in enumerate(METRICS)
        if metric in known
    }


def _spread(relative: Floats) -> float:
    """The standard deviation; infinite if a broker has a load and no share, which alone would give no number."""
    return float(relative.std()) if np.isfinite(relative).all() else np.inf


def scores_now(problem: Problem) -> dict[str, Score]:
    """The scores of the cluster as it is."""
    return scores(problem, loads_now(problem), shares(problem))


def scores_with(problem: Problem, lists: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Score]:
    """The scores once these partitions have these replicas and preferred leaders; every other one as in the snapshot.

    A partition or broker that the snapshot does not have has no load that could be counted: such a list is left as it
    was there.
    """
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    known = {tp: replicas for tp, replicas in lists.items() if replicas and all(broker in index for broker in replicas)}
    if not known:
        return scores_now(problem)
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


def outside_band(
    loads: Floats, targets: Floats, heaviest: Floats, own: Floats, tolerance: float, evened: Bools
) -> Bools:
    """[broker, resource] Whether a load lies outside the tolerance, and by more than moving one replica could mend.

    `heaviest` is [resource], the heaviest single replica or leader: with few or huge partitions no plan is finer.
    `own` is [broker, resource], the heaviest that the broker itself holds. Without it the broker may be below its
    target, however far above it is now: so it is with fewer partitions than brokers, and with giants.
    """
    slack = np.maximum(targets * tolerance, np.minimum(heaviest, targets.max(axis=0, initial=0.0)))
    above = np.maximum(slack, own)
    # The search stops a hair outside: 1/10,000 of the target is no imbalance.
    apart, fine = loads - targets, 1e-4 * targets
    off: Bools = (-apart > slack + fine) | (apart > above + fine)
    return off & evened[:, None]
