"""One assignment during the search: replicas, loads, who holds what, and the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from kafka_rebalance.planning.bounds.targets import Bands, distance
from kafka_rebalance.planning.problem.arrays import (
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    added,
    changed_lists,
    replica_loads,
)
from kafka_rebalance.planning.rules.crowding import Crowding
from kafka_rebalance.planning.rules.rack_rule import RackRule, domains_of
from kafka_rebalance.planning.rules.where_replicas_may_go import MoveRule, allowed

GAIN = -1e-12  # a change of the distance smaller than this is rounding


class Limit(StrEnum):
    """A limit on a plan, by the name of its setting."""

    BYTES = "max_bytes"
    LEADER_CHANGES = "max_leader_changes"


@dataclass(slots=True)
class Budget:
    """Limits of the settings, and what is spent of them. None: no limit."""

    max_bytes: int | None = None
    max_leader_changes: int | None = None
    bytes: int = 0
    replicas: int = 0
    leader_changes: int = 0
    reached: set[Limit] = field(default_factory=set)  # limits that stopped a move that would have gained something

    def exceeded(self) -> tuple[tuple[Limit, int, int], ...]:
        """(limit, spent, allowed) of every limit that is exceeded."""
        limits, spent = self.limits, self.spent
        return tuple(
            (name, spent[name], limit) for name, limit in limits.items() if limit is not None and spent[name] > limit
        )

    @property
    def limits(self) -> Mapping[Limit, int | None]:
        return dict(zip(Limit, (self.max_bytes, self.max_leader_changes), strict=True))

    @property
    def spent(self) -> Mapping[Limit, int]:
        return dict(zip(Limit, (self.bytes, self.leader_changes), strict=True))

    @property
    def limited(self) -> bool:
        return not (self.max_bytes is None and self.max_leader_changes is None)

    def refused(self, sizes: Ints, new_copy: Bools, leads: Bools) -> list[tuple[Limit, Bools]]:
        """Which moves each limit forbids. A replica that has moved already may go elsewhere for nothing."""
        found = []
        if self.max_bytes is not None:
            found.append((Limit.BYTES, new_copy & (sizes > self.max_bytes - self.bytes)))
        if self.max_leader_changes is not None:
            found.append((Limit.LEADER_CHANGES, new_copy & leads & (self.leader_changes >= self.max_leader_changes)))
        return found


def budget_of(problem: Problem) -> Budget:
    """The limits of the settings, with nothing spent."""
    settings = problem.settings
    return Budget(settings.max_bytes, settings.max_leader_changes)


def total(problem: Problem, budgets: Sequence[Budget]) -> Budget:
    """The limits of the settings, and what these budgets have spent together."""
    budget = budget_of(problem)
    for one in budgets:
        budget.bytes += one.bytes
        budget.replicas += one.replicas
        budget.leader_changes += one.leader_changes
        budget.reached |= one.reached
    return budget


def spent(problem: Problem, now: Ints) -> Budget:
    """The limits, and what the lists cost."""
    before, budget = problem.replicas, budget_of(problem)
    new = added(now, before).sum(axis=1)
    budget.replicas = int(new.sum())
    budget.bytes = int((new * problem.size_bytes).sum())
    budget.leader_changes = int((changed_lists(before, now) & (now[:, 0] != problem.leader)).sum())
    return budget


def _nothing() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class CopyCosts:
    """What it costs to copy a replica, as bytes in the unit of the weights: [row, column], or [row, 1] if alike."""

    copied: Floats  # to a broker of another rack than that of the leader, which sends
    within: Floats | None = None  # to a broker of the leader's rack; None: racks make no difference
    sends: Ints = field(default_factory=_nothing)  # [row] the rack of today's leader
    rack: Ints = field(default_factory=_nothing)  # [broker] by number; each unknown one is a rack of its own

    def of(self, slots: Ints, width: int, targets: Ints) -> Floats:
        """[slot, target] The cost of a copy to the target. `targets` is [target], or [slot, 1]."""
        rows, columns = np.divmod(slots, width)
        copied: Floats = self.copied[rows, np.minimum(columns, self.copied.shape[1] - 1)][:, None]
        if self.within is None:
            return copied
        within = self.within[rows, columns][:, None]
        cost: Floats = np.where(self.rack[targets] == self.sends[rows][:, None], within, copied)
        return cost

    def changed(self, change: Callable[[Floats], Floats]) -> CopyCosts:
        within = None if self.within is None else change(self.within)
        return replace(self, copied=change(self.copied), within=within)


class Placement:
    """Replicas in slots (row, column), flattened to `row * width + column`. A move gives a slot another broker."""

    def __init__(
        self,
        replicas: Ints,
        origin: Ints,  # [row, column] where the replica was in the snapshot; -1: nowhere
        weights: Floats,
        sizes: Ints,
        copies: CopyCosts,
        rule: RackRule,
        others: tuple[MoveRule, ...],
        free: Bools,  # [row, column] slots that may be moved
        evened: Bools,  # [broker] whose loads count
        receivers: Bools,  # [broker] of these
        limits: Floats,  # [broker, resource] in the unit of `weights`
        crowding: Crowding,  # of `replicas`
        budget: Budget,
    ) -> None:
        self.replicas = replicas.copy()
        self.origin, self.free = origin, free
        self.weights, self.sizes, self.copies = weights, sizes, copies
        self.rule, self.others = rule, others
        self._others_at_home = tuple(other for other in others if other.binds_at_home)
        self.evened, self.receivers, self.limits = evened, receivers, limits
        self.crowding, self.budget = crowding, budget
        self.width = replicas.shape[1]
        self.domains = domains_of(rule, replicas)
        self.loads = replica_loads(replicas, weights, len(receivers))
        self._limited = np.flatnonzero(np.isfinite(limits).any(axis=0)).tolist()  # resources
        # A broker beyond a limit keeps what it has.
        self.home_limits = np.maximum(limits, replica_loads(origin, weights, len(receivers))) * (1 + 1e-9)
        self._one = float(weights[:, REPLICAS].max(initial=0.0))  # what a replica counts, whichever it is
        counts = (replicas >= 0).sum(axis=1)
        self.average = int(evened.sum()) / max(1, int(counts.sum()))  # weight of a replica, in every resource
        # Every rack holds one replica of everything: replicas only change places within their rack.
        self.tight = rule.known and rule.strict and bool((counts == rule.racks).all())
        self._list_slots()

    def copy(self) -> Placement:
        """The same assignment, for a search of its own."""
        twin = copy(self)
        for name in ("replicas", "domains", "loads", "count", "held", "place"):
            setattr(twin, name, getattr(self, name).copy())
        twin.crowding = self.crowding.copy()
        twin.budget = replace(self.budget, reached=set(self.budget.reached))
        return twin

    @property
    def groups(self) -> tuple[tuple[Bools, Ints], ...]:
        """(mask of brokers, those of them that receive) between which replicas can move: each rack, or all brokers."""
        receivers = np.flatnonzero(self.receivers)
        if not self.tight:
            return ((np.ones(len(self.receivers), dtype=bool), receivers),)
        domain = self.rule.domain
        return tuple((domain == rack, receivers[domain[receivers] == rack]) for rack in np.unique(domain[receivers]))

    def movable_slots(self) -> Ints:
        return np.flatnonzero((self.free & (self.replicas >= 0)).ravel())

    def _list_slots(self) -> None:
        """Lists each broker's movable slots, and each slot's place in that list, so that a move takes constant time."""
        slots = self.movable_slots()
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

    def move(self, slots: Ints, targets: Ints) -> None:
        """Gives each slot's replica to its target. The caller has asked `changes` whether it may.

        No broker is the source of two of the moves, or the target of two, and their rows differ.
        """
        rows, columns = np.divmod(slots, self.width)
        sources = self.replicas[rows, columns]
        # A replica costs when it leaves its first broker, and nothing when it comes home.
        home = self.origin.ravel()[slots]
        change = (targets != home).astype(np.int64) - (sources != home)
        self.budget.replicas += int(change.sum())
        self.budget.bytes += int((change * self.sizes[rows]).sum())
        self.budget.leader_changes += int(change[columns == 0].sum())
        last = self.count[sources] - 1
        moved, gap = self.held[sources, last], self.place[slots]
        self.held[sources, gap] = moved
        self.place[moved] = gap
        self.count[sources] = last
        if int(self.count[targets].max(initial=0)) >= self.held.shape[1]:
            self.held = np.hstack([self.held, np.zeros_like(self.held)])
        at = self.count[targets]
        self.held[targets, at] = slots
        self.place[slots] = at
        self.count[targets] = at + 1
        self.replicas[rows, columns] = targets
        self.domains[rows, columns] = self.rule.domain[targets]
        self.loads[sources] -= self.weights[rows]
        self.loads[targets] += self.weights[rows]
        self.crowding.move(rows, sources, targets)

    def away(self, slots: Ints) -> Bools:
        """[slot] Whether the replica is no longer on its first broker."""
        here: Bools = self.replicas.ravel()[slots] != self.origin.ravel()[slots]
        return here

    def affordable(self, slots: Ints, targets: Ints) -> Bools:
        """[slot] Whether the limits allow the move, after the allowed moves before it."""
        spent = replace(self.budget, reached=set())
        rows, columns = np.divmod(slots, self.width)
        homes, fits = self.origin.ravel()[slots], np.ones(len(slots), dtype=bool)
        leaves_home = ~self.away(slots)
        for index in np.flatnonzero(leaves_home & (targets != homes)):
            one = slice(index, index + 1)
            refused = spent.refused(self.sizes[rows[one]], leaves_home[one], columns[one] == 0)
            fits[index] = not any(mask[0] for _, mask in refused)
            if not fits[index]:
                continue
            spent.replicas += 1
            spent.bytes += int(self.sizes[rows[index]])
            spent.leader_changes += int(columns[index] == 0)
        return fits

    @property
    def too_full(self) -> bool:
        """Whether a disk ends beyond both its limit and what it held at first, or a broker with too many replicas."""
        return bool((self.loads > self.home_limits)[self.receivers].any())

    @property
    def is_any_at_its_most(self) -> bool:
        """Whether a broker that receives has all the replicas that it may have."""
        return bool((self.loads[:, REPLICAS] + self._one > self.limits[:, REPLICAS])[self.receivers].any())

    def allowed(self, rows: Ints, columns: Ints, targets: Ints, *, repair: bool = False) -> Bools:
        """[move, target] As of the function of that name, with the lists as they are now."""
        return allowed(self.rule, self.others, self.replicas, self.domains, rows, columns, targets, repair=repair)

    def legal(self, slots: Ints, targets: Ints, *, crowd: bool = False, home: bool = False) -> Bools:
        """[slot, target] Whether rack rule, crowding, disk and number of replicas let the replica go there.

        `targets` is [target], or [slot, 1]. With `crowd` a topic may crowd a broker, if replicas must go somewhere.
        With `home` the targets are the first brokers of the replicas, which lie there already. So these receive
        nothing, and a disk or a log dir needs no room for them, as long as it ends with no more than at first.
        """
        rows, columns = np.divmod(slots, self.width)
        others = self._others_at_home if home else self.others
        free = allowed(self.rule, others, self.replicas, self.domains, rows, columns, targets)
        if not crowd:
            free &= self.crowding.allows(rows, self.replicas[rows, columns], targets)
        return free & self.has_room(rows, targets, self.home_limits if home else self.limits)

    def has_room(self, rows: Ints, targets: Ints, limits: Floats | None = None) -> Bools:
        """[row, target] Whether the target may have one more such replica."""
        limits = self.limits if limits is None else limits
        room: Bools = np.ones((len(rows), targets.shape[-1]), dtype=bool)
        for k in self._limited:
            room &= self.loads[targets, k] + self.weights[rows, k, None] <= limits[targets, k]
        return room

    def permitted(self, slots: Ints, targets: Ints) -> Bools:
        """[slot] Whether rack rule and limits let each slot's replica go to its own target."""
        rows, columns = np.divmod(slots, self.width)
        free = self.allowed(rows, columns, targets[:, None])[:, 0]
        for _, mask in self.budget.refused(self.sizes[rows], ~self.away(slots), columns == 0):
            free &= ~mask
        return free

    def changes(self, slots: Ints, targets: Ints, bands: Bands, *, crowd: bool = False, home: bool = False) -> Floats:
        """[slot, target] Change of the total distance to the bands; inf if rules, disk or limits forbid the move.

        `targets` is [target], or [slot, 1]; `crowd` and `home` as in `legal`.
        """
        rows, columns = np.divmod(slots, self.width)
        sources = self.replicas[rows, columns]
        weights, low, high = self.weights[rows], bands.low, bands.high
        at = self.loads[sources]
        given = distance(at - weights, low[sources], high[sources]) - distance(at, low[sources], high[sources])
        there, least, most = self.loads[targets], low[targets], high[targets]
        change: Floats = given[:, None] - distance(there, least, most)
        for k in range(weights.shape[1]):
            # One resource at a time, because these are the largest arrays of the search.
            outside = there[..., k] + weights[:, k, None]
            outside -= np.clip(outside, least[..., k], most[..., k])
            outside *= outside
            change += outside
        change[~self.legal(slots, targets, crowd=crowd, home=home)] = np.inf
        if self.budget.limited:
            for name, mask in self.budget.refused(self.sizes[rows], ~self.away(slots), columns == 0):
                if (change[mask] < GAIN).any():
                    self.budget.reached.add(name)
                change[mask] = np.inf
        return change

    def move_best(
        self, slots: Ints, targets: Ints, bands: Bands, *, only: Bools | None = None, instead: Floats | None = None
    ) -> bool:
        """Makes the legal move that helps most, crowding a broker if no other is legal. Returns whether one is legal.

        `only` is [slot, target], the moves to choose from. With `instead` the target of the lowest value wins.
        """
        for crowd in (False, True):
            change = self.changes(slots, targets, bands, crowd=crowd)
            if instead is not None:
                change = np.where(np.isfinite(change), instead, np.inf)
            if only is not None:
                change = np.where(only, change, np.inf)
            if np.isfinite(change).any():
                slot, target = np.unravel_index(int(change.argmin()), change.shape)
                self.move(slots[slot : slot + 1], targets[target : target + 1])
                return True
        return False

    def sample(self, brokers: Ints, each: int, rng: np.random.Generator) -> Ints:
        """[broker, draw] Movable slots of these brokers, drawn at random. Every broker must hold one."""
        counts = self.count[brokers]
        drawn: Ints = self.held[brokers[:, None], (rng.random((len(brokers), each)) * counts[:, None]).astype(np.int64)]
        return drawn
