"""The preferred leaders that a plan elects, and the leaders after it.

The preferred leader is the first replica of a list. The run elects it for every partition of the plan. So the plan may
contain a partition whose list stays the same, if another broker leads it now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, widened
from kafka_rebalance.planning.rules.who_may_lead import wrongly_elected


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """The lists after and their leaders; all are [partition row]."""

    replicas: Ints  # [partition row, position]
    changed: Bools  # the list changes
    elected: Bools  # the list stays the same, and the run elects its first replica
    beyond: int  # elections above `max_leader_changes`
    impossible: int  # partitions whose first replica is not in sync now, or must not lead by `brokers_out`
    left_out: int = 0  # lists that stay as they are, because no replica of the new list may be elected

    def lists(self, problem: Problem) -> Ints:
        """The lists after the plan: one that stays keeps its order."""
        width = max(self.replicas.shape[1], problem.replicas.shape[1])
        now, was = (widened(lists, width) for lists in (self.replicas, problem.replicas))
        return np.where(self.changed[:, None], now, was)

    def leaders(self, problem: Problem) -> Ints:
        """The first replica of each partition in the plan, and today's leader of the others."""
        leaders: Ints = np.where(self.changed | self.elected, self.replicas[:, 0], problem.leader)
        return leaders

    def leader_changes(self, problem: Problem) -> int:
        """Partitions that another broker leads after the plan."""
        return int((self.leaders(problem) != problem.leader).sum())


def ending(problem: Problem, replicas: Ints, *, searched: bool, elects: bool) -> Ending:
    """The end of a plan with these lists.

    `searched`: a list with the same replicas and the same first one does not change, whatever the order of the others.
    Nor does one of which only today's leader would come first, if leader changes are limited, or one whose first
    replica must not be elected. `elects`: the plan also elects preferred leaders of lists that stay the same.
    """
    most, left_out, led_on = problem.settings.max_leader_changes, 0, np.zeros(len(replicas), dtype=bool)
    changed = _changed(problem, replicas, searched)
    if searched:
        wrong = list(wrongly_elected(problem, replicas, changed))
        left_out, stays = len(wrong), np.zeros(len(replicas), dtype=bool)
        stays[wrong] = True
        if most is not None:
            # The search has decided who leads these: today's leader goes on, and nobody is elected.
            led_on = changed & (replicas[:, 0] == problem.leader) & _same_replicas(problem, replicas)
            stays |= led_on
        width = max(replicas.shape[1], problem.replicas.shape[1])
        now, was = (widened(lists, width) for lists in (replicas, problem.replicas))
        replicas, changed = np.where(stays[:, None], was, now), changed & ~stays
    first = problem.replicas[:, 0]
    wanting = problem.movable & ~changed & ~led_on & (problem.leader != first) & elects
    able = wanting & problem.evened[first] & problem.in_sync[:, 0] & ~problem.closed[problem.leader]
    room = len(able) if most is None else max(0, most - int((changed & (replicas[:, 0] != problem.leader)).sum()))
    elected = able & (np.cumsum(able) <= room)
    return Ending(replicas, changed, elected, int((able & ~elected).sum()), int((wanting & ~able).sum()), left_out)


def _changed(problem: Problem, replicas: Ints, searched: bool) -> Bools:
    width = max(replicas.shape[1], problem.replicas.shape[1])
    now, was = (widened(lists, width) for lists in (replicas, problem.replicas))
    same: Bools = (now == was).all(axis=1)
    if searched:
        same |= _same_replicas(problem, replicas) & (now[:, 0] == was[:, 0])
    return ~same


def _same_replicas(problem: Problem, replicas: Ints) -> Bools:
    width = max(replicas.shape[1], problem.replicas.shape[1])
    now, was = (np.sort(widened(lists, width), axis=1) for lists in (replicas, problem.replicas))
    same: Bools = (now == was).all(axis=1)
    return same
