"""How far lists are from what the job asks for, with their leaders and elections."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.describe.planned_elections import ending
from kafka_rebalance.planning.describe.shortfall import Shortfall, held_to_the_job, shortfall
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.problem.loads import all_loads
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.frame import FoundLists


def reached(problem: Problem, found: FoundLists) -> Shortfall:
    """The shortfall of the lists that a search found, as `described_candidate` tells it."""
    end = ending(problem, found.replicas, searched=found.goal.searched, elects=found.goal.elects)
    leaders = end.leaders(problem)
    asked = held_to_the_job(problem, np.hstack([found.targets * found.scale, found.leader_targets]), found.scale)
    loads = all_loads(problem, end.replicas, leaders)
    return shortfall(problem, asked, end.replicas, leaders, loads, violations(found.rule, end.replicas))
