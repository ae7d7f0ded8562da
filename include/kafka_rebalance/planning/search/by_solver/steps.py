"""Fewer bytes by steps over the whole cluster: large neighbourhood search (Shaw, 1998), guided by a relaxation.

Each step frees the partitions in which the lists and the relaxation differ, and those that cost least to move by its
prices. All others stay. The step solves this small program to its end, or for a few nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.search.by_solver.optimal import EFFORT, ListProgram
from kafka_rebalance.planning.search.frame import Frame

_FREE = 1_800  # variables of one step
_SMALL = 3_600  # of a program of more than one step and so few variables, the relaxation has giants whole
_GIANTS = 900  # variables of the largest partitions
_GIANT_NODES = 50  # at most; most such programs are solved to their end before
_NODES = 5  # of one step, at least; most of what it finds is found before the second
_WORK = 20_000_000  # nodes times the square of the variables: a smaller step may search longer
_STEPS = 10
_IDLE = 3  # steps in a row without a gain, until the search ends
_MANY = 12  # brokers of one step
_FEW = 4  # of the first steps, where the lists differ from the relaxation in more partitions than one step frees
_LED = 0.7  # share of a step's partitions that it takes because lists and relaxation differ
_NOISE = (0.5, 2.0)  # factors of the prices, so that steps differ
CLOSE = 1.003  # times the relaxation's cost: a search for less is in vain
WHOLE = 1e-6  # closer to a whole number than this is whole
BREACH = 1e-9
RELAXED: solver.Options = {"simplex_iteration_limit": 100_000}


def cheaper_by_steps(frame: Frame, lists: Ints, met: Bands, seed: Sequence[int]) -> Ints:
    """The cheapest lists within the bands that steps over the whole cluster find; `lists` itself if there are none."""
    program = ListProgram(frame)
    program.crowd_no_more_than(lists)
    whole = program.program(met)
    first = program.values(lists)
    if whole.breach(first) > BREACH:
        return lists  # a replica that found no better place breaks a rule
    best = _searched(frame, program, whole, first, np.random.default_rng([*seed, 2_000]))
    return lists if best is first else program.lists(best[: program.has.size] > 0.5)


def _searched(
    frame: Frame, program: ListProgram, whole: solver.Program, first: Floats, rng: np.random.Generator
) -> Floats:
    """The values of the cheapest lists found; `first` itself if nothing is cheaper."""
    relaxed = solver.solve(solver.relaxed(whole), RELAXED)
    if relaxed.x is None or not len(relaxed.prices):
        return first
    shape, size, idle = program.has.shape, program.has.size, 0
    best, bound, guide = first, relaxed.cost, relaxed.x
    if _FREE < size <= _SMALL and whole.cost @ best > CLOSE * bound:
        best, bound, guide = _around_giants(frame, program, whole, first, bound, guide)
    near, upper = guide[:size].reshape(shape), whole.upper[:size].reshape(shape)
    prices = reduced(whole, relaxed.prices)[:size].reshape(shape)
    topic = frame.problem.topic[program.partitions]
    by_rack = np.lexsort((program.brokers, frame.rule.domain[program.brokers]))
    narrow = _narrow_steps(_differs(near, first[:size].reshape(shape), program.has), by_rack)
    for step in range(_STEPS):
        if whole.cost @ best <= CLOSE * bound or idle >= _IDLE:
            break
        now = best[:size].reshape(shape)
        brokers = narrow[step] if step < len(narrow) else _brokers_of(step - len(narrow), by_rack)
        rows = _rows_of(now, near, prices, upper, program.has, brokers, _FREE >> idle, rng)
        if not len(rows):  # as where only other brokers receive
            idle += step >= len(narrow)
            continue
        free = np.zeros(shape, dtype=bool)
        free[np.ix_(rows, brokers)] = True
        crowds = np.isin(program.crowd_topic, topic[rows]) & np.isin(program.crowd_broker, brokers)
        unfixed = np.concatenate([free.ravel(), crowds])
        nodes = max(_NODES, _WORK // int(free.sum()) ** 2)
        after = solved_step(program, whole, best, unfixed, nodes)
        idle += _IDLE if free.all() else step >= len(narrow)  # another step that frees all would find the same
        if after is not best:
            best, idle = after, 0
    return best


def _around_giants(
    frame: Frame, program: ListProgram, whole: solver.Program, first: Floats, bound: float, near: Floats
) -> tuple[Floats, float, Floats]:
    """(the cheaper of `first` and lists around the giants, the least cost that is proven, the guide of the steps)

    `bound` and `near` are those two of the linear relaxation.

    On a small cluster a few large replicas decide the bytes, and small ones fill what these leave. So a relaxation with
    the largest partitions whole is solved fast, and is far nearer to the optimum. Then all others are placed.
    """
    sizes, giant = frame.problem.size_bytes[program.partitions], np.zeros(program.has.shape, dtype=bool)
    giant[np.argsort(-sizes, kind="stable")[: _GIANTS // len(program.brokers)]] = True
    integral = np.concatenate([giant.ravel(), np.zeros(len(first) - giant.size, dtype=bool)])
    guide = solver.solve(replace(whole, integral=integral), {**EFFORT, "mip_max_nodes": _GIANT_NODES}, first)
    if guide.x is None:
        return first, bound, near
    placed = np.where(integral, np.round(guide.x), first)
    found = solver.solve(whole.part(~integral, placed), {**EFFORT, "mip_max_nodes": _NODES})
    best = _cheaper(program, whole, first, placed, ~integral, found)
    return best, max(bound, guide.bound), guide.x


def reduced(program: solver.Program, prices: Floats) -> Floats:
    """[column] The reduced costs, by the prices of the rows."""
    prices = program.values * prices[program.rows]
    return program.cost - np.bincount(program.columns, prices, minlength=len(program.cost))


def solved_step(program: ListProgram, whole: solver.Program, best: Floats, unfixed: Bools, nodes: int) -> Floats:
    """The values with these columns solved anew; `best` itself if that costs no less."""
    found = solver.solve(whole.part(unfixed, best), {**EFFORT, "mip_max_nodes": nodes}, best[unfixed])
    return _cheaper(program, whole, best, best, unfixed, found)


def _cheaper(
    program: ListProgram, whole: solver.Program, best: Floats, fixed: Floats, unfixed: Bools, found: solver.Solution
) -> Floats:
    """What the solver found for these columns, with the others as in `fixed`; `best` itself if that costs no less."""
    if found.x is None:
        return best
    after = fixed.copy()
    after[unfixed] = np.round(found.x)
    after = program.with_crowds(after)
    cheaper = whole.cost @ after < whole.cost @ best - BREACH and whole.breach(after) <= BREACH
    return after if cheaper else best


def _differs(near: Floats, now: Floats, has: Bools) -> Bools:
    """[partition, broker] Where lists and relaxation differ, or a replica is new."""
    differs: Bools = (np.abs(near - now) > WHOLE) | ((now > 0.5) & ~has)
    return differs


def _narrow_steps(differs: Bools, by_rack: Ints) -> Sequence[Ints]:
    """The brokers of the first steps: a few of one rack each, if one step cannot free all that differs."""
    brokers = len(by_rack)
    if brokers <= _FEW or differs.any(axis=1).sum() * min(brokers, _MANY) <= _LED * _FREE:
        return ()
    return np.array_split(by_rack, -(-brokers // _FEW))[: _STEPS // 2]


def _brokers_of(step: int, by_rack: Ints) -> Ints:
    """The brokers of one step: all, or neighbours by rack. Each round of steps begins half a step further."""
    parts = -(-len(by_rack) // _MANY)
    shifted = np.roll(by_rack, (step // parts) * (_MANY // 2))
    return np.array_split(shifted, parts)[step % parts]


def _rows_of(
    now: Floats,
    near: Floats,
    prices: Floats,
    upper: Floats,
    has: Bools,
    brokers: Ints,
    variables: int,
    rng: np.random.Generator,
) -> Ints:
    """The partitions that a step frees: where lists and relaxation differ, then those that cost least to move."""
    count = variables // len(brokers)
    mine, held = prices[:, brokers], now[:, brokers] > 0.5
    comes = np.where(~held & (upper[:, brokers] > 0.5), mine, np.inf).min(axis=1)
    cost = comes + np.where(held, -mine, np.inf).min(axis=1)
    leads = _differs(near, now, has)[:, brokers].any(axis=1) & np.isfinite(cost)
    cost *= rng.uniform(*_NOISE, len(cost))
    if leads.sum() > _LED * count:
        leads &= rng.random(len(leads)) < _LED * count / leads.sum()
    cost[leads] = -np.inf
    rows = np.argsort(cost, kind="stable")[:count]
    return np.sort(rows[cost[rows] < np.inf])
