"""How a plan differs from the one that was proposed last."""

from __future__ import annotations

from kafka_rebalance.documents.candidate_figures import SinceLast
from kafka_rebalance.planning.describe.planned_elections import Ending
from kafka_rebalance.planning.problem.arrays import Ints, changed_lists


def since_last(proposed: Ints, end: Ending) -> SinceLast:
    """Counts the plan's lists beside those proposed, [partition row, position]."""
    was, now = (proposed >= 0).any(axis=1), end.changed
    differs = changed_lists(proposed, end.replicas)
    both = was & now
    counts = (both & ~differs, both & differs, now & ~was, was & ~now)
    return SinceLast(*(int(some.sum()) for some in counts))
