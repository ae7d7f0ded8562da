"""Leaders by re-ordering replica lists: the first replica is the preferred leader, and re-ordering copies nothing."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, band, distance
from kafka_rebalance.planning.bounds.targets import leader_targets
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Floats,
    Ints,
    changed_lists,
    firsts,
    lagging,
    led_first,
    widened,
)
from kafka_rebalance.planning.problem.loads import leader_loads, leader_weights
from kafka_rebalance.planning.search.frame import FoundLists, Frame
from kafka_rebalance.planning.search.placement import Budget, Limit

_GAIN = -1e-13
_ROUNDS = 400
# A narrow aim inside the band lets leaders pass through brokers that are within the band themselves.
_AIMS = (0.6, 0.3, 0.0)


def with_leaders(frame: Frame, replicas: Ints, budget: Budget, seed: tuple[int, int, int]) -> FoundLists:
    """The lists, re-ordered with few changes until leaders are within the tolerance or nothing gains.

    No replica that is out of the ISR now becomes a leader, unless the leader leaves and no other may lead. Kafka itself
    would wait. The controller ends a reassignment only when every replica of the new list is in the ISR
    (KafkaController.areReplicasInIsr), and it elects preferred leaders from the ISR alone. But the batch would wait as
    long, and the leaders would not be as even as planned.
    """
    found = _Leaders(frame, replicas, budget, np.random.default_rng([*seed, 1_000]))
    found.balance()
    lists = np.where(found.movable[:, None], found.lists, replicas)
    return FoundLists(
        lists, replicas, frame.goal, frame.rule, frame.wanted, frame.targets, found.targets, frame.scale, budget,
        frame.relief,
    )  # fmt: skip


class _Leaders:
    """Lists while they are re-ordered. Loads and weights are in units of the mean staying broker."""

    def __init__(self, frame: Frame, replicas: Ints, budget: Budget, rng: np.random.Generator) -> None:
        problem, self.goal = frame.problem, frame.goal
        self.evened, self.leaving, self.budget, self.rng = problem.evened, problem.leaving, budget, rng
        self.before = widened(problem.replicas, replicas.shape[1])
        self.movable: Bools = problem.movable & (self.goal.all_leaders | changed_lists(self.before, replicas))
        # The other partitions keep today's leader.
        self.lists = led_first(replicas, np.where(self.movable, replicas[:, 0], problem.leader))
        raw, self.targets = leader_weights(problem, self.lists), leader_targets(problem, self.lists)
        scale = raw.sum(axis=0) / max(1, int(problem.staying.sum()))
        self.unit = np.where(scale > 0, scale, 1.0)
        self.givers = self.evened
        if self.goal.one_sided:
            held = leader_loads(self.lists[:, 0], raw, len(self.evened))
            self.givers = self.evened & (held > self.targets * (1 + self.goal.tolerance)).any(axis=1)
        self.weights = raw / self.unit
        self.loads = leader_loads(self.lists[:, 0], self.weights, len(self.evened))
        # If the leader leaves and all that may follow it are out of the ISR, one of them has to lead.
        self.behind = lagging(problem, replicas)  # [row, position]
        may_lead = (self.lists >= 0) & self.evened[self.lists] & ~self.behind
        self.behind[self.movable & self.leaving[self.lists[:, 0]] & ~may_lead[:, 1:].any(axis=1)] = False

    def balance(self) -> None:
        full = self._bands(1.0)
        for aim in _AIMS:
            bands = self._bands(aim)
            for _ in range(_ROUNDS):
                if self._far(full).max(initial=0.0) <= 0 and self.loads[self.leaving].sum() <= 0:
                    break
                rows, positions = self._within_budget(*self._swaps(bands))
                if not len(rows):
                    break
                self._swap(rows, positions)
        self._undo(full)

    def _bands(self, aim: float) -> Bands:
        bands = band(self.targets / self.unit, self.goal.tolerance * aim)
        return Bands(np.zeros_like(bands.low), bands.high) if self.goal.one_sided else bands

    def _far(self, bands: Bands) -> Floats:
        return np.where(self.evened, distance(self.loads, bands.low, bands.high), 0.0)

    def _swaps(self, bands: Bands) -> tuple[Ints, Ints]:
        """(rows, positions) whose replica at the position should lead: at most one change per giver and per taker."""
        lists, far = self.lists, self._far(bands)
        concerned = (far > 0) | self.leaving
        may_lose = (self.givers | self.leaving)[lists[:, 0]]
        rows = np.flatnonzero(self.movable & may_lose & (concerned[lists] & (lists >= 0)).any(axis=1))
        if not len(rows) or lists.shape[1] < 2:
            return rows[:0], rows[:0]
        source, weight = lists[rows, 0], self.weights[rows]
        give = distance(self.loads[source] - weight, bands.low[source], bands.high[source]) - far[source]
        # A broker that leaves must lose every leader, and what it still leads is no measure of balance.
        give = np.where(self.leaving[source], -1e6, give)
        gain = np.full((len(rows), lists.shape[1]), np.inf)
        for position in range(1, lists.shape[1]):
            target = lists[rows, position]
            taken = distance(self.loads[target] + weight, bands.low[target], bands.high[target]) - far[target]
            # The leader from before the plan is not a new leader, even out of the ISR.
            in_time = ~self.behind[rows, position] | (target == self.before[rows, 0])
            gain[:, position] = np.where((target >= 0) & self.evened[target] & in_time, give + taken, np.inf)
        position = gain.argmin(axis=1)
        value = gain[np.arange(len(rows)), position]
        better = np.flatnonzero(value < _GAIN)
        # A little noise in the order keeps rounds from taking the same partitions' side again and again.
        better = better[np.argsort(value[better] * self.rng.uniform(0.7, 1.3, len(better)), kind="stable")]
        # A broker that leaves gives everything anyway.
        keep = firsts(source[better]) | self.leaving[source[better]]
        keep &= firsts(lists[rows[better], position[better]])
        if len(better) and not keep.any():
            keep[0] = True
        chosen = better[keep]
        return rows[chosen], position[chosen]

    def _within_budget(self, rows: Ints, positions: Ints) -> tuple[Ints, Ints]:
        """The first of the swaps that the limit on leader changes allows; spends it."""
        most, old = self.budget.max_leader_changes, self.before[rows, 0]
        becomes = (self.lists[rows, positions] != old).astype(np.int64)
        change = becomes - (self.lists[rows, 0] != old)
        if most is not None:
            fits = self.budget.leader_changes + np.cumsum(np.maximum(change, 0)) <= most
            if not fits.all():
                self.budget.reached.add(Limit.LEADER_CHANGES)
            fits |= change <= 0
            rows, positions, change = rows[fits], positions[fits], change[fits]
        self.budget.leader_changes += int(change.sum())
        return rows, positions

    def _swap(self, rows: Ints, positions: Ints) -> None:
        """The replica at the position and the leader change places."""
        old, new = self.lists[rows, 0], self.lists[rows, positions]
        for values in (self.lists, self.behind):
            values[rows, 0], values[rows, positions] = values[rows, positions], values[rows, 0]
        np.subtract.at(self.loads, old, self.weights[rows])
        np.add.at(self.loads, new, self.weights[rows])

    def _undo(self, bands: Bands) -> None:
        """Gives leadership back where its change gains nothing."""
        old_leaders = self.before[:, 0]
        changed = self.movable & (self.lists[:, 0] != old_leaders) & self.evened[old_leaders]
        for row in np.flatnonzero(changed & (self.lists == old_leaders[:, None]).any(axis=1)):
            pair = [int(self.lists[row, 0]), int(old_leaders[row])]
            low, high = bands.low[pair], bands.high[pair]
            after = self.loads[pair] + np.stack([-self.weights[row], self.weights[row]])
            if (distance(after, low, high) - distance(self.loads[pair], low, high)).sum() <= 1e-13:
                self._swap(np.array([row]), np.flatnonzero(self.lists[row] == pair[1])[:1])
                self.budget.leader_changes -= 1
