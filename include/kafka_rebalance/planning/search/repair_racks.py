"""Job `repair_racks`, and a part of every balance: replicas that are in the wrong place get the right one.

A replica outside the pool of its topic goes into the pool. A list that breaks the rack rule gets a replica in another
rack.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.problem.arrays import Bools
from kafka_rebalance.planning.rules.rack_rule import allowed, violations
from kafka_rebalance.planning.search.placement import Placement


def enter_pools(placement: Placement, foreign: Bools, bands: Bands) -> None:
    """Moves replicas from `foreign` brokers into the pool, the largest first. A limit or a full disk leaves some."""
    slots = placement.movable_slots()
    slots = slots[foreign[placement.replicas.ravel()[slots]]]
    receivers = np.flatnonzero(placement.receivers)
    for slot in slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]:
        placement.move_best(np.array([slot]), receivers, bands)


def repair_racks(placement: Placement, bands: Bands) -> None:
    """Spreads movable partitions that break the rack rule over more racks.

    A limit that is reached stops the repairs, and shows in the budget.
    """
    rows = np.flatnonzero(violations(placement.rule, placement.replicas))
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        while _repair(placement, int(row), bands):
            pass


def _repair(placement: Placement, row: int, bands: Bands) -> bool:
    """Moves one replica to a rack that has none, if the partition needs it. Returns whether one moved."""
    one = slice(row, row + 1)
    if not violations(placement.rule, placement.replicas[one])[0]:
        return False
    receivers = np.flatnonzero(placement.receivers)
    here = placement.domains[row]
    shared = np.array([(here == domain).sum() > 1 for domain in here]) & (here >= 0)
    columns = np.flatnonzero(shared & placement.free[row])
    if not len(columns):
        return False
    rule, rows = placement.rule, np.full(len(columns), row)
    adds = allowed(rule, placement.replicas, placement.domains, rows, columns, receivers, repair=not rule.strict)
    return placement.move_best(row * placement.width + columns, receivers, bands, only=adds)
