"""Which replicas of lists a plan may elect: `model.replica_list` for all lists of a problem."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.model.replica_list import MayNotLead, may_not_lead
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, lagging


def may_be_elected(problem: Problem, replicas: Ints) -> Bools:
    """[row, position] Whether this replica may be the first of a changed list: it leads today, or the rule lets it."""
    leads = replicas == problem.leader[:, None]
    may: Bools = (replicas >= 0) & (leads | (~problem.closed[np.maximum(replicas, 0)] & ~lagging(problem, replicas)))
    return may


def wrongly_elected(problem: Problem, replicas: Ints, rows: Bools) -> dict[int, MayNotLead]:
    """{row: why} Those of the `rows` whose first replica must not be elected."""
    closed = set(np.flatnonzero(problem.closed).tolist())
    found = {}
    for row in np.flatnonzero(rows & (replicas[:, 0] != problem.leader)).tolist():
        before = problem.replicas[row]
        isr = before[problem.in_sync[row]].tolist()
        why = may_not_lead(before[before >= 0].tolist(), replicas[row].tolist(), int(problem.leader[row]), isr, closed)
        if why is not None:
            found[row] = why
    return found
