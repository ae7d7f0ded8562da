"""What is reachable: each broker's target, the bands around it, and how many bytes any plan has to copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import DISK, Bools, Floats, Ints
from kafka_rebalance.planning.rules.rack_rule import RackRule

_HALVINGS = 60  # of an interval: to the last bit of a double


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """[broker, resource] Between which loads a broker is balanced."""

    low: Floats
    high: Floats


def _halve(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses zero."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


def reachable_targets(
    rule: RackRule, counts: Ints, weights: Floats, shares: Floats, receivers: Bools, fixed: Floats
) -> Floats:
    """[broker, resource] The load every broker would have if all were as balanced as the racks allow.

    A rack must hold at least one replica of a partition that has as many replicas as there are racks, and at most one
    of any other: so racks get shares between what must and what may lie there, the rest by capacity (`shares`).
    `counts` is [partition row] replicas; brokers that receive nothing keep their `fixed` load.
    """
    must = (weights * (counts >= rule.racks)[:, None]).sum(axis=0)
    may = (weights * np.maximum(1, counts - rule.racks + 1)[:, None]).sum(axis=0)
    total = (weights * counts[:, None]).sum(axis=0)
    targets = np.where(receivers[:, None], 0.0, fixed)
    for k in range(weights.shape[1]):
        groups, capacity, least, most = [], [], [], []
        for rack in np.unique(rule.domain[receivers]):
            here = receivers & (rule.domain == rack)
            pinned = fixed[(rule.domain == rack) & ~receivers, k].sum()
            groups.append(here)
            capacity.append(shares[here, k].sum())
            least.append(max(0.0, must[k] - pinned) if rule.known else 0.0)
            most.append(max(0.0, may[k] - pinned) if rule.known else np.inf)
        size, low, high = np.array(capacity), np.array(least), np.array(most)
        rest = total[k] - fixed[~receivers, k].sum()
        loads = poured(size, low, high, rest)
        for here, load, capacity_here in zip(groups, loads, size, strict=True):
            targets[here, k] = load * shares[here, k] / capacity_here
    return targets


def poured(size: Floats, low: Floats, high: Floats, total: float) -> Floats:
    """Total poured into vessels to one level, each between its low and its high; by size alone where that cannot be."""
    if total <= 0:
        return np.zeros(len(size))
    even: Floats = size / size.sum() * total
    if not low.sum() <= total * (1 + 1e-9) or not high.sum() >= total * (1 - 1e-9):
        return even
    top = max(total / size.min(), float(np.max(np.where(np.isfinite(high), high, 0.0) / size)))
    level = _halve(lambda x: float(np.clip(x * size, low, high).sum()) - total, 0.0, top)
    return np.clip(level * size, low, high)


def band(targets: Floats, tolerance: float) -> Bands:
    """Everything within `tolerance` of the target."""
    return Bands(targets * (1 - tolerance), targets * (1 + tolerance))


def water_filled(
    load: Floats, target: Floats, receivers: Bools, tolerance: float, extra: float
) -> tuple[Floats, Floats]:
    """[broker] Low and high of one resource, one of them moved inwards until what is over equals what is under.

    Driving every broker just to this band copies exactly the bound. `extra` is load on brokers that must be emptied.
    """
    x, mean = load[receivers], target[receivers]

    def over(share: float) -> float:
        return float(np.maximum(0, x - share * mean).sum()) + extra

    def under(share: float) -> float:
        return float(np.maximum(0, share * mean - x).sum())

    low, high = 1 - tolerance, 1 + tolerance
    if under(low) > over(high):
        high = max(low, _halve(lambda share: under(low) - over(share), low, high))
    else:
        low = min(high, _halve(lambda share: under(share) - over(high), low, high))
    return target * low, target * high


def moved_bytes_bound(
    load: Floats, bands: tuple[Floats, Floats], staying: Bools, needed: float, *, same_factor: bool
) -> int:
    """Bytes that any plan must copy whose brokers end between low and high, in bytes on disk.

    `load` is [broker] before. `needed` are copies that must be made whatever the balance: of replicas on brokers that
    are emptied, and of replicas that a higher replication factor adds. Where the factor is the `same`, what leaves a
    broker above its band is copied too; else it may just be dropped.
    """
    low, high = bands
    giving = needed + (np.maximum(0, load - high)[staying].sum() if same_factor else 0.0)
    taking = np.maximum(0, low - load)[staying].sum()
    return int(max(giving, taking))


def filled_bands(
    targets: Floats, loads: Floats, groups: Sequence[Bools], tolerance: float, extra: Floats, slack: float
) -> Bands:
    """Bands to drive the search to: water-filled within each group of brokers between which replicas can move.

    `extra` is [group, resource] load that must be taken off brokers that are emptied. On disk, where every byte costs,
    a broker inside its band stays within `slack` of where it is, and one outside stops at the edge.
    """
    low, high = targets * (1 - tolerance), targets * (1 + tolerance)
    for group, more in zip(groups, extra, strict=True):
        for k in range(targets.shape[1]):
            filled = water_filled(loads[:, k], targets[:, k], group, tolerance, float(more[k]))
            low[group, k], high[group, k] = filled[0][group], filled[1][group]
    x, least, most, give = loads[:, DISK], low[:, DISK].copy(), high[:, DISK].copy(), slack * targets[:, DISK]
    high[:, DISK] = np.where(x < least, least + give, np.where(x > most, most, np.minimum(most, x + give)))
    low[:, DISK] = np.where(x < least, least, np.where(x > most, most - give, np.maximum(least, x - give)))
    low[:, DISK] = np.minimum(low[:, DISK], high[:, DISK])
    return Bands(low, high)


def makespan_bound(received: Floats, sent: Floats, bytes_per_second: int) -> float:
    """Seconds that no order of the copies can beat: the busiest broker's bytes at its throttle."""
    return float(max(received.max(initial=0.0), sent.max(initial=0.0))) / bytes_per_second
