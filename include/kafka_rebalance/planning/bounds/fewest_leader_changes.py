"""The fewest leader changes that bring the leaders of given lists into their bands: bounds, and what reaches them.

The program: one replica of each list leads, of those that may. Another leader than before costs 1. Every broker leads
within its bands, and the leaders of topics are together no more than `most_excess` beyond their even shares. Whole
numbers make it hard, in two ways that ask for two answers.

- **Prices** (`leader_prices`). In the Lagrangian dual, what a broker leads has a price, and so has each leader beyond
  the even share of its topic. Then each list finds its cheapest leader by itself. By weak duality any prices give a
  bound, wherever they come from, and the best ones give as much as the program in fractions (Geoffrion, 1974). A price
  rises where there is too much and falls where there is too little, by a step as long as the bound that is still hoped
  for allows (Polyak, 1969). This takes numpy alone.
- **Heavy partitions** (`heavy_leaders`). A fraction of a partition that takes a good part of a broker's band fits where
  the whole one never does. So a mixed-integer program has these as wholes. All others count in fractions: those that
  lose their leader one by one, and the rest by broker and weight, as if each could go to any broker that has any of
  its weight to take. That only makes the program easier, so that its optimum is a bound for every choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, leader_loads

_STEPS = 200  # for the bands, and as many again for topics
_PATIENCE, _SHORTER, _SHORTEST = 8, 0.7, 1e-3  # steps without a gain until steps become shorter; the end
_HOPE, _HOPE_LEAST = 0.05, 5.0  # by how much the bound that is hoped for is higher: a share, and changes
_GAIN, _NOTHING = 1e-6, 1e-16
_TINY = 1e-12

_HEAVY = 0.05  # of the most that a broker may lead
_SMALL, _COLUMNS = 8_000, 20_000  # of a program: with more, the solver takes half a minute, or does less
_WEIGHTS = 6  # classes of weight, each half of the one before
_EFFORT: solver.Options = {
    "mip_rel_gap": 0.01,
    "mip_abs_gap": 0.99,
    "mip_max_nodes": 1,
    "mip_pool_soft_limit": 200,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_detect_symmetry": False,
    "mip_allow_restart": False,
}
_LESS_EFFORT: solver.Options = {**_EFFORT, "mip_heuristic_run_root_reduced_cost": False}
_ROUNDING = 1e-6  # of a change


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Which replicas may lead which lists, and what they may lead together."""

    lists: Ints  # [partition row, position]
    may_lead: Bools  # [partition row, position] one of each list at least
    changes: Bools  # [partition row, position] that replica is another leader than before
    weights: Floats  # [partition row, resource]
    bands: Bands  # [broker, resource]; 0 and infinite for a broker without limits
    topic: Ints  # [partition row]
    most: Ints  # [topic, broker] the even share of a topic's leaders, rounded up
    most_excess: int  # leaders beyond it, over topics and brokers

    def of(self, rows: Ints) -> Choice:
        """The choice of these lists alone, within the same bands."""
        return replace(
            self,
            lists=self.lists[rows],
            may_lead=self.may_lead[rows],
            changes=self.changes[rows],
            weights=self.weights[rows],
            topic=self.topic[rows],
        )

    def led_by(self, heavy: HeavyLeaders) -> Choice:
        """The choice, in which heavy partitions are led as named."""
        may_lead = self.may_lead.copy()
        may_lead[heavy.rows] = np.arange(may_lead.shape[1]) == heavy.positions[:, None]
        return replace(self, may_lead=may_lead)

    def dearer(self, prices: Prices) -> Floats:
        """[row, position] What each list costs more than with its cheapest leader; infinite: it must not lead."""
        cost = np.where(self.may_lead, self.cost(prices), np.inf)
        more: Floats = cost - cost.min(axis=1, keepdims=True)
        return more

    def cost(self, prices: Prices) -> Floats:
        """[row, position] What each list costs if that replica leads."""
        return prices.of_leaders(self.lists, self.changes, self.weights, self.topic)


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices in leader changes, and what they prove."""

    bound: float  # no choice has fewer changes; minus infinity if nothing was tried
    of_load: Floats  # [broker, resource] of one unit; below 0 where the broker should lead more
    of_excess: float  # of one leader beyond the even share of its topic
    share: Floats  # [topic, broker] of that price, which one more leader pays: 1 if it is beyond the even share
    position: Ints  # [partition row] which replica leads at these prices

    @property
    def least(self) -> int:
        """No choice has fewer changes, and changes are whole."""
        return max(0, int(np.ceil(self.bound - _ROUNDING)))

    def of_leaders(self, lists: Ints, changes: Bools, weights: Floats, topic: Ints) -> Floats:
        """[row, position] What each list costs if that replica leads. The arguments are those of `Choice`."""
        held = np.maximum(lists, 0)
        cost: Floats = changes + self.of_excess * self.share[topic[:, None], held]
        for k in range(self.of_load.shape[1]):
            cost += self.of_load[held, k] * weights[:, k, None]
        return cost


def leader_prices(choice: Choice) -> Prices:
    """The prices with the highest bound that some hundred steps find."""
    rows = np.flatnonzero(choice.may_lead.sum(axis=1) > 1)
    position = choice.may_lead.argmax(axis=1)
    climb = _Climb(choice, rows, position)
    nothing = np.zeros(choice.bands.low.shape)
    best = climb.best(Prices(-np.inf, nothing, 0.0, np.zeros(choice.most.shape), position[rows]), with_topics=False)
    led = climb.led(best.position)
    if np.maximum(0, led - choice.most).sum() > choice.most_excess:
        best = climb.best(replace(best, share=(led >= choice.most).astype(np.float64)), with_topics=True)
    position[rows] = best.position
    return replace(best, position=position)


@dataclass(frozen=True, slots=True, eq=False)
class _Slope:
    """What the cheapest leaders at some prices prove, and how they break the limits."""

    bound: float
    position: Ints  # [list] which replica leads
    load: Floats  # [broker, resource] beyond the limit whose price it is; below 0: under it
    over: Ints  # [topic, broker] leaders beyond the even share, where that has a price or should have one
    excess: float  # of all topics beyond the most, as the prices count it


class _Climb:
    """The dual over the lists that have a choice; the others are part of the loads."""

    def __init__(self, choice: Choice, rows: Ints, position: Ints) -> None:
        self.brokers = len(choice.bands.low)
        fixed = np.ones(len(choice.lists), dtype=bool)
        fixed[rows] = False
        leader = np.take_along_axis(choice.lists, position[:, None], axis=1)[:, 0]
        self.base = leader_loads(leader[fixed], choice.weights[fixed], self.brokers)
        self.base_led = self._counted(choice, choice.topic[fixed], leader[fixed])
        self.paid = float(choice.changes[fixed, position[fixed]].sum())
        self.choice, self.all = choice.of(rows), np.arange(len(rows))
        self.barred = np.where(self.choice.may_lead, 0.0, np.inf)

    def _counted(self, choice: Choice, topic: Ints, leaders: Ints) -> Ints:
        cells = np.bincount(topic * self.brokers + leaders, minlength=choice.most.size)
        return cells.reshape(choice.most.shape)

    def led(self, position: Ints) -> Ints:
        """[topic, broker] how many partitions it leads"""
        leaders = self.choice.lists[self.all, position]
        return self.base_led + self._counted(self.choice, self.choice.topic, leaders)

    def best(self, start: Prices, *, with_topics: bool) -> Prices:
        """The best prices on the way from these. Without topics, the price of excess stays as it is."""
        best = now = start
        step, idle, weighs = 2.0, 0, (0.0, 0.0)
        for count in range(_STEPS):
            slope = self._slope(now, with_topics)
            idle += 1
            if slope.bound > best.bound + _GAIN or not count:
                best = replace(now, bound=max(slope.bound, start.bound), position=slope.position)
                idle = 0
            elif idle > _PATIENCE:
                step, idle, now = step * _SHORTER, 0, best
            loads_far, topics_far = float((slope.load**2).sum()), float((slope.over**2).sum())
            if not count:
                scale = loads_far if loads_far > _NOTHING else 1.0
                weighs = scale / max(1.0, slope.excess**2), scale / max(1.0, topics_far)
            far = loads_far + weighs[0] * slope.excess**2 + weighs[1] * topics_far
            if far < _NOTHING or step < _SHORTEST:
                break
            hoped = max(best.bound * (1 + _HOPE), best.bound + _HOPE_LEAST)
            now = self._stepped(now, slope, step * (hoped - slope.bound) / far, weighs, with_topics)
        return best

    def _slope(self, prices: Prices, with_topics: bool) -> _Slope:
        choice = self.choice
        low, high = choice.bands.low, choice.bands.high
        cost = choice.cost(prices) + self.barred
        position = cost.argmin(axis=1)
        loads = self.base + leader_loads(choice.lists[self.all, position], choice.weights, self.brokers)
        limit = np.where(prices.of_load > 0, high, np.where(prices.of_load < 0, low, np.clip(loads, low, high)))
        paid = np.multiply(prices.of_load, self.base - limit, out=np.zeros(limit.shape), where=prices.of_load != 0)
        bound = self.paid + float(cost[self.all, position].sum() + paid.sum())
        if not with_topics:
            return _Slope(bound, position, loads - limit, np.zeros((1, 1), dtype=np.int64), 0.0)
        fixed = float((prices.share * (self.base_led - choice.most)).sum()) - choice.most_excess
        over = self.led(position) - choice.most
        excess = float((prices.share * over).sum()) - choice.most_excess
        counts = (over > 0) | (prices.share > 0)
        return _Slope(bound + prices.of_excess * fixed, position, loads - limit, np.where(counts, over, 0), excess)

    def _stepped(
        self, prices: Prices, slope: _Slope, length: float, weighs: tuple[float, float], with_topics: bool
    ) -> Prices:
        of_load = prices.of_load + length * slope.load
        of_load = np.where(of_load * prices.of_load < 0, 0.0, of_load)  # a price passes 0 by a step of its own
        if not with_topics:
            return replace(prices, of_load=of_load)
        of_excess = max(0.0, prices.of_excess + length * weighs[0] * slope.excess)
        pays = np.clip(of_excess * prices.share + length * weighs[1] * slope.over, 0.0, of_excess)
        share = pays / of_excess if of_excess else prices.share
        return replace(prices, of_load=of_load, of_excess=of_excess, share=share)


@dataclass(frozen=True, slots=True, eq=False)
class HeavyLeaders:
    """Who leads heavy partitions where there are few changes in all."""

    bound: int  # no choice has fewer changes
    rows: Ints  # the heavy partitions
    positions: Ints  # which replica leads them


def heavy_leaders(choice: Choice) -> HeavyLeaders | None:
    """The leaders of heavy partitions, and the bound; None if the solver finds none, or would take long.

    Raises SolverError.
    """
    program = _HeavyProgram(choice)
    rows = program.program()
    if len(rows.cost) > _COLUMNS:
        return None
    solution = solver.solve(rows, _EFFORT if len(rows.cost) <= _SMALL else _LESS_EFFORT)
    if solution.x is None:
        return None
    led = (solution.x[: len(program.rows)] > 0.5) & program.heavy
    bound = int(np.ceil(solution.bound + program.paid - _ROUNDING))
    return HeavyLeaders(bound, program.rows[led], program.positions[led])


class _HeavyProgram:
    """The mixed-integer program: which columns and rows it has.

    A list is *single* if it is heavy, or if today's leader must go: each of its replicas that may lead is a column. The
    others lie in *cells*, one for each class of weight and broker. A cell has columns for how many leaders the broker
    gives and takes, and by resource for the load of these.
    """

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        brokers = len(choice.bands.low)
        keeps = choice.may_lead & ~choice.changes
        free = choice.may_lead.sum(axis=1) > 1
        heavy = (choice.weights > _HEAVY * choice.bands.high.min(axis=0)).any(axis=1)
        single = free & (heavy | ~keeps.any(axis=1))
        self.single = np.flatnonzero(single)
        self.number, self.positions = np.nonzero(choice.may_lead[self.single])
        self.rows = self.single[self.number]
        self.heavy: Bools = heavy[self.rows]

        first = np.where(keeps.any(axis=1), keeps.argmax(axis=1), choice.may_lead.argmax(axis=1))
        leader = np.take_along_axis(choice.lists, first[:, None], axis=1)[:, 0]
        self.base = leader_loads(leader[~single], choice.weights[~single], brokers)
        self.paid = int((choice.changes[np.arange(len(first)), first] & ~free).sum())

        others = np.flatnonzero(free & ~single)
        load = choice.weights[others, -1]  # the first resource is a count
        halvings = -np.log2(np.maximum(load / max(load.max(initial=0.0), _TINY), _TINY))
        group = np.minimum(_WEIGHTS - 1, halvings.astype(np.int64))
        row, position = np.nonzero(choice.may_lead[others] & choice.changes[others])
        self.cells = np.arange(_WEIGHTS * brokers)
        self.gives = np.bincount(group * brokers + leader[others], minlength=len(self.cells))
        self.takes = np.bincount(group[row] * brokers + choice.lists[others[row], position], minlength=len(self.cells))
        # [class, resource] the least and the greatest weight of one leader
        self.least = np.full((_WEIGHTS, choice.weights.shape[1]), np.inf)
        self.greatest = np.zeros(self.least.shape)
        np.minimum.at(self.least, group, choice.weights[others])
        np.maximum.at(self.greatest, group, choice.weights[others])
        self.least = np.where(np.isfinite(self.least), self.least, 0.0)

    def program(self) -> solver.Program:
        choice, cells, own = self.choice, self.cells, len(self.rows)
        brokers, resources = choice.bands.low.shape
        group, broker = np.divmod(cells, brokers)
        held, singles = choice.lists[self.rows, self.positions], np.arange(own)
        give, take = own + cells, own + len(cells) + cells
        loads = own + 2 * len(cells) + np.arange(2 * resources * len(cells)).reshape(resources, 2, -1)
        rows = _Rows()
        rows.add(1.0, 1.0, (self.number, singles, 1.0), count=len(self.single))
        rows.add(0.0, 0.0, (group, give, 1.0), (group, take, -1.0), count=_WEIGHTS)
        for k in range(resources):
            given, taken = loads[k]
            rows.add(
                choice.bands.low[:, k] - self.base[:, k],
                choice.bands.high[:, k] - self.base[:, k],
                (held, singles, choice.weights[self.rows, k]),
                (broker, given, -1.0),
                (broker, taken, 1.0),
                count=brokers,
            )
            rows.add(0.0, 0.0, (group, given, 1.0), (group, taken, -1.0), count=_WEIGHTS)
            for counts, load in ((give, given), (take, taken)):
                rows.add(0.0, np.inf, (cells, load, 1.0), (cells, counts, -self.least[group, k]), count=len(cells))
                rows.add(-np.inf, 0.0, (cells, load, 1.0), (cells, counts, -self.greatest[group, k]), count=len(cells))
        cost, upper = (
            np.zeros(own + (2 + 2 * resources) * len(cells)),
            np.full(own + (2 + 2 * resources) * len(cells), np.inf),
        )
        cost[:own], cost[give] = choice.changes[self.rows, self.positions], 1.0
        upper[:own], upper[give], upper[take] = 1.0, self.gives, self.takes
        return rows.program(cost, upper, np.concatenate([self.heavy, np.zeros(len(cost) - own, dtype=bool)]))


class _Rows:
    """The rows of a program while it is made."""

    def __init__(self) -> None:
        self._count = 0
        self._low: list[Floats] = []
        self._high: list[Floats] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []

    def add(
        self, low: Floats | float, high: Floats | float, *entries: tuple[Ints, Ints, Floats | float], count: int
    ) -> None:
        """`count` rows with these limits. Entries are (row among these, column, value)."""
        self._low.append(np.broadcast_to(low, count))
        self._high.append(np.broadcast_to(high, count))
        for row, column, value in entries:
            self._entries.append((self._count + row, column, np.broadcast_to(value, row.shape)))
        self._count += count

    def program(self, cost: Floats, upper: Floats, integral: Bools) -> solver.Program:
        row, column, value = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        return solver.Program(
            cost, upper, np.concatenate(self._low), np.concatenate(self._high), row, column, value, integral
        )
