"""Targets: each broker's load if all were as balanced as racks, disks and lists allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafka_rebalance.planning.problem.arrays import (
    DISK,
    LEADER_METRICS,
    LEADERS,
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    leader_loads,
    leader_weights,
    replica_loads,
    replication,
    shares,
    should_lead,
)
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.rack_rule import RackRule

_HALVINGS = 60  # of an interval, down to the last bit of a double
_LEAST_SHARE = 1e-9  # of the largest
_FITTINGS = 50  # rounds: the rest of one full disk may be too much for the next


def reachable_targets(
    rule: RackRule, counts: Ints, weights: Floats, shares: Floats, evened: Bools, receivers: Bools, fixed: Floats
) -> Floats:
    """[broker, resource] The load of every broker if all were as balanced as the racks allow.

    The rack rule says how many replicas of a partition a rack must and may hold: of as many replicas as racks at least
    one, of fewer at most one. So a rack's load lies between these, and otherwise goes by capacity (`shares`). `counts`
    is [partition row] replicas. Brokers that are not `evened` keep their `fixed` load. Those of them that are no
    `receivers` only give, so they carry at most that load.
    """
    must, may = _in_racks(rule, counts, weights)
    total = (weights * counts[:, None]).sum(axis=0)

    def levelled(k: int, moves: Bools) -> Floats:
        """[broker] The resource's load, if only the brokers of `moves` change theirs."""
        groups, capacity, least, most = [], [], [], []
        for rack in np.unique(rule.domain[moves]):
            here = moves & (rule.domain == rack)
            pinned = fixed[(rule.domain == rack) & ~moves, k].sum()
            groups.append(here)
            capacity.append(shares[here, k].sum())
            least.append(max(0.0, must[rack][k] - pinned) if rule.known else 0.0)
            most.append(max(0.0, may[rack][k] - pinned) if rule.known else np.inf)
        size, low, high = np.array(capacity), np.array(least), np.array(most)
        rest = total[k] - fixed[~moves, k].sum()
        loads = _poured(size, low, high, rest)
        level = np.where(moves, 0.0, fixed[:, k])
        for here, load, capacity_here in zip(groups, loads, size, strict=True):
            level[here] = load * shares[here, k] / capacity_here
        return level

    targets = np.empty((len(evened), weights.shape[1]))
    for k in range(weights.shape[1]):
        moves = evened
        targets[:, k] = levelled(k, moves)
        # A broker that only gives stays below the level if it is below. That raises the level, so others may follow.
        while (below := moves & ~receivers & (targets[:, k] > fixed[:, k])).any():
            moves = moves & ~below
            targets[:, k] = levelled(k, moves)
    return targets


def _in_racks(rule: RackRule, counts: Ints, weights: Floats) -> tuple[Mapping[int, Floats], Mapping[int, Floats]]:
    """({rack: [resource] the least load that it may hold}, the same of the most)"""
    racks = np.unique(rule.domain).tolist()

    def load(replicas: Ints) -> Floats:
        summed: Floats = (weights * replicas[:, None]).sum(axis=0)
        return summed

    if rule.even is None and not rule.confined.any():  # all racks are alike
        return dict.fromkeys(racks, load(rule.least(counts, 0))), dict.fromkeys(racks, load(rule.most(counts, 0)))
    held = {rack: rule.holds(counts, rack) for rack in racks if rack >= 0}
    return {rack: load(least) for rack, (least, _) in held.items()}, {
        rack: load(most) for rack, (_, most) in held.items()
    }


def _poured(size: Floats, low: Floats, high: Floats, total: float) -> Floats:
    """The total, split by size with each part between its low and high; by size alone if that is impossible."""
    if total <= 0:
        return np.zeros(len(size))
    even: Floats = size / size.sum() * total
    if not low.sum() <= total * (1 + 1e-9) or not high.sum() >= total * (1 - 1e-9):
        return even
    top = max(total / size.min(), float(np.max(np.where(np.isfinite(high), high, 0.0) / size)))
    level = halve(lambda x: float(np.clip(x * size, low, high).sum()) - total, 0.0, top)
    return np.clip(level * size, low, high)


def within_limits(reachable: Callable[[Floats], Floats], shares: Floats, evened: Bools, limits: Floats) -> Floats:
    """[broker, REPLICA_METRICS] The targets of these shares. A broker that may not carry its share gets less.

    A disk with too little room for its share also gets fewer replicas, and the others share the rest. The room may be
    too little because other files use the disk, or because its size is the only known one. `limits` is [broker,
    REPLICA_METRICS]. If all brokers together may not carry a resource, its targets stay.
    """
    targets, capped = reachable(shares), shares.copy()
    binds: Bools = targets[evened].sum(axis=0) <= limits[evened].sum(axis=0)
    limits = np.maximum(limits, 1e-6 * targets)  # a limit of 0 would divide by zero
    for _ in range(_FITTINGS):
        over = evened[:, None] & binds & (targets > limits * (1 + 1e-9))
        if not over.any():
            break
        fits = np.divide(limits, targets, out=np.ones_like(targets), where=over)
        capped[:, REPLICAS] *= fits.min(axis=1)
        capped[:, DISK:] *= fits[:, DISK:]
        targets = reachable(capped)
    return targets


def leader_targets(problem: Problem, replicas: Ints) -> Floats:
    """[broker, LEADER_METRICS] Each broker's share, in its own unit. A broker that is not evened keeps its leaders.

    A broker can lead no more than it holds, and must lead every list of one that it holds. The same is true of a rack:
    its brokers must lead every list that lies within it. The others lead the rest. With `leader_racks`, only replicas
    that should lead count.
    """
    parts = (_leader_targets(part.problem, replicas[part.rows]) for part in parts_of(problem))
    return sum(parts, np.zeros((len(problem.brokers), len(LEADER_METRICS))))


def _leader_targets(problem: Problem, replicas: Ints) -> Floats:
    raw = leader_weights(problem, replicas)
    evened, share = problem.evened, shares(problem)[:, LEADERS:]
    fixed = leader_loads(replicas[:, 0], raw, len(evened))
    fixed[problem.leaving] = 0.0
    rest = raw.sum(axis=0) - fixed[~evened].sum(axis=0)
    given = share * evened[:, None]
    alone = leader_loads(replicas[:, 0], raw * (replication(replicas) == 1)[:, None], len(evened))
    held = replica_loads(replicas, raw, len(evened))
    if problem.settings.leader_racks:
        should = should_lead(problem, replicas)
        one = should.sum(axis=1) == 1
        alone += leader_loads(
            replicas[one, should[one].argmax(axis=1)], raw[one] * (replication(replicas[one]) > 1)[:, None], len(evened)
        )
        held = replica_loads(np.where(should, replicas, -1), raw, len(evened))
        # A broker outside has no share if each list has a replica inside, and nobody can divide by that.
        given = np.maximum(given, _LEAST_SHARE * given.max(axis=0)) * evened[:, None]
    targets = np.where(evened[:, None], given / np.maximum(given.sum(axis=0), 1e-300) * rest, fixed)
    racks = _led_in_racks(problem, replicas, raw)
    for k in range(raw.shape[1]):
        even, least, most = (values[evened, k] for values in (targets, alone, held))
        if ((even < least) | (even > most)).any() or racks.bind(targets[:, k], k):
            targets[evened, k] = racks.poured(given[evened, k], least, most, float(rest[k]), k)
    return targets


class _LedInRacks(NamedTuple):
    """What the brokers of each rack must and can lead together, by the lists that lie within it and that reach it."""

    of_broker: Ints  # [evened broker]
    evened: Bools  # [broker]
    least: Floats  # [rack, LEADER_METRICS]
    most: Floats

    def bind(self, loads: Floats, k: int) -> bool:
        """Whether [broker] these loads are too few or too many for a rack."""
        held = np.bincount(self.of_broker, loads[self.evened], len(self.least))
        less, more = held < self.least[:, k] * (1 - 1e-9), held > self.most[:, k] * (1 + 1e-9)
        return bool((less | more).any())

    def poured(self, size: Floats, low: Floats, high: Floats, total: float, k: int) -> Floats:
        """[evened broker] As `_poured`, where racks have bounds besides; without them if that is impossible."""
        plain = _poured(size, low, high, total)
        loads = np.zeros_like(self.evened, dtype=float)
        loads[self.evened] = plain
        if not self.bind(loads, k):
            return plain
        racks = len(self.least)
        least = np.maximum(self.least[:, k], np.bincount(self.of_broker, low, racks))
        most = np.minimum(self.most[:, k], np.bincount(self.of_broker, high, racks))
        if (least > most).any() or not least.sum() <= total * (1 + 1e-9) or not most.sum() >= total * (1 - 1e-9):
            return plain

        def by_rack(level: float) -> Floats:
            return np.clip(np.bincount(self.of_broker, np.clip(level * size, low, high), racks), least, most)

        loads = by_rack(halve(lambda level: float(by_rack(level).sum()) - total, 0.0, float((high / size).max())))
        parts = np.empty(len(size))
        for rack in np.unique(self.of_broker):
            here = self.of_broker == rack
            parts[here] = _poured(size[here], low[here], high[here], float(loads[rack]))
        return parts


def _led_in_racks(problem: Problem, replicas: Ints, raw: Floats) -> _LedInRacks:
    """Of the lists that an evened broker leads now, or one that leaves: the others stay led where they are."""
    evened = problem.evened
    names = [f"{broker}" if rack is None else f"/{rack}" for broker, rack in enumerate(problem.racks)]
    rack_of: Ints = np.unique(names, return_inverse=True)[1].reshape(-1)
    racks = int(rack_of.max()) + 1
    there = replicas >= 0
    goes = evened[replicas[:, 0]] | problem.leaving[replicas[:, 0]]
    reached = np.where(there & evened[replicas] & goes[:, None], rack_of[replicas], -1)
    within = ((reached == reached[:, :1]) | ~there).all(axis=1) & (reached[:, 0] >= 0)
    least, most = (np.zeros((racks, raw.shape[1])) for _ in range(2))
    for k in range(raw.shape[1]):
        least[:, k] = np.bincount(reached[within, 0], raw[within, k], racks)
        for position in range(replicas.shape[1]):
            rack = reached[:, position]
            first = (rack >= 0) & (reached[:, :position] != rack[:, None]).all(axis=1)
            most[:, k] += np.bincount(rack[first], raw[first, k], racks)
    return _LedInRacks(rack_of[evened], evened, least, most)


def halve(function: Callable[[float], float], low: float, high: float, times: int = _HALVINGS) -> float:
    """The argument at which a rising function crosses zero."""
    for _ in range(times):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


# Bands: the loads between which a broker counts as balanced, and the bands that the search aims at.


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
