"""One assignment while it is being searched: replicas, loads, who holds what, and what may still be spent."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafka_rebalance.planning.arrays import DISK, Bools, Floats, Ints, replica_loads
from kafka_rebalance.planning.bounds import Bands
from kafka_rebalance.planning.constraints import RackRule, allowed, domains_of


@dataclass(slots=True)
class Budget:
    """Limits of the settings, and what is spent of them. None: no limit."""

    max_bytes: int | None = None
    max_replicas: int | None = None
    max_leader_changes: int | None = None
    bytes: int = 0
    replicas: int = 0
    leader_changes: int = 0
    reached: set[str] = field(default_factory=set)  # limits that kept back a move that would have gained something

    def exceeded(self) -> tuple[tuple[str, int, int], ...]:
        """(limit, spent, allowed) of every limit that is already broken."""
        pairs = (
            ("max_bytes", self.bytes, self.max_bytes),
            ("max_replicas", self.replicas, self.max_replicas),
            ("max_leader_changes", self.leader_changes, self.max_leader_changes),
        )
        return tuple((name, spent, limit) for name, spent, limit in pairs if limit is not None and spent > limit)

    @property
    def limited(self) -> bool:
        return not (self.max_bytes is None and self.max_replicas is None and self.max_leader_changes is None)

    def refused(self, sizes: Ints, new_copy: Bools, leads: Bools) -> list[tuple[str, Bools]]:
        """Of each limit, which moves it forbids. A replica that already moved may go elsewhere for nothing."""
        found = []
        if self.max_bytes is not None:
            found.append(("max_bytes", new_copy & (sizes > self.max_bytes - self.bytes)))
        if self.max_replicas is not None:
            found.append(("max_replicas", new_copy & (self.replicas >= self.max_replicas)))
        if self.max_leader_changes is not None:
            found.append(("max_leader_changes", new_copy & leads & (self.leader_changes >= self.max_leader_changes)))
        return found


def distance(loads: Floats, low: Floats, high: Floats) -> Floats:
    """Squared distance to the band, summed over the resources (the last axis)."""
    outside = loads - np.minimum(np.maximum(loads, low), high)
    squares: Floats = np.einsum("...k,...k->...", outside, outside)
    return squares


class Placement:
    """Replicas in slots (row, column), flattened to `row * width + column`; a move gives a slot another broker."""

    def __init__(
        self,
        replicas: Ints,
        origin: Ints,
        weights: Floats,
        sizes: Ints,
        rule: RackRule,
        free: Bools,
        receivers: Bools,
        disk_limit: Floats,
        budget: Budget,
    ) -> None:
        """`origin` is where each slot's replica was in the snapshot (-1: nowhere), `free` which slots may be moved,
        `disk_limit` [broker] in the unit of `weights`.
        """
        self.replicas = replicas.copy()
        self.origin = origin
        self.weights, self.sizes, self.rule = weights, sizes, rule
        self.receivers, self.disk_limit, self.budget = receivers, disk_limit, budget
        self.width = replicas.shape[1]
        self.domains = domains_of(rule, replicas)
        self.loads = replica_loads(replicas, weights, len(receivers))
        self.free = free
        counts = (replicas >= 0).sum(axis=1)
        self.tight = rule.known and bool((counts == rule.racks).all())
        self._list_slots()

    def _list_slots(self) -> None:
        """Per broker a list of its movable slots, and per slot its place in that list: moves in constant time."""
        slots = np.flatnonzero((self.free & (self.replicas >= 0)).ravel())
        holders = self.replicas.ravel()[slots]
        order = np.argsort(holders, kind="stable")
        slots, holders = slots[order], holders[order]
        brokers = len(self.receivers)
        self.count = np.bincount(holders, minlength=brokers)
        room = 2 * max(int(self.count.max(initial=0)), len(slots) // max(1, int(self.receivers.sum()))) + 32
        self.held = np.zeros((brokers, room), dtype=np.int64)
        self.place = np.zeros(self.replicas.size, dtype=np.int64)
        starts = np.cumsum(self.count) - self.count
        self.place[slots] = np.arange(len(slots)) - starts[holders]
        self.held[holders, self.place[slots]] = slots

    def move(self, slot: int, target: int) -> None:
        """Gives the slot's replica to the target. The caller has asked `deltas` whether it may."""
        row, column = divmod(slot, self.width)
        source = int(self.replicas[row, column])
        self._account(slot, source, target)
        last = self.count[source] - 1
        moved = self.held[source, last]
        self.held[source, self.place[slot]] = moved
        self.place[moved] = self.place[slot]
        self.count[source] = last
        if self.count[target] >= self.held.shape[1]:
            self.held = np.hstack([self.held, np.zeros_like(self.held)])
        self.held[target, self.count[target]] = slot
        self.place[slot] = self.count[target]
        self.count[target] += 1
        self.replicas[row, column] = target
        self.domains[row, column] = self.rule.domain[target]
        self.loads[source] -= self.weights[row]
        self.loads[target] += self.weights[row]

    def _account(self, slot: int, source: int, target: int) -> None:
        """Spends the budget: a replica costs when it leaves its first broker, and nothing when it comes home."""
        row, column = divmod(slot, self.width)
        home = int(self.origin[row, column])
        change = int(target != home) - int(source != home)
        self.budget.replicas += change
        self.budget.bytes += change * int(self.sizes[row])
        self.budget.leader_changes += change if column == 0 else 0

    def away(self, slots: Ints) -> Bools:
        """Which slots' replicas are no longer where they began."""
        here: Bools = self.replicas.ravel()[slots] != self.origin.ravel()[slots]
        return here

    def affordable(self, slot: int, target: int) -> bool:
        """Whether the limits allow this move now."""
        if not self.budget.limited or target == self.origin.ravel()[slot]:
            return True
        one = np.array([slot])
        refused = self.budget.refused(self.sizes[one // self.width], ~self.away(one), one % self.width == 0)
        return not any(mask[0] for _, mask in refused)

    def deltas(self, slots: Ints, sources: Ints, targets: Ints, bands: Bands) -> Floats:
        """[slot, target] Change of the total distance to the bands; inf where rack rule, disk or limits forbid.

        `targets` is [target], or [slot, 1].
        """
        rows, columns = np.divmod(slots, self.width)
        weights = self.weights[rows]
        low, high = bands.low, bands.high
        given = distance(self.loads[sources] - weights, low[sources], high[sources])
        given -= distance(self.loads[sources], low[sources], high[sources])
        at = self.loads[targets]
        taken = distance(at + weights[:, None], low[targets], high[targets]) - distance(at, low[targets], high[targets])
        legal = allowed(self.rule, self.replicas, self.domains, rows, columns, targets)
        legal &= at[..., DISK] + weights[:, DISK, None] <= self.disk_limit[targets]
        change = np.where(legal, given[:, None] + taken, np.inf)
        if self.budget.limited:
            for name, mask in self.budget.refused(self.sizes[rows], ~self.away(slots), columns == 0):
                if (change[mask] < -1e-12).any():
                    self.budget.reached.add(name)
                change[mask] = np.inf
        return change

    def sample(self, broker: int, most: int, rng: np.random.Generator) -> Ints:
        """Up to `most` movable slots of one broker."""
        count = int(self.count[broker])
        if count <= most:
            return self.held[broker, :count].copy()
        drawn: Ints = self.held[broker, rng.integers(count, size=most)]
        return drawn
