"""The replicas that a plan leaves on brokers to be emptied."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.documents.proposals.candidate_figures import Reason, StaysBehind
from kafka_rebalance.model.settings import LEADERS_ALONE
from kafka_rebalance.planning.problem.arrays import Ints, Problem

TOPICS_NAMED = 5


def stays_behind(problem: Problem, replicas: Ints, *, moves_replicas: bool) -> tuple[StaysBehind, ...]:
    """The replicas by broker and reason; empty for jobs that empty no broker. `replicas` are the lists after."""
    if problem.settings.job in LEADERS_ALONE:
        return ()
    selected = np.array([problem.settings.selects(topic) for topic in problem.topics], dtype=bool)[problem.topic]
    last = Reason.NOT_MOVED if moves_replicas else Reason.ONLY_REORDERED
    reasons = np.select(
        [~selected, ~problem.movable, problem.pinned],
        [Reason.NOT_SELECTED.value, Reason.INTERNAL.value, Reason.PINNED.value],
        last.value,
    )
    found = []
    for broker in np.flatnonzero(problem.leaving):
        held = (replicas == broker).any(axis=1)
        for reason in Reason:
            rows = np.flatnonzero(held & (reasons == reason.value))
            if len(rows):
                topics = sorted({problem.topics[number] for number in np.unique(problem.topic[rows])})
                size = int(problem.size_bytes[rows].sum())
                named = tuple(topics[:TOPICS_NAMED])
                found.append(StaysBehind(int(problem.brokers[broker]), reason, len(rows), size, named, len(topics)))
    return tuple(found)
