"""Brings the replicas of topics below their ceilings: the step of a search that `spread_topics` asks for.

It comes after the moves that the job requires and before the balance, so that the balance chooses among what is left.
Each replica goes where it costs least: in bytes, and in loads outside the bands that the balance would have to move
again. If no broker below its ceiling may take one, others of the topic make way along a chain of brokers, or a replica
of another topic changes places with it on a full disk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.problem.arrays import BYTES_IN, DISK, REPLICAS, Floats, Ints, firsts
from kafka_rebalance.planning.rules.topic_spread import TopicSpread
from kafka_rebalance.planning.search.placement import Placement

_OUTSIDE = {REPLICAS: 0.15, DISK: 1.0, BYTES_IN: 0.25}  # what a load outside its band costs; bytes copied cost 1
_TRIED = 64  # places without room for which others are asked to make room, in one round


def spread_topics(placement: Placement, bands: Bands) -> None:
    """Lowers the excess of every topic as far as moves, chains and swaps reach. Limits and disks may leave some."""
    spread = placement.crowding.spread
    if spread is None:
        return
    excess = np.maximum(0, -spread.room).sum(axis=1)
    for topic in np.argsort(-excess, kind="stable")[: int((excess > 0).sum())].tolist():
        rows = np.flatnonzero(spread.topic == topic)
        while (spread.room[topic] < 0).any():
            if not (_moved(placement, spread, topic, rows, bands) or _made_way(placement, spread, topic, rows)):
                break


def _moved(placement: Placement, spread: TopicSpread, topic: int, rows: Ints, bands: Bands) -> bool:
    """Moves replicas from brokers beyond the ceiling to brokers below it, the cheapest first. Returns whether any."""
    slots = _slots(placement, rows)
    slots = slots[spread.room[topic][placement.replicas.ravel()[slots]] < 0]
    targets = np.flatnonzero(placement.receivers & (spread.room[topic] > 0))
    if not len(slots) or not len(targets):
        return False
    legal = placement.legal(slots, targets)
    for name, refused in placement.budget.refused(
        placement.sizes[slots // placement.width], ~placement.away(slots), slots % placement.width == 0
    ):
        if legal[refused].any():
            placement.budget.reached.add(name)
        legal[refused] = False
    price = np.where(legal, _prices(placement, slots, targets, bands), np.inf)
    order = np.argsort(price, axis=None, kind="stable")[: int(legal.sum())]
    of_slot, of_target = np.divmod(order, len(targets))
    sources = placement.replicas.ravel()[slots[of_slot]]
    chosen = firsts(sources, targets[of_target], slots[of_slot] // placement.width)
    moving, to = slots[of_slot[chosen]], targets[of_target[chosen]]
    fits = placement.affordable(moving, to)
    if not fits.any():
        return False
    placement.move(moving[fits], to[fits])
    return True


def _slots(placement: Placement, rows: Ints) -> Ints:
    """The movable replicas of these partitions."""
    slots = (rows[:, None] * placement.width + np.arange(placement.width)).ravel()
    movable: Ints = slots[((placement.replicas >= 0) & placement.free).ravel()[slots]]
    return movable


def _prices(placement: Placement, slots: Ints, targets: Ints, bands: Bands) -> Floats:
    """[slot, target] Bytes copied for it, and by how much loads get further outside their bands."""
    rows, columns = np.divmod(slots, placement.width)
    sources = placement.replicas[rows, columns]
    more = (targets != placement.origin.ravel()[slots][:, None]).astype(np.float64) - placement.away(slots)[:, None]
    price: Floats = more * placement.copies.of(slots, placement.width, targets)

    def outside(loads: Floats, brokers: Ints, k: int) -> Floats:
        low, high = bands.low[brokers, k], bands.high[brokers, k]
        off: Floats = np.maximum(0.0, np.maximum(low - loads, loads - high))
        return off

    for k, cost in _OUTSIDE.items():
        weights, here, there = placement.weights[rows, k], placement.loads[sources, k], placement.loads[targets, k]
        gives = outside(here - weights, sources, k) - outside(here, sources, k)
        takes = outside(there + weights[:, None], targets, k) - outside(there, targets, k)
        price += cost * (np.where(placement.evened[sources], gives, 0.0)[:, None] + takes)
    return price


def _made_way(placement: Placement, spread: TopicSpread, topic: int, rows: Ints) -> bool:
    """Lowers the excess by one where no single move does. Returns whether that was possible."""
    for slots, targets in (*_chains(placement, spread, topic, rows), *_swaps(placement, spread, topic, rows)):
        if _made(placement, slots, targets):
            return True
    return False


def _chains(placement: Placement, spread: TopicSpread, topic: int, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The shortest chains of moves of the topic's replicas, the last move first, one from each broker beyond it.

    Each broker on the way gives one replica and receives another, so that only the two ends change.
    """
    slots, receivers = _slots(placement, rows), np.flatnonzero(placement.receivers)
    if not len(slots) or not len(receivers):
        return
    held = placement.replicas.ravel()[slots]
    legal = placement.legal(slots, receivers, crowd=True) & (held[:, None] != receivers)
    ends = spread.room[topic] > 0
    for start in np.flatnonzero(spread.room[topic] < 0).tolist():
        came: dict[int, tuple[int, int]] = {
            start: (-1, -1)
        }  # {broker: (the one before, the slot that comes from there)}
        to_visit = [start]
        while to_visit:
            broker = to_visit.pop(0)
            if ends[broker]:
                yield _back(came, broker)
                break
            for own in np.flatnonzero(held == broker).tolist():
                if any(slots[own] // placement.width == slot // placement.width for slot in _way(came, broker)):
                    continue  # two replicas of a partition would stand in each other's way
                for target in receivers[legal[own]].tolist():
                    if target not in came:
                        came[target] = (broker, int(slots[own]))
                        to_visit.append(target)


def _way(came: dict[int, tuple[int, int]], broker: int) -> Iterator[int]:
    """The slots that move on the way to this broker, the last first."""
    while came[broker][0] >= 0:
        broker, slot = came[broker]
        yield slot


def _back(came: dict[int, tuple[int, int]], broker: int) -> tuple[Ints, Ints]:
    slots, targets = [], []
    while came[broker][0] >= 0:
        targets.append(broker)
        broker, slot = came[broker]
        slots.append(slot)
    return np.array(slots, dtype=np.int64), np.array(targets, dtype=np.int64)


def _swaps(placement: Placement, spread: TopicSpread, topic: int, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
    """A replica beyond the ceiling to a full broker below it, and from there the one that is nearest to it in bytes."""
    slots = _slots(placement, rows)
    slots = slots[spread.room[topic][placement.replicas.ravel()[slots]] < 0]
    targets = np.flatnonzero(placement.receivers & (spread.room[topic] > 0))
    if not len(slots) or not len(targets):
        return
    own, columns = np.divmod(slots, placement.width)
    free = placement.allowed(own, columns, targets) & ~placement.has_room(own, targets)
    order = np.argsort(placement.sizes[own], kind="stable")
    pairs = [(at, target) for at in order.tolist() for target in targets[free[at]].tolist()]
    for at, target in pairs[:_TRIED]:
        source = placement.replicas.flat[slots[at]]
        if not placement.receivers[source]:
            continue
        others = np.sort(placement.held[target, : placement.count[target]])
        others = others[spread.topic[others // placement.width] != topic]
        theirs, weights = others // placement.width, placement.weights
        here = placement.loads[target] + weights[own[at]] - weights[theirs]
        there = placement.loads[source] - weights[own[at]] + weights[theirs]
        most = np.maximum(placement.limits, placement.loads)
        fits = (here <= most[target]).all(axis=1) & (there <= most[source]).all(axis=1)
        fits &= placement.allowed(theirs, others % placement.width, np.array([source]))[:, 0]
        fits &= placement.crowding.allows(theirs, np.full(len(theirs), target), np.array([source]))[:, 0]
        apart = np.abs(placement.sizes[theirs] - placement.sizes[own[at]])
        for other in others[fits][np.argsort(apart[fits], kind="stable")[:1]]:
            yield np.array([other, slots[at]]), np.array([source, target])


def _made(placement: Placement, slots: Ints, targets: Ints) -> bool:
    """Makes these moves one after the other if rules, limits and disks allow all of them. Returns whether they do."""
    homes, before = placement.replicas.ravel()[slots], placement.loads.copy()
    spread, done = placement.crowding, 0
    excess = spread.excess_replicas
    for at in range(len(slots)):
        slot, target = slots[at : at + 1], targets[at : at + 1]
        row, column = np.divmod(slot, placement.width)
        refused = placement.budget.refused(placement.sizes[row], ~placement.away(slot), column == 0)
        placement.budget.reached |= {name for name, mask in refused if mask[0]}
        if not placement.affordable(slot, target)[0] or not placement.allowed(row, column, target)[0, 0]:
            break
        placement.move(slot, target)
        done += 1
    touched = np.concatenate([homes, targets])
    most = np.maximum(placement.limits, before)[touched] * (1 + 1e-9)
    fits = bool((placement.loads[touched] <= most).all())
    if done == len(slots) and fits and spread.excess_replicas < excess:
        return True
    for at in reversed(range(done)):
        placement.move(slots[at : at + 1], homes[at : at + 1])
    return False
