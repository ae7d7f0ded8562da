"""The preferred leaders that a plan elects, and the leaders after it.

The preferred leader is the first replica of a list. The run elects it for every partition of the plan. So the plan may
contain a partition whose list stays the same, if another broker leads it now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, led_first, widened


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """The lists after and their leaders; all are [partition row]."""

    replicas: Ints  # [partition row, position]
    changed: Bools  # the list changes
    elected: Bools  # the list stays the same, and the run elects its first replica
    beyond: int  # elections above `max_leader_changes`
    impossible: int  # partitions whose first replica is not in sync now, or must not lead by `brokers_out`

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
    `elects`: the plan also elects preferred leaders of lists that stay the same.
    """
    most = problem.settings.max_leader_changes
    changed = _changed(problem, replicas, searched)
    if searched and most is not None:
        replicas = _sparing(problem, replicas, changed, most)
        changed = _changed(problem, replicas, searched)
    first = problem.replicas[:, 0]
    wanting = problem.movable & ~changed & (problem.leader != first) & elects
    able = wanting & problem.evened[first] & problem.in_sync[:, 0] & ~problem.closed[problem.leader]
    room = len(able) if most is None else max(0, most - int((changed & (replicas[:, 0] != problem.leader)).sum()))
    elected = able & (np.cumsum(able) <= room)
    return Ending(replicas, changed, elected, int((able & ~elected).sum()), int((wanting & ~able).sum()))


def _changed(problem: Problem, replicas: Ints, searched: bool) -> Bools:
    width = max(replicas.shape[1], problem.replicas.shape[1])
    now, was = (widened(lists, width) for lists in (replicas, problem.replicas))
    same: Bools = (now == was).all(axis=1)
    if searched:
        same |= (np.sort(now, axis=1) == np.sort(was, axis=1)).all(axis=1) & (now[:, 0] == was[:, 0])
    return ~same


def _sparing(problem: Problem, replicas: Ints, changed: Bools, most: int) -> Ints:
    """The lists with at most `most` new leaders, as far as possible.

    The search counts changes of the first replica only. So in some lists that keep their first replica, today's leader
    now comes first.
    """
    changes = changed & (replicas[:, 0] != problem.leader)
    excess = int(changes.sum()) - most
    if excess <= 0:
        return replicas
    kept = (replicas == problem.leader[:, None]).any(axis=1)
    spared = np.flatnonzero(changes & kept & (replicas[:, 0] == problem.replicas[:, 0]))[:excess]
    result = replicas.copy()
    result[spared] = led_first(replicas[spared], problem.leader[spared])
    return result
