"""Whether one replica, or two that change places, would bring a broker nearer to its band: who is excused outside it.

No plan is finer than its replicas, so a broker may end outside the tolerance by what one replica weighs, if that is
its own: a broker is excused where no single move and no swap that the rules allow helps it. To help is to lessen what
both brokers are outside their bands together, or to bring one nearer that is far worse off than the other becomes; and
to push neither further outside in another resource. Bytes in are the exception: disks outrank them, so a move that
helps a disk may cost them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.loads import BYTES_IN, DISK
from kafka_rebalance.planning.rules.rack_rule import allowed
from kafka_rebalance.planning.search.placement import Placement

Exchange = tuple[Ints, Ints]  # slots, and the brokers they go to: one of each, or two

_CHUNK = 50_000  # pairs that are looked at together
_PAIRS = 200_000  # swaps that are looked at, at most: of a broker's replicas the heaviest, as many as that lets
_FAR_WORSE = 2.5  # times as far outside
_STEPS = 100
_ROUNDING = 1e-6  # of a target
_MATTERS = 0.1  # of how far outside the broker is, or of the band: a swap that helps less is none


class Outside:
    """An assignment, its bands, and which loads they hold: [broker, resource], in the units of the placement."""

    def __init__(self, placement: Placement, bands: Bands, asked: Bools) -> None:
        self.placement, self.bands, self.asked = placement, bands, asked
        middle = (bands.low + bands.high) / 2
        self._fine = _ROUNDING * np.where(np.isfinite(middle), middle, 0.0).max(axis=0, initial=0.0)

    def excess(self) -> Floats:
        """[broker, resource] How far each load is outside its band; 0 where nothing is asked."""
        return self._excess(self.placement.loads, np.arange(len(self.placement.loads)))

    def is_helped(self, broker: int, resource: int) -> bool:
        """Whether a move or a swap brings the broker nearer to its band."""
        excess = float(self.excess()[broker, resource])
        if excess <= self._fine[resource]:
            return False
        return self.move(broker, resource) is not None or self._swap(broker, resource, excess) is not None

    def _excess(self, loads: Floats, brokers: Ints) -> Floats:
        low, high = self.bands.low[brokers], self.bands.high[brokers]
        return np.where(self.asked[brokers], np.maximum(np.maximum(low - loads, loads - high), 0.0), 0.0)

    def move(self, broker: int, resource: int) -> Exchange | None:
        """One that brings the broker nearer to its band; None where there is none."""
        placement = self.placement
        receivers = np.flatnonzero(placement.receivers)
        if placement.loads[broker, resource] > self.bands.high[broker, resource]:
            own = np.sort(placement.held[broker, : placement.count[broker]])
            slots, targets = np.repeat(own, len(receivers)), np.tile(receivers, len(own))
        else:
            slots = np.flatnonzero((placement.free & (placement.replicas >= 0)).ravel())
            targets = np.full(len(slots), broker)
        for part in _chunks(len(slots)):
            some, to = slots[part], targets[part]
            here = placement.replicas.ravel()[some]
            weights = placement.weights[some // placement.width]
            better = self._helps(here, to, weights, resource, self._fine[resource]) & (here != to)
            some, to = some[better], to[better]
            legal = np.flatnonzero(placement.legal(some, to[:, None])[:, 0])
            if len(legal):
                return some[legal[:1]], to[legal[:1]]
        return None

    def _swap(self, broker: int, resource: int, excess: float) -> Exchange | None:
        placement = self.placement
        held = placement.replicas.ravel()
        others = np.flatnonzero((placement.free & (placement.replicas >= 0)).ravel())
        others = others[(held[others] != broker) & placement.receivers[held[others]]]
        own = np.sort(placement.held[broker, : placement.count[broker]])
        if not len(others) or not len(own) or not placement.receivers[broker]:
            return None
        heaviest = np.argsort(-placement.weights[own // placement.width, resource], kind="stable")
        own = own[heaviest[: max(1, _PAIRS // len(others))]]
        width = self.bands.high[broker, resource] - self.bands.low[broker, resource]
        least = _MATTERS * min(excess, float(width))
        for part in _chunks(len(own) * len(others)):
            mine, theirs = own[part // len(others)], others[part % len(others)]
            there = held[theirs]
            rows, their_rows = mine // placement.width, theirs // placement.width
            net = placement.weights[rows] - placement.weights[their_rows]
            here = np.full(len(part), broker)
            better = self._helps(here, there, net, resource, least) & (rows != their_rows)
            mine, theirs = mine[better], theirs[better]
            for some in _chunks(len(mine)):
                legal = np.flatnonzero(self._may_swap(mine[some], theirs[some]))
                if len(legal):
                    first, second = mine[some][legal[0]], theirs[some][legal[0]]
                    return np.array([first, second]), np.array([held[second], broker])
        return None

    def _helps(self, sources: Ints, targets: Ints, weights: Floats, resource: int, least: float) -> Bools:
        """[pair] Whether `weights` [pair, resource] that go from one to the other help the resource by so much."""
        loads = self.placement.loads
        before = np.stack([self._excess(loads[sources], sources), self._excess(loads[targets], targets)])
        after = np.stack(
            [self._excess(loads[sources] - weights, sources), self._excess(loads[targets] + weights, targets)]
        )
        free = [k for k in range(loads.shape[1]) if k != resource and not (k == BYTES_IN and resource == DISK)]
        better = _nearer(before[:, :, resource], after[:, :, resource], least, self._fine[resource])
        harmless: Bools = (after[:, :, free] <= before[:, :, free] + self._fine[free]).all(axis=(0, 2))
        return better & harmless

    def _may_swap(self, mine: Ints, theirs: Ints) -> Bools:
        """[pair] Whether rack rule, log dirs, disks and crowding let two replicas change places."""
        placement, held = self.placement, self.placement.replicas.ravel()
        legal = np.ones(len(mine), dtype=bool)
        crowds = np.zeros(len(mine), dtype=bool)
        for slots, others in ((mine, theirs), (theirs, mine)):
            rows, columns = np.divmod(slots, placement.width)
            here, there = held[slots], held[others]
            legal &= allowed(placement.rule, placement.replicas, placement.domains, rows, columns, there[:, None])[:, 0]
            net = placement.weights[rows, DISK] - placement.weights[others // placement.width, DISK]
            now = placement.loads[there, DISK]
            legal &= now + net <= np.maximum(placement.disk_limit[there], now)
            crowds |= ~np.broadcast_to(placement.crowding.allows(rows, here, there[:, None]), (len(rows), 1))[:, 0]
        topics = placement.crowding.topic
        same: Bools = topics[mine // placement.width] == topics[theirs // placement.width]
        legal &= ~crowds | same
        return legal


def settle(placement: Placement, bands: Bands, asked: Bools) -> None:
    """Makes the moves that help single brokers, disks first and the furthest outside first, while one is affordable.

    Swaps are left to the search: there are too many to look at after each step.
    """
    for _ in range(_STEPS):
        outside = Outside(placement, bands, asked)
        excess = outside.excess()
        brokers, resources = np.nonzero(excess > 0)
        order = np.lexsort((brokers, -excess[brokers, resources], resources != DISK))
        for at in order:
            found = outside.move(int(brokers[at]), int(resources[at]))
            if found is not None and placement.affordable(*found).all():
                placement.move(*found)
                break
        else:
            return


def _nearer(before: Floats, after: Floats, least: Floats | float, fine: float) -> Bools:
    """[pair] Whether what two brokers are outside, [of two, pair], falls: in sum, or from the far worse to the other.

    Where one giant leaves too little for all others, what one of them gains another lacks, and the sum stays.
    """
    falls, squares = (before - after).sum(axis=0), (before * before - after * after).sum(axis=0)
    worst, grown = before.max(axis=0), np.where(after > before, after, 0.0).max(axis=0)
    evens_out = (falls >= -fine) & (worst - after.max(axis=0) > least) & (worst > _FAR_WORSE * grown)
    better: Bools = (squares > 0) & ((falls > least) | evens_out)
    return better


def _chunks(count: int) -> Iterator[Ints]:
    for start in range(0, count, _CHUNK):
        yield np.arange(start, min(count, start + _CHUNK))


@dataclass(frozen=True, slots=True, eq=False)
class Led:
    """Lists as something to re-order: who may lead instead, and what leading weighs."""

    replicas: Ints
    loads: Floats  # [broker, resource]
    weights: Floats  # [partition row, resource]
    bands: Bands
    may_lead: Bools  # [partition row, position]
    may_lose: Bools  # [partition row]

    def helped(self, broker: int, resource: int) -> bool:
        """Whether one list, led by another of its replicas, would bring the broker nearer to its band."""
        first = self.replicas[:, 0]
        above = self.loads[broker, resource] > self.bands.high[broker, resource]
        rows = np.flatnonzero(self.may_lose & ((first == broker) if above else (self.replicas == broker).any(axis=1)))
        for position in range(1, self.replicas.shape[1]):
            targets = self.replicas[rows, position]
            some = self.may_lead[rows, position] & (above | (targets == broker))
            if self._helps(first[rows[some]], targets[some], self.weights[rows[some]], resource).any():
                return True
        return False

    def _helps(self, sources: Ints, targets: Ints, weights: Floats, resource: int) -> Bools:
        before = np.stack([self._excess(self.loads[sources], sources), self._excess(self.loads[targets], targets)])
        given, taken = self.loads[sources] - weights, self.loads[targets] + weights
        after = np.stack([self._excess(given, sources), self._excess(taken, targets)])
        width = (self.bands.high - self.bands.low)[:, resource].max()
        least = _MATTERS * np.minimum(before[:, :, resource].max(axis=0), width)
        others = np.delete(after - before, resource, axis=2)
        better = _nearer(before[:, :, resource], after[:, :, resource], least, _ROUNDING * width)
        harmless: Bools = (others <= _ROUNDING * width).all(axis=(0, 2))
        return better & harmless

    def _excess(self, loads: Floats, brokers: Ints) -> Floats:
        return np.maximum(np.maximum(self.bands.low[brokers] - loads, loads - self.bands.high[brokers]), 0.0)
