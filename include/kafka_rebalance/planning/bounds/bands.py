"""Bands: the loads between which a broker counts as balanced, and the bands that the search aims at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.targets import halve
from kafka_rebalance.planning.problem.arrays import Bools, Floats
from kafka_rebalance.planning.problem.loads import DISK


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """[broker, resource] The loads between which a broker is balanced."""

    low: Floats
    high: Floats


def band(targets: Floats, tolerance: float) -> Bands:
    return Bands(targets * (1 - tolerance), targets * (1 + tolerance))


def water_filled(
    load: Floats, target: Floats, evened: Bools, receivers: Bools, tolerance: float, extra: float
) -> tuple[Floats, Floats]:
    """[broker] Low and high of one resource, one of them moved inwards until the load above equals the lack below.

    A plan that brings every broker just to this band copies exactly the bound. `extra` is load of brokers to empty.
    What the `evened` brokers have above goes to `receivers` among them.
    """
    x, mean = load[evened], target[evened]
    taking, wanted = load[receivers], target[receivers]

    def over(share: float) -> float:
        return float(np.maximum(0, x - share * mean).sum()) + extra

    def under(share: float) -> float:
        return float(np.maximum(0, share * wanted - taking).sum())

    low, high = 1 - tolerance, 1 + tolerance
    if under(low) > over(high):
        high = max(low, halve(lambda share: under(low) - over(share), low, high))
    else:
        low = min(high, halve(lambda share: under(share) - over(high), low, high))
    return target * low, target * high


def filled_bands(
    targets: Floats,
    loads: Floats,
    groups: Sequence[Bools],
    receivers: Bools,
    tolerance: float,
    extra: Floats,
    slack: float,
) -> Bands:
    """Bands that the search aims at: water-filled within each group of brokers between which replicas can move.

    A broker of a group that is none of the `receivers` never ends above its load, and lacks nothing. `extra` is
    [group, resource] load of brokers to be emptied. On disk, where every byte costs, a broker inside its
    band stays within `slack` of its load now, and one outside stops at the edge.
    """
    low, high = targets * (1 - tolerance), targets * (1 + tolerance)
    for group, more in zip(groups, extra, strict=True):
        for k in range(targets.shape[1]):
            filled = water_filled(loads[:, k], targets[:, k], group, group & receivers, tolerance, float(more[k]))
            low[group, k], high[group, k] = filled[0][group], filled[1][group]
        gives = group & ~receivers
        low[gives] = np.minimum(low[gives], loads[gives])
    x, least, most, give = loads[:, DISK], low[:, DISK].copy(), high[:, DISK].copy(), slack * targets[:, DISK]
    high[:, DISK] = np.where(x < least, least + give, np.where(x > most, most, np.minimum(most, x + give)))
    low[:, DISK] = np.where(x < least, least, np.where(x > most, most - give, np.maximum(least, x - give)))
    low[:, DISK] = np.minimum(low[:, DISK], high[:, DISK])
    return Bands(low, high)


def distance(loads: Floats, low: Floats, high: Floats) -> Floats:
    """Squared distance to the band, summed over the resources (the last axis)."""
    total: Floats = np.zeros(np.broadcast_shapes(loads.shape, low.shape)[:-1])
    for k in range(loads.shape[-1]):
        at = loads[..., k]
        outside = at - np.minimum(np.maximum(at, low[..., k]), high[..., k])
        total += outside * outside
    return total
