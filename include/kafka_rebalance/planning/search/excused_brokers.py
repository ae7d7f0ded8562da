"""Which brokers are excused outside their band: those that no allowed single move and no allowed swap would help.

No plan is finer than its replicas, so a broker may end outside the tolerance by the weight of one replica. A move helps
if it lessens what both brokers together are outside their bands. It also helps if it brings one broker nearer that is
far worse off than the other becomes. It must push neither further outside in another resource. Bytes in are the
exception: disks outrank them, so a move that helps a disk may cost bytes in. But no broker gets further outside
there than by one replica, unless it is already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.problem.arrays import BYTES_IN, DISK, REPLICAS, Bools, Floats, Ints
from kafka_rebalance.planning.search.leaders import Leading
from kafka_rebalance.planning.search.placement import Placement

Exchange = tuple[Ints, Ints]  # slots, and the brokers they go to: one of each, or two

_FIRST, _CHUNK = 1_000, 50_000  # pairs in the first array, and at most: most brokers are helped by an early pair
_PAIRS = 200_000  # swaps to try at most, with the heaviest replicas of a broker
_FAR_WORSE = 2.5  # times as far outside
_STEPS = 100
_ROUNDING = 1e-6  # of a target
_MATTERS = 0.1  # of how far outside the broker is, or of the band: a swap that helps less does not count


class Outside:
    """An assignment with its bands, in the units of the placement. `asked` is [broker, resource], which loads count."""

    def __init__(self, placement: Placement, bands: Bands, asked: Bools) -> None:
        self.placement, self.bands, self.asked = placement, bands, asked
        middle = (bands.low + bands.high) / 2
        self._fine = _ROUNDING * np.where(np.isfinite(middle), middle, 0.0).max(axis=0, initial=0.0)
        one = float(placement.weights[:, REPLICAS].max(initial=0.0))
        self._may_gain, self._may_lose = self._no_further(one), self._no_further(-one)
        self._slots: dict[bool, Ints] = {}  # {whether only of brokers that may lose a replica: the movable ones}

    def _no_further(self, one: float) -> Bools:
        """[broker] Whether it is no further outside in its number of replicas with `one` more.

        Most pairs do not help because of that. So these are left out before anything else is computed of them.
        """
        low, high = self.bands.low[:, REPLICAS], self.bands.high[:, REPLICAS]
        now = self.placement.loads[:, REPLICAS]
        before, after = (np.maximum(np.maximum(low - load, load - high), 0.0) for load in (now, now + one))
        allowed: Bools = ~self.asked[:, REPLICAS] | (after <= before + self._fine[REPLICAS])
        return allowed

    def _movable(self, *, may_lose: bool = False) -> Ints:
        """The slots that may move. The placement stays the same as long as this object is used."""
        if may_lose not in self._slots:
            slots = self.placement.movable_slots()
            self._slots[may_lose] = slots[self._may_lose[self.placement.replicas.ravel()[slots]]] if may_lose else slots
        return self._slots[may_lose]

    def excess(self) -> Floats:
        """[broker, resource] How far each load is outside its band; 0 where the load does not count."""
        bands, loads = self.bands, self.placement.loads
        return np.where(self.asked, np.maximum(np.maximum(bands.low - loads, loads - bands.high), 0.0), 0.0)

    def is_helped(self, broker: int, resource: int) -> bool:
        """Whether a move or a swap brings the broker nearer to its band."""
        excess = float(self.excess()[broker, resource])
        is_outside = excess > self._fine[resource]
        return is_outside and bool(self.move(broker, resource) or self._swap(broker, resource, excess))

    def move(self, broker: int, resource: int) -> Exchange | None:
        """A move that brings the broker nearer to its band; None if there is none."""
        placement, counts = self.placement, resource == REPLICAS
        above = placement.loads[broker, resource] > self.bands.high[broker, resource]
        if not counts and not (self._may_lose if above else self._may_gain)[broker]:
            return None
        if above:
            receivers = np.flatnonzero(placement.receivers & (self._may_gain | counts))
            own = np.sort(placement.held[broker, : placement.count[broker]])
            slots, targets = np.repeat(own, len(receivers)), np.tile(receivers, len(own))
        else:
            slots = self._movable(may_lose=not counts)
            targets = np.full(len(slots), broker)
        for part in _chunks(len(slots)):
            some, to = slots[part], targets[part]
            here = placement.replicas.ravel()[some]
            better = self._helps(here, to, some // placement.width, None, resource, self._fine[resource])
            better &= here != to
            some, to = some[better], to[better]
            legal = np.flatnonzero(placement.legal(some, to[:, None])[:, 0])
            if len(legal):
                return some[legal[:1]], to[legal[:1]]
        return None

    def _swap(self, broker: int, resource: int, excess: float) -> Exchange | None:
        placement = self.placement
        held = placement.replicas.ravel()
        others = self._movable()
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
            better = self._helps(np.full(len(part), broker), there, rows, their_rows, resource, least)
            better &= rows != their_rows
            mine, theirs = mine[better], theirs[better]
            for some in _chunks(len(mine)):
                legal = np.flatnonzero(self._may_swap(mine[some], theirs[some]))
                if len(legal):
                    first, second = mine[some][legal[0]], theirs[some][legal[0]]
                    return np.array([first, second]), np.array([held[second], broker])
        return None

    def _helps(self, sources: Ints, targets: Ints, rows: Ints, back: Ints | None, resource: int, least: float) -> Bools:
        """[pair] Whether it helps the resource by `least` if a replica of `rows` goes from source to target.

        A replica of `back` comes from there in exchange; None: a move alone. Most pairs do not help, so the other
        resources are looked at for the rest alone.
        """
        weights = self.placement.weights

        def compared(k: int, pairs: Ints | slice) -> tuple[Floats, Floats]:
            net = weights[rows[pairs], k] - (0.0 if back is None else weights[back[pairs], k])
            both = np.stack([sources[pairs], targets[pairs]])
            before, after = _before_and_after(self.bands, self.placement.loads, k, both, net)
            counts = self.asked[both, k]
            return np.where(counts, before, 0.0), np.where(counts, after, 0.0)

        helped = _nearer(*compared(resource, slice(None)), least, self._fine[resource])
        for k in range(weights.shape[1]):
            if k != resource:
                pairs = np.flatnonzero(helped)
                before, after = compared(k, pairs)
                kept = after <= before + self._fine[k]
                if k == BYTES_IN and resource == DISK:
                    one = weights[:, k].max(initial=0.0) + self._fine[k]
                    kept |= (after <= one) | (before > one)
                helped[pairs] = kept.all(axis=0)
        return helped

    def _may_swap(self, mine: Ints, theirs: Ints) -> Bools:
        """[pair] Whether rack rule, log dirs, disks and crowding let the two replicas change places."""
        placement, held = self.placement, self.placement.replicas.ravel()
        legal = np.ones(len(mine), dtype=bool)
        crowds = np.zeros(len(mine), dtype=bool)
        for slots, others in ((mine, theirs), (theirs, mine)):
            rows, columns = np.divmod(slots, placement.width)
            here, there = held[slots], held[others]
            legal &= placement.allowed(rows, columns, there[:, None])[:, 0]
            net = placement.weights[rows] - placement.weights[others // placement.width]
            now = placement.loads[there]
            legal &= (now + net <= np.maximum(placement.limits[there], now)).all(axis=1)
            crowds |= ~np.broadcast_to(placement.crowding.allows(rows, here, there[:, None]), (len(rows), 1))[:, 0]
        rows, others = mine // placement.width, theirs // placement.width
        legal &= ~crowds | placement.crowding.exchanges_evenly(rows, held[mine], others, held[theirs])
        return legal


def settle(placement: Placement, bands: Bands, asked: Bools) -> None:
    """Makes affordable moves that help single brokers: disks first, and the broker furthest outside first.

    It leaves swaps to the search, because there are too many to try after each step.
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
    """[pair] Whether what the two brokers are outside, [of two, pair], falls in sum, or the far worse one gets nearer.

    If one giant replica leaves too little for all other brokers, one gains what another lacks, and the sum stays.
    """
    falls, squares = (before - after).sum(axis=0), (before * before - after * after).sum(axis=0)
    worst, grown = before.max(axis=0), np.where(after > before, after, 0.0).max(axis=0)
    evens_out = (falls >= -fine) & (worst - after.max(axis=0) > least) & (worst > _FAR_WORSE * grown)
    better: Bools = (squares > 0) & ((falls > least) | evens_out)
    return better


def _before_and_after(bands: Bands, loads: Floats, resource: int, both: Ints, weights: Floats) -> tuple[Floats, Floats]:
    """[of two, pair] What `both`, source and target, are outside before and after the weights go to the target."""
    low, high, now = bands.low[both, resource], bands.high[both, resource], loads[both, resource]
    then = now + np.stack([-weights, weights])
    return np.maximum(np.maximum(low - now, now - high), 0.0), np.maximum(np.maximum(low - then, then - high), 0.0)


def _chunks(count: int) -> Iterator[Ints]:
    start, size = 0, _FIRST
    while start < count:
        yield np.arange(start, min(count, start + size))
        start, size = start + size, min(4 * size, _CHUNK)


@dataclass(frozen=True, slots=True, eq=False)
class Led:
    """Lists that may be re-ordered: who may lead instead, and the weight of leading."""

    replicas: Ints
    loads: Floats  # [broker, resource]
    weights: Floats  # [partition row, resource]
    bands: Bands
    may_lead: Bools  # [partition row, position]
    may_lose: Bools  # [partition row]

    def helped(self, outside: Bools) -> Bools:
        """[broker, resource] Which of these loads other leaders would bring nearer.

        That is one list with another leader, or a chain: each broker between the first and the last passes one on.
        """
        helped = self.helped_by_one(outside)
        left = np.argwhere(outside & ~helped)
        if len(left):
            leading = Leading(self.replicas, self.may_lead, self.may_lose, self.weights, len(self.loads))
            for broker, k in left.tolist():
                gives = bool(self.loads[broker, k] > self.bands.high[broker, k])
                helped[broker, k] = self._passed_on(leading, broker, k, gives=gives)
        return helped

    def helped_by_one(self, outside: Bools) -> Bools:
        """[broker, resource] Which of these loads one list, led by another of its replicas, would bring nearer."""
        above = outside & (self.loads > self.bands.high)
        below = outside & ~above
        helped = np.zeros_like(outside)
        rows, positions = np.nonzero(self.may_lead[:, 1:] & self.may_lose[:, None])
        sources, targets = self.replicas[rows, 0], self.replicas[rows, positions + 1]
        for k in np.flatnonzero(outside.any(axis=0)).tolist():
            gives, takes = above[sources, k], below[targets, k]
            some = np.flatnonzero(gives | takes)
            some = some[self._helps(sources[some], targets[some], self.weights[rows[some]], k)]
            helped[sources[some[gives[some]]], k] = True
            helped[targets[some[takes[some]]], k] = True
        return helped

    def _passed_on(self, leading: Leading, broker: int, resource: int, *, gives: bool) -> bool:
        """Whether a chain helps the broker, and takes no other one further away from its band."""
        for chain in leading.chains(broker, self.loads, self.bands, gives=gives):
            some = chain.brokers
            now, low, high = self.loads[some], self.bands.low[some], self.bands.high[some]
            before, after = (
                np.maximum(np.maximum(low - loads, loads - high), 0.0)
                for loads in (now, now + chain.changes(self.weights))
            )
            width = (self.bands.high - self.bands.low).max(axis=0)
            least = _MATTERS * min(float(before[[0, -1], resource].max()), float(width[resource]))
            worse = after > before + _ROUNDING * width
            worse[[0, -1], resource] = False
            first, last = (one[[0, -1], resource, None] for one in (before, after))
            if _nearer(first, last, least, _ROUNDING * float(width[resource]))[0] and not worse.any():
                return True
        return False

    def _helps(self, sources: Ints, targets: Ints, weights: Floats, resource: int) -> Bools:
        both = np.stack([sources, targets])

        def compared(k: int) -> tuple[Floats, Floats]:
            return _before_and_after(self.bands, self.loads, k, both, weights[:, k])

        width = (self.bands.high - self.bands.low)[:, resource].max()
        before, after = compared(resource)
        helped = _nearer(before, after, _MATTERS * np.minimum(before.max(axis=0), width), _ROUNDING * width)
        for k in range(weights.shape[1]):
            if k != resource:
                before, after = compared(k)
                helped &= (after - before <= _ROUNDING * width).all(axis=0)
        return helped
