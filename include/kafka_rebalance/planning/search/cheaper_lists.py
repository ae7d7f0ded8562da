"""Fewer bytes for the same balance: exact searches of a few partitions and brokers at a time, by HiGHS.

Large neighbourhood search (Shaw, 1998), guided by the linear relaxation of candidate `optimal`'s program. Each step
frees the partitions in which the lists and the relaxation differ, and those that cost least to move by its prices. All
others stay. The step solves this small program to its end, or for a few nodes, and keeps lists that cost less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.bands import Bands, band
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem
from kafka_rebalance.planning.problem.loads import replica_loads
from kafka_rebalance.planning.search.excused_brokers import Outside, settle
from kafka_rebalance.planning.search.frame import FoundLists, Frame, placement_of
from kafka_rebalance.planning.search.optimal import EFFORT, ListProgram, is_covered
from kafka_rebalance.planning.search.placement import Placement, spent
from kafka_rebalance.planning.search.rebuild import nearness, take_back

_VARIABLES = 50_000  # at most; the relaxation of a program of this size takes about two seconds
_FREE = 1_800  # variables of one step
_SMALL, _MOST = 3_600, 0.87  # of a program with so few variables, a step frees this share: what stays fixed costs bytes
_NODES = 5  # of one step, at least; most of what it finds is found before the second
_WORK = 20_000_000  # nodes times the square of the variables: a smaller step may search longer
_STEPS = 10
_IDLE = 3  # steps in a row without a gain, until the search ends
_MANY = 12  # brokers of one step
_FEW = 4  # of the first steps, where the lists differ from the relaxation in more partitions than one step frees
_LED = 0.7  # share of a step's partitions that it takes because lists and relaxation differ
_CLOSE = 1.003  # times the relaxation's cost: a search for less is in vain
_WORTH = 0.995  # times the bytes: for less than that, the lists are not worth other moves, leaders and batches
_NOISE = (0.5, 2.0)  # factors of the prices, so that steps differ
_WHOLE = 1e-6  # closer to a whole number than this is whole
_RELAXED: solver.Options = {"simplex_iteration_limit": 100_000}
_BREACH = 1e-9


def can_be_cheaper(problem: Problem, found: FoundLists) -> bool:
    """Whether a search applies: the program covers the job, the cluster is small enough, and no limit was reached."""
    return found.goal.balances and not found.budget.reached and is_covered(problem, _VARIABLES)


def cheaper_lists(frame: Frame, lists: Ints, seed: Sequence[int]) -> Ints | None:
    """[partition row, position] Lists that bring the brokers as near to their bands with fewer bytes; None: none found.

    No broker ends further outside its band, topics crowd brokers no more in total, and every rule of the program holds.
    A limit on bytes is none here, so that a limit that is enough changes no plan.
    """
    asked = band(frame.targets, frame.goal.tolerance)
    loads = replica_loads(lists, frame.weights, len(frame.targets))
    program = ListProgram(frame)
    program.crowd_no_more_than(lists)
    whole = program.program(Bands(np.minimum(asked.low, loads), np.maximum(asked.high, loads)))
    first = program.values(lists)
    if whole.breach(first) > _BREACH:
        return None  # a replica that found no better place breaks a rule
    best = _searched(frame, program, whole, first, np.random.default_rng([*seed, 2_000]))
    if best is first:
        return None
    old, new = (_placement(frame, those) for those in (lists, program.lists(best[: program.has.size] > 0.5)))
    take_back(new, asked)
    ends = [new]
    if nearness(new, asked)[0]:
        # Single moves help single brokers, but may bring others further away together.
        settled = new.copy()
        settle(settled, asked, _asked(frame))
        ends = [settled, new]
    return next((end.replicas for end in ends if _is_better(frame, end, old, asked)), None)


def _is_better(frame: Frame, new: Placement, old: Placement, asked: Bands) -> bool:
    """Whether the lists copy clearly fewer bytes, end as near, and leave no more brokers that a move would help."""
    better = nearness(new, asked)[0] <= nearness(old, asked)[0] and new.budget.bytes <= _WORTH * old.budget.bytes
    better &= not new.budget.exceeded() and (old.too_full or not new.too_full)
    return better and _helped(frame, new, asked) <= _helped(frame, old, asked)


def _searched(
    frame: Frame, program: ListProgram, whole: solver.Program, first: Floats, rng: np.random.Generator
) -> Floats:
    """The values of the cheapest lists found; `first` itself if nothing is cheaper."""
    relaxed = solver.solve(solver.relaxed(whole), _RELAXED)
    if relaxed.x is None or not len(relaxed.prices):
        return first
    best: Floats = first
    shape, size, idle = program.has.shape, program.has.size, 0
    near, upper = relaxed.x[:size].reshape(shape), whole.upper[:size].reshape(shape)
    prices = whole.cost - np.bincount(whole.columns, whole.values * relaxed.prices[whole.rows])
    prices = prices[:size].reshape(shape)
    topic = frame.problem.topic[program.partitions]
    by_rack = np.lexsort((program.brokers, frame.rule.domain[program.brokers]))
    at_once = max(_FREE, int(_MOST * size)) if size <= _SMALL else _FREE
    narrow = _narrow_steps(_differs(near, first[:size].reshape(shape), program.has), by_rack)
    for step in range(_STEPS):
        if whole.cost @ best <= _CLOSE * relaxed.cost or idle >= _IDLE:
            break
        now = best[:size].reshape(shape)
        brokers = narrow[step] if step < len(narrow) else _brokers_of(step - len(narrow), by_rack)
        rows = _rows_of(now, near, prices, upper, program.has, brokers, at_once >> idle, rng)
        free = np.zeros(shape, dtype=bool)
        free[np.ix_(rows, brokers)] = True
        crowds = np.isin(program.crowd_topic, topic[rows]) & np.isin(program.crowd_broker, brokers)
        unfixed = np.concatenate([free.ravel(), crowds])
        nodes = max(_NODES, _WORK // int(free.sum()) ** 2)
        found = solver.solve(whole.part(unfixed, best), {**EFFORT, "mip_max_nodes": nodes}, best[unfixed])
        idle += _IDLE if free.all() else step >= len(narrow)  # another step that frees all would find the same
        if found.x is not None:
            after = best.copy()
            after[unfixed] = np.round(found.x)
            after = program.with_crowds(after)
            if whole.cost @ after < whole.cost @ best - _BREACH and whole.breach(after) <= _BREACH:
                best, idle = after, 0
    return best


def _differs(near: Floats, now: Floats, has: Bools) -> Bools:
    """[partition, broker] Where lists and relaxation differ, or a replica is new."""
    differs: Bools = (np.abs(near - now) > _WHOLE) | ((now > 0.5) & ~has)
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


def _placement(frame: Frame, lists: Ints) -> Placement:
    nothing = np.zeros(lists.shape, dtype=bool)
    return placement_of(frame, lists, frame.problem.replicas, nothing, spent(frame.problem, lists))


def _asked(frame: Frame) -> Bools:
    """[broker, resource] Which loads count."""
    return frame.problem.evened[:, None] & (frame.targets > 0)


def _helped(frame: Frame, placement: Placement, asked: Bands) -> int:
    """How many loads outside their bands a single move or swap would help: these are not excused."""
    outside = Outside(placement, asked, _asked(frame))
    return sum(outside.is_helped(broker, k) for broker, k in np.argwhere(outside.excess() > 0).tolist())
