"""Whether the plan near the last proposal may take the place of the one that was searched afresh.

A person who approves again reads a small difference faster than a new plan. But it must not cost evenness or bytes.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.problem.arrays import Ints, Problem, changed_lists
from kafka_rebalance.planning.problem.loads import leader_loads, leader_weights
from kafka_rebalance.planning.rules.crowding import crowded_replicas
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.frame import FoundLists

# Times the bytes, and times the distance to the bands, of the fresh search. For less than that, other lists are not
# worth their change; `cheaper_lists` has the same measure.
HARDLY_MORE = 1.005


def is_nearer(proposed: Ints, near: FoundLists, fresh: FoundLists) -> bool:
    """Whether more of the lists are as proposed last."""
    alike = [int((~changed_lists(proposed, found.replicas)).sum()) for found in (near, fresh)]
    return alike[0] > alike[1]


def is_as_good(problem: Problem, near: FoundLists, fresh: FoundLists) -> bool:
    """Whether the lists near the last proposal are as even as the fresh ones, copy hardly more, and break no rule."""
    if near.budget.bytes > HARDLY_MORE * fresh.budget.bytes:
        return False
    # These two are squared.
    if near.off > HARDLY_MORE**2 * fresh.off or leaders_off(problem, near) > HARDLY_MORE**2 * leaders_off(
        problem, fresh
    ):
        return False
    broken = [int(violations(found.rule, found.replicas).sum()) for found in (near, fresh)]
    before, *crowded = (crowded_replicas(problem, those) for those in (problem.replicas, near.replicas, fresh.replicas))
    return broken[0] <= broken[1] and crowded[0] <= max(before, crowded[1])


def leaders_off(problem: Problem, found: FoundLists) -> float:
    """The squared distance of the leader metrics to the tolerance, as shares of each broker's target."""
    held = leader_loads(found.replicas[:, 0], leader_weights(problem, found.replicas), len(problem.brokers))
    relative = np.divide(held, found.leader_targets, out=np.ones_like(held), where=found.leader_targets > 0)
    beyond = relative - 1 if found.goal.one_sided else np.abs(relative - 1)
    outside = np.maximum(0, beyond - found.goal.tolerance)[problem.evened]
    return round(float((outside * outside).sum()), 8)
