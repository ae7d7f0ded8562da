"""Lists that a plan makes shorter, against min.insync.replicas of their topics (0: unknown, so there is no limit).

With fewer replicas than min.insync.replicas, a partition takes no record of a producer with acks=all, even if all its
brokers are up (Partition.appendRecordsToLeader: NotEnoughReplicasException). A list that is already too short may stay
so or grow. Such a plan takes nothing away, and the worst case names the list.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, replication

_TOPICS_NAMED = 5


def cut_below(problem: Problem, counts: Ints) -> Bools:
    """[partition row] Lists that become shorter than min.insync.replicas. `counts` are replicas in the end."""
    below: Bools = (counts < replication(problem.replicas)) & (counts < problem.min_insync)
    return below


def topics_and_least(problem: Problem, rows: Bools) -> str:
    """The topics of these rows with their min.insync.replicas: `audit (3), orders (2) and 4 more topics`."""
    least = {int(topic): int(problem.min_insync[rows & (problem.topic == topic)].max()) for topic in _of(problem, rows)}
    named = [f"{problem.topics[topic]} ({most})" for topic, most in list(least.items())[:_TOPICS_NAMED]]
    return _listed(named, len(least))


def warnings(problem: Problem, counts: Ints) -> list[str]:
    """Shorter lists with exactly min.insync.replicas, as a clause of a candidate's note."""
    rows: Bools = (counts < replication(problem.replicas)) & (counts == problem.min_insync)
    if not rows.any():
        return []
    topics = _of(problem, rows)
    names = _listed([problem.topics[topic] for topic in topics[:_TOPICS_NAMED]], len(topics))
    return [
        f"{int(rows.sum())} partitions of {names} would have exactly as many replicas as min.insync.replicas asks for: "
        "the failure of any one of their brokers stops producers with acks=all"
    ]


def _of(problem: Problem, rows: Bools) -> list[int]:
    topics: list[int] = np.unique(problem.topic[rows]).tolist()
    return topics


def _listed(names: list[str], count: int) -> str:
    return ", ".join(names) + (f" and {count - len(names)} more topics" if count > len(names) else "")
