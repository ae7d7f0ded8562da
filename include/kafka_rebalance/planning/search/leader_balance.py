"""Leaders by re-ordering replica lists: the first replica is the preferred leader, and re-ordering copies nothing."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, band, distance
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.loads import leader_loads
from kafka_rebalance.planning.search.placement import Budget, Limit

_GAIN = -1e-13
_ROUNDS = 400
# Aiming inside the band lets leaders flow through brokers that are themselves within it, the further the narrower.
_AIMS = (0.6, 0.3, 0.0)


def balance_leaders(
    replicas: Ints,
    before: Ints,
    weights: Floats,
    targets: Floats,
    tolerance: float,
    *,
    movable: Bools,
    receivers: Bools,
    givers: Bools,
    leaving: Bools,
    behind: Bools,
    one_sided: bool,
    budget: Budget,
    rng: np.random.Generator,
) -> Ints:
    """The lists with leaders within `tolerance` of `targets` where re-ordering reaches that, with few changes.

    `weights` is [partition row, resource], `targets` [broker, resource]. Only `movable` rows change. `givers` may lose
    leaders, `receivers` gain them, `leaving` keep none. With `one_sided` only brokers above their band matter.

    `behind` is [row, position], replicas that are out of the ISR now: none of them is made a leader, but where the
    leader leaves and nobody else may lead. Kafka itself would wait: the controller ends a reassignment, also one that
    only re-orders, when every replica of the new list is in the ISR (KafkaController.areReplicasInIsr), and elects
    preferred leaders from the ISR alone. But the batch waits as long, and the leaders are not as even as planned.
    """
    result, behind = replicas.copy(), behind.copy()
    _allow_the_unavoidable(behind, result, movable, receivers, leaving)
    loads = leader_loads(result[:, 0], weights, len(receivers))
    full = _one_sided(band(targets, tolerance), one_sided)
    for aim in _AIMS:
        bands = _one_sided(band(targets, tolerance * aim), one_sided)
        for _ in range(_ROUNDS):
            if _inside(loads, full, receivers, leaving):
                break
            swaps = _swaps(result, before, loads, weights, bands, movable, receivers, givers, leaving, behind, rng)
            swaps = _within_budget(swaps, result, before, budget)
            if not len(swaps[0]):
                break
            _apply(result, behind, loads, weights, *swaps)
    _undo(result, before, behind, loads, weights, full, movable, receivers, budget)
    return result


def _one_sided(bands: Bands, one_sided: bool) -> Bands:
    return Bands(np.zeros_like(bands.low), bands.high) if one_sided else bands


def _inside(loads: Floats, bands: Bands, receivers: Bools, leaving: Bools) -> bool:
    far = np.where(receivers, distance(loads, bands.low, bands.high), 0.0)
    return bool(far.max(initial=0.0) <= 0 and loads[leaving].sum() <= 0)


def _allow_the_unavoidable(behind: Bools, replicas: Ints, movable: Bools, receivers: Bools, leaving: Bools) -> None:
    """Clears the marks of lists whose leader leaves, where all that may lead instead are behind."""
    may_lead = (replicas >= 0) & receivers[replicas]
    none_in_sync = movable & leaving[replicas[:, 0]] & ~(may_lead & ~behind)[:, 1:].any(axis=1)
    behind[none_in_sync] = False


def _swaps(
    replicas: Ints,
    before: Ints,
    loads: Floats,
    weights: Floats,
    bands: Bands,
    movable: Bools,
    receivers: Bools,
    givers: Bools,
    leaving: Bools,
    behind: Bools,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """(rows, positions) whose replica at the position should lead: at most one change per giver and per taker."""
    far = np.where(receivers, distance(loads, bands.low, bands.high), 0.0)
    concerned = (far > 0) | leaving
    may_lose = (givers | leaving)[replicas[:, 0]]
    rows = np.flatnonzero(movable & may_lose & (concerned[replicas] & (replicas >= 0)).any(axis=1))
    if not len(rows) or replicas.shape[1] < 2:
        return rows[:0], rows[:0]
    source = replicas[rows, 0]
    weight = weights[rows]
    gone = loads[source] - weight
    give = distance(gone, bands.low[source], bands.high[source]) - far[source]
    # A broker that leaves must lose every leader, and what it still leads is no measure of balance.
    give = np.where(leaving[source], -1e6, give)
    gain = np.full((len(rows), replicas.shape[1]), np.inf)
    for position in range(1, replicas.shape[1]):
        target = replicas[rows, position]
        taken = distance(loads[target] + weight, bands.low[target], bands.high[target]) - far[target]
        # Who led before is no new leader.
        may_lead = (target >= 0) & receivers[target] & (~behind[rows, position] | (target == before[rows, 0]))
        gain[:, position] = np.where(may_lead, give + taken, np.inf)
    position = gain.argmin(axis=1)
    value = gain[np.arange(len(rows)), position]
    better = np.flatnonzero(value < _GAIN)
    # A little noise in the order keeps rounds from taking the same partitions' side again and again.
    better = better[np.argsort(value[better] * rng.uniform(0.7, 1.3, len(better)), kind="stable")]
    takers = replicas[rows[better], position[better]]
    first = np.zeros(len(better), dtype=bool)
    first[np.unique(source[better], return_index=True)[1]] = True
    first |= leaving[source[better]]  # these give everything anyway
    first_taker = np.zeros(len(better), dtype=bool)
    first_taker[np.unique(takers, return_index=True)[1]] = True
    keep = first & first_taker
    if len(better) and not keep.any():
        keep[0] = True
    chosen = better[keep]
    return rows[chosen], position[chosen]


def _within_budget(swaps: tuple[Ints, Ints], replicas: Ints, before: Ints, budget: Budget) -> tuple[Ints, Ints]:
    """The first of the swaps that the limit on leader changes allows; spends it."""
    rows, positions = swaps
    was = (replicas[rows, 0] != before[rows, 0]).astype(np.int64)
    becomes = (replicas[rows, positions] != before[rows, 0]).astype(np.int64)
    change = becomes - was
    if budget.max_leader_changes is not None:
        fits = budget.leader_changes + np.cumsum(np.maximum(change, 0)) <= budget.max_leader_changes
        if not fits.all():
            budget.reached.add(Limit.LEADER_CHANGES)
        fits |= change <= 0
        rows, positions, change = rows[fits], positions[fits], change[fits]
    budget.leader_changes += int(change.sum())
    return rows, positions


def _apply(replicas: Ints, behind: Bools, loads: Floats, weights: Floats, rows: Ints, positions: Ints) -> None:
    """The replica at the position and the leader change places."""
    behind[rows, 0], behind[rows, positions] = behind[rows, positions].copy(), behind[rows, 0].copy()
    old, new = replicas[rows, 0].copy(), replicas[rows, positions].copy()
    replicas[rows, 0], replicas[rows, positions] = new, old
    np.subtract.at(loads, old, weights[rows])
    np.add.at(loads, new, weights[rows])


def _undo(
    replicas: Ints,
    before: Ints,
    behind: Bools,
    loads: Floats,
    weights: Floats,
    bands: Bands,
    movable: Bools,
    receivers: Bools,
    budget: Budget,
) -> None:
    """Gives leadership back where its change gains nothing."""
    changed = np.flatnonzero(movable & (replicas[:, 0] != before[:, 0]) & receivers[before[:, 0]])
    for row in changed:
        old = int(before[row, 0])
        position = np.flatnonzero(replicas[row] == old)
        if not len(position):
            continue
        now, weight = int(replicas[row, 0]), weights[row]
        pair = [now, old]
        low, high = bands.low[pair], bands.high[pair]
        after = np.stack([loads[now] - weight, loads[old] + weight])
        if (distance(after, low, high) - distance(loads[pair], low, high)).sum() <= 1e-13:
            _apply(replicas, behind, loads, weights, np.array([row]), position[:1])
            budget.leader_changes -= 1
