"""Which preferred leaders a plan has elected, and who leads in the end.

A preferred leader is the first of a list. The run elects it for every partition of the plan, so a partition whose list
stays as it is belongs to the plan where another broker leads it now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, led_first, widened


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """The lists in the end and their leaders; all [partition row]."""

    replicas: Ints  # [partition row, position]
    changed: Bools  # the list is another one
    elected: Bools  # the list stays, and its first replica is elected
    beyond: int  # elections that `max_leader_changes` leaves no room for
    impossible: int  # partitions whose first replica cannot be elected now, or by `brokers_out` is not to be

    def leaders(self, problem: Problem) -> Ints:
        """Who leads in the end: of what is in the plan the first replica, of the rest who leads now."""
        leaders: Ints = np.where(self.changed | self.elected, self.replicas[:, 0], problem.leader)
        return leaders

    def leader_changes(self, problem: Problem) -> int:
        """Partitions that another broker leads in the end."""
        return int((self.leaders(problem) != problem.leader).sum())


def ending(problem: Problem, replicas: Ints, *, searched: bool, elects: bool) -> Ending:
    """The end of a plan with these lists. Of what was searched, a list with the same replicas and the same first one
    stays as it is, whatever its order. `elects`: also preferred leaders of lists that stay.
    """
    most = problem.settings.max_leader_changes
    changed = _changed(problem, replicas, searched)
    if searched and most is not None:
        replicas = _sparing(problem, replicas, changed, most)
        changed = _changed(problem, replicas, searched)
    first = problem.replicas[:, 0]
    wanting = problem.movable & ~changed & (problem.leader != first) & elects
    able = wanting & problem.receivers[first] & problem.in_sync[:, 0] & ~problem.closed[problem.leader]
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
    """Where more than `most` get another leader: who leads now comes first in lists whose first replica was to stay,
    as the search counts changes of the first replica.
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
