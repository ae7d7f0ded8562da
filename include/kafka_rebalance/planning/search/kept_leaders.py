"""Lists that are mended keep their leaders where another of their replicas may go for the same bytes.

A list that breaks the rack rule has several replicas in one rack, and any of them may leave. If the first one leaves,
the partition gets another leader, which disturbs its clients and saves nothing.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, band, distance
from kafka_rebalance.planning.problem.arrays import Ints, replication
from kafka_rebalance.planning.rules.rack_rule import domains_of, violations
from kafka_rebalance.planning.search.by_solver.kept_rules import placed
from kafka_rebalance.planning.search.frame import Frame
from kafka_rebalance.planning.search.placement import GAIN, Placement


def with_kept_leaders(frame: Frame, lists: Ints) -> Ints:
    """[partition row, position] The lists, in which a follower leaves instead of the first replica where it may.

    The bytes stay the same, no broker gets further from its band, and no topic crowds a broker more.
    """
    before = frame.problem.replicas
    if lists.shape != before.shape or frame.problem.settings.copies_within_racks:
        return lists
    rows = np.flatnonzero(violations(frame.rule, before) & ~(lists == before[:, :1]).any(axis=1))
    if frame.rule.confined is not None:
        rows = rows[~frame.rule.confined[rows]]
    rows = rows[frame.problem.evened[before[rows, 0]]]
    if not len(rows):
        return lists
    placement, bands = placed(frame, lists), band(frame.targets, frame.goal.tolerance)
    for row in rows.tolist():
        _keep(placement, bands, row, before[row])
    return placement.replicas


def _keep(placement: Placement, bands: Bands, row: int, before: Ints) -> None:
    """Brings the first replica home, and sends a follower where it went."""
    now, home = placement.replicas[row], int(before[0])
    gone_to = int(now[0])
    if gone_to in before or not placement.free[row, 0]:
        return
    for column in np.flatnonzero((now == before) & placement.free[row]).tolist():
        if _may_keep(placement, bands, row, column, home):
            placement.move(np.array([row * placement.width]), np.array([home]))
            placement.move(np.array([row * placement.width + column]), np.array([gone_to]))
            return


def _may_keep(placement: Placement, bands: Bands, row: int, column: int, home: int) -> bool:
    """Whether the list may have a replica at `home` instead of the one in the column."""
    rule, follower = placement.rule, int(placement.replicas[row, column])
    list_now = placement.replicas[row : row + 1]
    instead = list_now.copy()
    instead[0, column] = home
    counts = replication(list_now)
    spreads = (rule.spread(domains_of(rule, lists), counts)[0] for lists in (instead, list_now))
    one, weight = np.array([row]), placement.weights[row]
    crowds = not placement.crowding.allows(one, np.array([follower]), np.array([home]))[0, 0]
    has_room = placement.has_room(one, np.array([home]), placement.home_limits)[0, 0]
    if crowds or not has_room or next(spreads) < next(spreads):
        return False
    pair = np.array([follower, home])
    after = placement.loads[pair] + np.stack([-weight, weight])
    low, high = bands.low[pair], bands.high[pair]
    further = distance(after, low, high).sum() - distance(placement.loads[pair], low, high).sum()
    return bool(further <= -GAIN)
