"""A dive: the linear relaxation of a program of lists, made whole replica by replica, the heaviest first.

The heaviest replicas of all stay where the lists have them, because few places are left for them. In each round, those
of the others that the relaxation splits and that weigh most go where most of them is. Then it is solved again, so that
lighter ones make up for them (diving: Berthold, "Primal heuristics for mixed integer programs", 2006).

Most columns are never looked at. The prices of one relaxation say which others it lacks.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.loads import DISK
from kafka_rebalance.planning.search.by_solver.optimal import ListProgram

_HEAVY, _LIGHT = 0.25, 0.0125  # of the width of a band, which is twice the tolerance
_FIRST, _KEPT, _MORE = 2_500, 2_000, 3_500  # columns beside those of the lists, the cheapest by the prices
_AT_ONCE = 0.5  # share of the split replicas that one round places; a quarter of it after a round without solution
_AT_LEAST = 8  # so that the last rounds do not place one replica each
_ROUNDS, _FAILED = 24, 3  # at most, and of them without solution: these take longest
_FREE = 1e-12  # what no place of a program costs: the price of a copy alone is more
_WHOLE = 1e-6  # closer to a whole number than this is whole
_RELAXED: solver.Options = {"simplex_iteration_limit": 20_000}
_AGAIN: solver.Options = {"simplex_iteration_limit": 6_000}  # most rounds need some hundreds


def dived(
    program: ListProgram, whole: solver.Program, now: Floats, worth: Floats, weights: Floats, width: float
) -> Floats | None:
    """[partition, broker] The relaxation near the values `now`, in which hardly any but light replicas are split.

    `worth` is as of `worth_of_load`, `weights` are [partition, resource], and `width` is that of a band. None: the
    solver found none.
    """
    shape, size = program.has.shape, program.has.size
    heavy = weights[:, DISK:].max(axis=1) / width
    held = now[:size].reshape(shape) > 0.5
    may = (whole.upper[:size].reshape(shape) > 0.5) & (held | (heavy <= _HEAVY)[:, None])
    prices = np.zeros(len(whole.low))
    resources, rows = _band_rows(program, weights, len(prices))
    prices[rows] = worth[np.ix_(program.brokers, resources)].T
    chosen = _with_cheapest(held, may, _per_byte(whole, prices, held), _FIRST)
    for keeps in (size, _KEPT):
        near, prices = _relaxation(program, whole, now, chosen)
        if near is None:
            return None
        dear = _per_byte(whole, prices, chosen)
        chosen = _with_cheapest(held | (near > _WHOLE), chosen, dear, keeps)
        chosen = _with_cheapest(chosen, may & (dear < -_WHOLE), dear, _MORE)
    return _placed(program, whole, now, chosen, heavy)


def worth_of_load(program: ListProgram, weights: Floats, prices: Floats, brokers: int) -> Floats:
    """[broker, resource] What a unit of load is worth there, by the prices of the program's rows."""
    worth = np.zeros((brokers, weights.shape[1]))
    resources, rows = _band_rows(program, weights, len(prices))
    worth[np.ix_(program.brokers, resources)] = prices[rows].T
    return worth


def _band_rows(program: ListProgram, weights: Floats, rows: int) -> tuple[Ints, Ints]:
    """(resources that have bands, [resource, broker] the rows of these bands, which are the last ones)"""
    resources, brokers = np.flatnonzero(weights.any(axis=0)), len(program.brokers)
    return resources, np.arange(rows - len(resources) * brokers, rows).reshape(-1, brokers)


def _per_byte(whole: solver.Program, prices: Floats, those: Bools) -> Floats:
    """[partition, broker] What a replica costs there beyond the cheapest of `those` places, as a share of its bytes."""
    cost = whole.cost[: those.size].reshape(those.shape)
    values = whole.values * prices[whole.rows]
    reduced = cost - np.bincount(whole.columns, values, minlength=len(whole.cost))[: those.size].reshape(those.shape)
    cheapest = np.where(those, reduced, np.inf).min(axis=1)
    # A partition that every one of these brokers holds has no place that costs anything.
    share: Floats = (reduced - cheapest[:, None]) / np.maximum(cost.max(axis=1), _FREE)[:, None]
    return share


def _with_cheapest(chosen: Bools, others: Bools, dear: Floats, count: int) -> Bools:
    """The chosen columns, and as many of the others, those of least cost."""
    more = np.flatnonzero((others & ~chosen).ravel())
    result = chosen.copy().ravel()
    result[more[np.argsort(dear.ravel()[more], kind="stable")[:count]]] = True
    return result.reshape(chosen.shape)


def _relaxation(
    program: ListProgram, whole: solver.Program, now: Floats, chosen: Bools
) -> tuple[Floats | None, Floats]:
    """([partition, broker] the relaxation over the chosen columns, or None, [row] its prices)"""
    unfixed = _unfixed(program, chosen)
    found = solver.solve(solver.relaxed(whole.part(unfixed, now)), _RELAXED)
    prices = np.zeros(len(whole.low))
    if found.x is None or not found.optimal:
        return None, prices
    prices[np.unique(whole.rows[unfixed[whole.columns]])] = found.prices
    return _shares(chosen, found.x), prices


def _unfixed(program: ListProgram, chosen: Bools) -> Bools:
    """[column] The chosen ones, and those of crowded replicas in which a chosen one counts."""
    crowds = np.zeros(len(program.crowd_topic), dtype=bool)
    crowds[program.crowd_rows[chosen.ravel()[program.crowd_of]]] = True
    return np.concatenate([chosen.ravel(), crowds])


def _shares(chosen: Bools, values: Floats) -> Floats:
    shares = np.zeros(chosen.shape)
    shares[chosen] = values[: int(chosen.sum())]
    return shares


def _placed(program: ListProgram, whole: solver.Program, now: Floats, chosen: Bools, heavy: Floats) -> Floats | None:
    """[partition, broker] The relaxation in which only light replicas are split; None: none was found."""
    unfixed = _unfixed(program, chosen)
    part = whole.part(unfixed, now)
    repeated, upper = solver.Repeated(solver.relaxed(part), _AGAIN), part.upper
    number = np.cumsum(chosen.ravel()).reshape(chosen.shape) - 1
    low, found = np.zeros(len(upper)), repeated.solve(np.zeros(len(upper)), upper)
    if found.x is None or not found.optimal:
        return None
    near, share, fixed = _shares(chosen, found.x), _AT_ONCE, heavy < _LIGHT
    failed = 0
    for _ in range(_ROUNDS):
        split = np.flatnonzero((near.max(axis=1) < 1 - _WHOLE) & ~fixed)
        if not len(split) or failed == _FAILED:
            break
        split = split[np.argsort(-heavy[split], kind="stable")][: max(1, int(share * (len(split) + _AT_LEAST)))]
        tried = low.copy()
        tried[number[split, near[split].argmax(axis=1)]] = 1.0
        found = repeated.solve(tried, upper)
        if found.x is not None and found.optimal:
            low, near = tried, _shares(chosen, found.x)
            fixed[split] = True
        else:
            share, failed = share / 4, failed + 1
            fixed[split] = len(split) == 1
    return near
