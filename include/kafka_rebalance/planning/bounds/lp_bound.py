"""The bytes that no plan stays below, from a linear program: replicas may leave in fractions and land anywhere.

Variables: y in [0, 1], the share of a replica that leaves its broker; z >= 0, what each broker receives of each
resource, and 0 for brokers that only give. Rows: every evened broker ends within its bands; what leaves arrives; each
rack ends with what its rack rule demands and allows; a partition that is to end on more racks sends that many replicas
away. Every plan that ends within the bands solves the program, so the program's least bytes are a bound. The rule that
a replica does not go back to a broker that it left lately (`NotBack`) is no row: it only makes plans dearer.

The solver sees *cells*: replicas of one broker with similar ratios of weights, which leave in equal shares. By weak
duality, all prices (dual values) give a bound, wherever they come from. So the code prices every single replica exactly
with the prices of the cells. It splits cells whose replicas the prices treat differently, and solves again, until the
bound meets the cost of the cells. A million replicas take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.problem.arrays import (
    BYTES_IN,
    REPLICA_METRICS,
    Bools,
    Floats,
    Ints,
    Problem,
    replica_loads,
    replica_weights,
    replication,
)
from kafka_rebalance.planning.rules.rack_rule import RackRule, domains_of, rack_rule, violations

_WIDEN = 1e-9  # of a band: more than the order of a sum can change
_CELLS = 20_000  # at most so many replicas, and each is a cell of its own
_STRATA = (5, 4)  # first cells of a broker otherwise: by size, within these by bytes in for each byte
_ROUNDS = 6  # programs, at most
_CLOSE = 2e-4  # of the bytes: finer cells could add no more
_EFFORT: solver.Options = {"solver": "ipm", "run_crossover": "off", "ipm_iteration_limit": 300}
K = len(REPLICA_METRICS)


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """A bound, and how near it is to the program's optimum."""

    bytes: int
    reachable: float  # bytes of the best fractional plan found; no prices of this program can prove more
    columns: int  # of the largest program


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The program over single replicas. Loads and costs are in units of the mean evened broker."""

    broker: Ints  # [replica that may leave] index among the evened brokers
    weights: Floats  # [replica, resource]
    cost: Floats  # [replica]
    repair: Ints  # [replica] the repair it belongs to; -1: none
    repairs: Floats  # [repair] how many of its replicas must leave
    band_low: Floats  # [evened broker, resource] its least net gain
    band_high: Floats
    receives: Bools  # [evened broker] False: it only gives
    group: Ints  # [evened broker] its rack
    group_low: Floats  # [rack, resource] least net gain of the rack's evened brokers
    group_high: Floats
    gain: Floats  # [resource] net gain of all evened brokers: the load of brokers to be emptied

    @property
    def row_low(self) -> Floats:
        return np.concatenate([self.band_low.ravel(), self.group_low.ravel(), self.gain, self.repairs])

    @property
    def row_high(self) -> Floats:
        most = np.full(len(self.repairs), np.inf)
        return np.concatenate([self.band_high.ravel(), self.group_high.ravel(), self.gain, most])


def relaxed_bound(problem: Problem, bands: Bands, sound: Bools, enters: Bools | None = None) -> Relaxation | None:
    """A bound for every plan that keeps the replica counts, empties the brokers that leave and ends within the bands.

    `bands` are [broker, REPLICA_METRICS] in the resources' own units, for evened brokers. `sound` is
    [partition row], whether the partition ends within the rack rule. `enters` is [partition row, position], the strays
    that go into their pool; None: there are none. None if the solver is missing or found no prices.
    """
    if not solver.available():
        return None
    evened = np.flatnonzero(problem.evened)
    raw = replica_weights(problem)
    scale = replica_loads(problem.replicas, raw, len(problem.brokers)).sum(axis=0) / max(1, len(evened))
    scale = np.where(scale > 0, scale, 1.0)
    unit = max(1.0, float((replication(problem.replicas) * problem.size_bytes).sum()) / max(1, len(evened)))
    held = np.maximum(problem.replicas, 0)
    lists = (problem.replicas >= 0) & problem.relocatable[:, None]
    free, forced = lists & problem.evened[held], lists & problem.leaving[held]
    if enters is not None:
        forced |= lists & enters
    needed = float((forced.sum(axis=1) * problem.size_bytes).sum())
    if not free.any():
        return Relaxation(int(needed), needed, 0)
    own_bands = Bands(bands.low / scale, bands.high / scale)
    model = _model(problem, own_bands, sound, raw / scale, problem.size_bytes / unit, free, forced)
    cells = _first_cells(model)
    best, reachable, columns = -np.inf, np.inf, 0
    for _ in range(_ROUNDS):
        cost, prices = _solve(model, cells)
        if len(prices) == 0:
            break
        columns, reachable = max(columns, int(cells.max()) + 1), min(reachable, cost)
        bound, reduced = _priced(model, prices)
        best = max(best, bound)
        finer = _split(cells, reduced)
        if reachable - best <= _CLOSE * abs(reachable) or finer is None:
            break
        cells = finer
    if not np.isfinite(best):
        return None
    # `best` is a sum of up to a few million terms, each exact to the last bit of a double.
    proven = max(0.0, best - 1e-9 * abs(best)) * unit + needed
    return Relaxation(int(proven), reachable * unit + needed, columns)


def _model(
    problem: Problem, bands: Bands, sound: Bools, weights: Floats, cost: Floats, free: Bools, forced: Bools
) -> _Model:
    """`bands` and `weights` are in units of the mean evened broker; `free` replicas may leave, `forced` must."""
    rule = rack_rule(problem)
    brokers = len(problem.brokers)
    loads = replica_loads(np.where(forced, -1, problem.replicas), weights, brokers)
    gain = (weights * forced.sum(axis=1)[:, None]).sum(axis=0)
    evened = np.flatnonzero(problem.evened)
    position = np.full(brokers, -1)
    position[evened] = np.arange(len(evened))
    wide = _WIDEN * (1 + np.abs(bands.high))
    low, high, now = (bands.low - wide)[evened], (bands.high + wide)[evened], loads[evened]
    racks, group = np.unique(rule.domain[evened], return_inverse=True)
    least, most = _rack_loads(problem, rule, racks, sound, weights)
    within, beyond, held = (
        np.stack([values[group == g].sum(axis=0) for g in range(len(racks))]) for values in (low, high, now)
    )
    stays = np.stack([loads[(rule.domain == rack) & ~problem.evened].sum(axis=0) for rack in racks])
    least, most = least - stays - _WIDEN, most - stays + _WIDEN
    # A row that the bands imply would only make the program larger.
    group_low = np.where(rule.known & (least > within), least - held, -np.inf)
    group_high = np.where(rule.known & (most < beyond), most - held, np.inf)
    rows, columns = np.nonzero(free)
    repair, repairs = _repairs(problem, rule, sound, free, forced)
    return _Model(
        position[problem.replicas[rows, columns]],
        weights[rows],
        cost[rows],
        repair,
        repairs,
        low - now,
        high - now,
        problem.receivers[evened],
        group,
        group_low,
        group_high,
        gain,
    )


def _rack_loads(problem: Problem, rule: RackRule, racks: Ints, sound: Bools, weights: Floats) -> tuple[Floats, Floats]:
    """[rack, resource] The least and the most load that the rule leaves in each rack."""
    counts = replication(problem.replicas)
    free = problem.relocatable & sound
    at_least = [np.where(free, rule.least(counts, rack), 0) for rack in racks]
    at_most = [np.where(free, rule.most(counts, rack), counts) for rack in racks]
    here = [(domains_of(rule, problem.replicas) == rack).sum(axis=1) for rack in racks]
    least, most = (
        np.stack(
            [
                (weights * np.where(problem.relocatable, limit, now)[:, None]).sum(axis=0)
                for limit, now in zip(limits, here, strict=True)
            ]
        )
        for limits in (at_least, at_most)
    )
    return least, most


def _repairs(problem: Problem, rule: RackRule, sound: Bools, free: Bools, forced: Bools) -> tuple[Ints, Floats]:
    """([free replica] the repair it belongs to, -1: none; [repair] how many of its replicas must leave)"""
    broken = np.flatnonzero(violations(rule, problem.replicas) & problem.relocatable & sound)
    mark = np.full(problem.replicas.shape, -1)
    needs: list[int] = []
    for row in broken:
        domains = domains_of(rule, problem.replicas[row : row + 1])[0]
        there, held = domains >= 0, problem.replicas[row] >= 0  # a dead broker that is emptied may have no rack
        if held.sum() > rule.racks:  # more replicas than racks: any of them may be the one that goes
            count = held.sum(keepdims=True)
            parts = [(held, int((rule.wanted(count) - rule.spread(domains[None], count))[0]))]
        else:
            parts = [(domains == rack, int((domains == rack).sum()) - 1) for rack in np.unique(domains[there])]
        for those, apart in parts:
            need = apart - int(forced[row, those].sum())
            if need > 0 and free[row, those].any():
                mark[row, those & free[row]] = len(needs)
                needs.append(min(need, int(free[row, those].sum())))
    return mark[free], np.array(needs, dtype=np.float64)


def _first_cells(model: _Model) -> Ints:
    """[replica] The number of its cell. Every replica of a repair is a cell of its own."""
    count = len(model.cost)
    if count <= _CELLS:
        return np.arange(count)
    sizes, rates = _STRATA
    key = model.broker * sizes + _stratum(model.broker, model.cost, sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(model.weights[:, BYTES_IN] / model.cost, posinf=1e300)
    key = key * rates + _stratum(key, ratio, rates)
    alone = model.repair >= 0
    key[alone] = key.max() + 1 + np.arange(int(alone.sum()))
    return _numbered(key)


def _numbered(key: Ints) -> Ints:
    numbers: Ints = np.unique(key, return_inverse=True)[1]
    return numbers


def _stratum(group: Ints, value: Floats, strata: int) -> Ints:
    """[replica] Which of so many equal parts of its group the value is in."""
    order = np.lexsort((value, group))
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - starts[group[order]]
    return rank * strata // sizes[group]


def _split(cells: Ints, reduced: Floats) -> Ints | None:
    """Splits cells in which the prices let some replicas leave and others stay. None if there is no such cell."""
    finer = _numbered(cells * 2 + (reduced < 0))
    return finer if finer.max() > cells.max() else None


def _solve(model: _Model, cells: Ints) -> tuple[float, Floats]:
    """The cost of the program over the cells, and its row prices; no prices if the solver gave up."""
    count, brokers = int(cells.max()) + 1, len(model.band_low)
    weights = np.stack([np.bincount(cells, model.weights[:, k], count) for k in range(K)], axis=1)
    broker, repair = np.zeros(count, dtype=np.int64), np.full(count, -1)
    broker[cells], repair[cells] = model.broker, model.repair
    cell, flow = np.arange(count), count + np.arange(brokers * K).reshape(brokers, K)
    entries = []  # (rows, columns, values)
    groups, low, high = brokers * K, model.row_low, model.row_high
    totals = groups + model.group_low.size
    for k in range(K):
        # The rows of the bands, of the racks, and of all together.
        for row in (np.arange(brokers) * K + k, groups + model.group * K + k, np.full(brokers, totals + k)):
            entries += [(row[broker], cell, -weights[:, k]), (row, flow[:, k], np.ones(brokers))]
    tied = np.flatnonzero(repair >= 0)
    entries.append((totals + K + repair[tied], tied, np.ones(len(tied))))
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    used = np.isfinite(low) | np.isfinite(high)
    number = np.cumsum(used) - 1
    entry = used[row] & (value != 0)
    cost = np.concatenate([np.bincount(cells, model.cost, count), np.zeros(brokers * K)])
    upper = np.concatenate([np.ones(count), np.repeat(np.where(model.receives, np.inf, 0.0), K)])
    found = solver.solve(
        solver.Program(cost, upper, low[used], high[used], number[row[entry]], column[entry], value[entry]), _EFFORT
    )
    if not len(found.prices):
        return np.inf, found.prices
    prices = np.zeros(len(used))
    prices[used] = found.prices
    return found.cost if found.optimal else np.inf, prices


def _priced(model: _Model, prices: Floats) -> tuple[float, Floats]:
    """(the bound that row prices prove, [replica] its reduced cost)"""
    brokers, groups = len(model.band_low), model.group_low.size
    low, high = model.row_low, model.row_high
    # A price needs an end of its row on its side.
    prices = np.where(np.isfinite(np.where(prices > 0, low, high)), prices, 0.0)
    shared = prices[brokers * K : brokers * K + groups].reshape(-1, K)[model.group]
    shared = shared + prices[brokers * K + groups : brokers * K + groups + K]
    # Inflow is without limit, so its reduced cost, -(band + shared), must not be negative. Givers have no inflow.
    own = prices[: brokers * K].reshape(brokers, K)
    band = np.where(model.receives[:, None], np.minimum(own, -shared), own)
    prices[: brokers * K] = band.ravel()
    ends = np.where(prices > 0, low, high)
    fixed = float(prices[prices != 0] @ ends[prices != 0])
    relief = -(band + shared)
    reduced = model.cost - np.einsum("rk,rk->r", model.weights, relief[model.broker])
    tied = model.repair >= 0
    reduced[tied] -= prices[brokers * K + groups + K :][model.repair[tied]]
    return fixed + float(np.minimum(reduced, 0.0).sum()), reduced


# Bytes and seconds that no plan stays below, from sums over the brokers.


def moved_bytes_bound(
    load: Floats, bands: tuple[Floats, Floats], staying: Bools, needed: float, *, same_factor: bool
) -> int:
    """Bytes that every plan must copy if its brokers end between low and high, in bytes on disk.

    `load` is [broker] before. Every plan makes the copies in `needed`: of replicas on brokers to be emptied, and of
    replicas that a higher replication factor adds. With the `same_factor`, a plan also copies what leaves a broker
    above its band. Otherwise it may just drop that.
    """
    low, high = bands
    giving = needed + (np.maximum(0, load - high)[staying].sum() if same_factor else 0.0)
    taking = np.maximum(0, low - load)[staying].sum()
    return int(max(giving, taking))


def makespan_bound(received: Floats, sent: Floats, bytes_per_second: int) -> float:
    """Seconds that every order of the copies needs: the busiest broker's bytes at its throttle."""
    return float(max(received.max(initial=0.0), sent.max(initial=0.0))) / bytes_per_second
