"""Job `repair_racks`, and a part of every balance: what breaks the rack rule gets a replica in another rack."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.rules.rack_rule import allowed, violations
from kafka_rebalance.planning.search.placement import Placement


def repair_racks(placement: Placement, bands: Bands) -> int:
    """Spreads movable partitions that break the rack rule over more racks; returns how many still break it.

    A limit that is reached stops the repairs, and shows in the budget.
    """
    rows = np.flatnonzero(violations(placement.rule, placement.replicas))
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        while _repair(placement, int(row), bands):
            pass
    return int(violations(placement.rule, placement.replicas).sum())


def _repair(placement: Placement, row: int, bands: Bands) -> bool:
    """One replica of the partition to a rack that has none, if the partition needs it; whether one moved."""
    one = slice(row, row + 1)
    if not violations(placement.rule, placement.replicas[one])[0]:
        return False
    receivers = np.flatnonzero(placement.receivers)
    here = placement.domains[row]
    shared = np.array([(here == domain).sum() > 1 for domain in here]) & (here >= 0)
    columns = np.flatnonzero(shared & placement.free[row])
    if not len(columns) or not len(receivers):
        return False
    slots = row * placement.width + columns
    rows = np.full(len(columns), row)
    adds = allowed(
        placement.rule,
        placement.replicas,
        placement.domains,
        rows,
        columns,
        receivers,
        repair=not placement.rule.strict,
    )
    for crowd in (False, True):
        change = np.where(adds, placement.changes(slots, receivers, bands, crowd=crowd), np.inf)
        index, target = np.unravel_index(int(change.argmin()), change.shape)
        if np.isfinite(change[index, target]):
            placement.move(slots[index : index + 1], receivers[target : target + 1])
            return True
    return False
