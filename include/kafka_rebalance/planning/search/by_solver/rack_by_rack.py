"""Fewer bytes rack by rack, for clusters too large for steps over all brokers.

With a replica of each partition in each rack, racks exchange nothing. So each rack is searched by itself, if the plan
is clearly above the linear program's bound. The relaxation of the rack's largest replicas is rounded and polished. One
step then frees all in which it and the lists differ (relaxation induced neighbourhood search: Danna, Rothberg and Le
Pape, 2005). Then giants stay, and dives find other brokers for lighter replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.bounds.lp_bound import relaxed_bound
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.loads import DISK, replica_loads
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.by_solver.dive import dived, worth_of_load
from kafka_rebalance.planning.search.by_solver.kept_rules import keeps_rules, placed
from kafka_rebalance.planning.search.by_solver.optimal import ListProgram
from kafka_rebalance.planning.search.by_solver.steps import BREACH, CLOSE, RELAXED, WHOLE, reduced, solved_step
from kafka_rebalance.planning.search.frame import Frame
from kafka_rebalance.planning.search.greedy import Effort
from kafka_rebalance.planning.search.placement import Placement, spent
from kafka_rebalance.planning.search.polish import polish
from kafka_rebalance.planning.search.rebuild import nearness, take_back

_OF_A_RACK = 35_000  # variables of one rack's program, which takes about a second
_PRICED = 55_000  # of the program of a dive, which looks at few of its columns
_DIVES = 2
_NEAR = 1.02  # times the bound; of a plan that is nearer, no rack is searched
_SPARE = 5  # crowded replicas fewer than may be, in a dive: rounding may add some
_CHEAPEST = 400  # variables that the step frees beside those where lists and relaxation differ
_DRAWS, _DRAWN = 4_000, 3  # roundings of the relaxation: giant replicas decide, and most roundings are dear to mend
_POLISH = Effort()
_INSIDE = 3e-5  # of a mean broker's load: where the polish aims, because it ends up to 1e-5 outside its bands


def cheaper_by_racks(frame: Frame, lists: Ints, met: Bands, seed: Sequence[int]) -> Ints:
    """The same for a larger cluster whose partitions have a replica in each rack: these do not leave their rack."""
    found = placed(frame, lists)
    if not found.tight or _is_near_bound(frame, lists, met):
        return lists
    for number, (here, _) in enumerate(found.groups):
        lists = _in_rack(frame, lists, here, met, (*seed, 2_000, number))
    return lists


def _is_near_bound(frame: Frame, lists: Ints, met: Bands) -> bool:
    """Whether no lists within the bands copy clearly fewer bytes."""
    bands = Bands(met.low * frame.scale, met.high * frame.scale)
    bound = relaxed_bound(frame.problem, bands, ~violations(frame.rule, lists))
    return bound is not None and spent(frame.problem, lists).bytes <= _NEAR * bound.bytes


def _in_rack(frame: Frame, lists: Ints, here: Bools, met: Bands, seed: Sequence[int]) -> Ints:
    """Cheaper lists within the bands, with other brokers of one rack; `lists` itself if there are none."""
    rows = _searched_rows(frame, lists, here)
    if not len(rows):
        return lists
    program, whole, now = _rack_program(frame, lists, rows, here, met)
    relaxed = solver.solve(solver.relaxed(whole), RELAXED)
    if relaxed.x is None or not relaxed.optimal or whole.breach(now) > BREACH:
        return lists
    if whole.cost @ now <= CLOSE * relaxed.cost:
        return lists
    near = relaxed.x[: program.has.size].reshape(program.has.shape)
    worth = worth_of_load(program, frame.weights[program.partitions], relaxed.prices, len(frame.targets))
    old, rng = placed(frame, lists), np.random.default_rng(seed)
    polished = [_polished(frame, those, here, met, rng) for those in _roundings(frame, program, near, met, rng)]
    polished = [one for one in polished if nearness(one, met)[0] == 0 and keeps_rules(frame, one, old)]
    best = min([old, *polished], key=lambda one: one.budget.bytes)
    prices = reduced(whole, relaxed.prices)[: near.size]
    program, whole, now = _rack_program(frame, best.replicas, rows, here, met)
    free = np.ones(len(now), dtype=bool)  # and all columns of crowded replicas
    free[: near.size] = (now[: near.size] > 0.5) | (near.ravel() > WHOLE)
    fixed = np.flatnonzero(~free & (whole.upper > 0.5))
    free[fixed[np.argsort(prices[fixed], kind="stable")[:_CHEAPEST]]] = True
    after = solved_step(program, whole, now, free, 1)
    if after is not now:
        lists = program.lists(after[: near.size] > 0.5)
    elif best is not old:
        lists = best.replicas
    for _ in range(_DIVES):
        lists = _after_dive(frame, lists, here, met, worth, rng)
    return lists


def _after_dive(frame: Frame, lists: Ints, here: Bools, met: Bands, worth: Floats, rng: np.random.Generator) -> Ints:
    """Cheaper lists with other brokers for the lighter replicas of a rack; `lists` itself if there are none.

    `worth` is [broker, resource], what a unit of load is worth there.
    """
    rows = _searched_rows(frame, lists, here, worth)
    program, whole, now = _rack_program(frame, lists, rows, here, met, _SPARE)
    near = dived(program, whole, now, worth, frame.weights[program.partitions], 2 * frame.goal.tolerance)
    if near is None:
        return lists
    old = placed(frame, lists)
    rounded = program.lists((np.arange(near.shape[1]) == near.argmax(axis=1)[:, None]).ravel())
    new = _polished(frame, rounded, here, met, rng)
    better = new.budget.bytes < old.budget.bytes and nearness(new, met)[0] == 0 and keeps_rules(frame, new, old)
    return new.replicas if better else lists


def _roundings(
    frame: Frame, program: ListProgram, near: Floats, met: Bands, rng: np.random.Generator
) -> Sequence[Ints]:
    """Lists with each replica on one of the brokers that the relaxation splits it over.

    First each is where most of it is. Then the cheapest of many draws, by what they copy and at least copy to mend.
    """
    plain, brokers = near.argmax(axis=1), program.brokers

    def lists_of(chosen: Ints) -> Ints:
        return program.lists((np.arange(len(brokers)) == chosen[:, None]).ravel())

    split = np.flatnonzero(near.max(axis=1) < 1 - WHOLE)
    weights, shares = frame.weights[program.partitions[split]], near[split].cumsum(axis=1)
    drawn = np.zeros((_DRAWS, len(split)), dtype=np.int64)
    for column, ends in enumerate(shares):
        drawn[:, column] = np.searchsorted(ends, rng.random(_DRAWS) * ends[-1], side="right")
    start = replica_loads(lists_of(plain), frame.weights, len(frame.targets))[brokers]
    np.subtract.at(start, plain[split], weights)
    loads = np.repeat(start[None], _DRAWS, axis=0)
    np.add.at(loads, (np.arange(_DRAWS)[:, None], drawn), weights)
    above, below = np.maximum(0.0, loads - met.high[brokers]), np.maximum(0.0, met.low[brokers] - loads)
    mended = np.maximum(above.sum(axis=1), below.sum(axis=1))[:, DISK:].sum(axis=1)
    copied = np.where(program.has[split, drawn], 0.0, weights[:, DISK]).sum(axis=1)
    best = np.argsort(copied + mended, kind="stable")[:_DRAWN]
    return [lists_of(plain), *(lists_of(_with(plain, split, one)) for one in drawn[best])]


def _with(values: Ints, rows: Ints, others: Ints) -> Ints:
    values = values.copy()
    values[rows] = others
    return values


def _searched_rows(frame: Frame, lists: Ints, here: Bools, worth: Floats | None = None) -> Ints:
    """Partitions whose replica in the rack moves, and as many others as one program takes.

    These are the largest, or with `worth` ([broker, resource], of a unit of load) those that cost least for each byte.
    """
    problem = frame.problem
    before, now = _held(problem.replicas, here), _held(lists, here)
    rows = np.flatnonzero(problem.relocatable & (before == now).all(axis=1) & (now.sum(axis=1) == 1))
    moves = ((lists != problem.replicas) & now)[rows].any(axis=1)
    brokers, first = np.flatnonzero(problem.evened & here), -problem.size_bytes[rows].astype(np.float64)
    count = _OF_A_RACK // len(brokers)
    if worth is not None:
        homes = problem.replicas[rows][before[rows]]
        best = np.max([frame.weights[rows] @ worth[broker] for broker in brokers], axis=0)
        gained = best - (frame.weights[rows] * worth[homes]).sum(axis=1)
        first, count = -gained / np.maximum(1, problem.size_bytes[rows]), _PRICED // len(brokers)
    return np.sort(rows[np.lexsort((first, ~moves))[:count]])


def _rack_program(
    frame: Frame, lists: Ints, rows: Ints, here: Bools, met: Bands, spare: int = 0
) -> tuple[ListProgram, solver.Program, Floats]:
    """The program over the replicas of these partitions in one rack, and its values for the lists.

    All other replicas stay where the lists have them.
    """
    problem = frame.problem
    start, movable = lists.copy(), np.zeros(len(lists), dtype=bool)
    start[rows] = np.where(_held(lists[rows], here), problem.replicas[rows], lists[rows])
    movable[rows] = True
    part = replace(problem, replicas=start, movable=movable, closed=problem.closed | ~here)
    program = ListProgram(replace(frame, problem=part, emptied=frame.emptied & here))
    program.crowd_no_more_than(lists, problem.replicas, spare)
    return program, program.program(met), program.values(lists)


def _held(lists: Ints, here: Bools) -> Bools:
    """[row, column] Whether one of these brokers has the replica."""
    held: Bools = (lists >= 0) & here[np.maximum(lists, 0)]
    return held


def _polished(frame: Frame, lists: Ints, here: Bools, met: Bands, rng: np.random.Generator) -> Placement:
    """The lists, whose brokers in the rack are back within the bands as far as the polish can bring them there."""
    inside = _INSIDE * here[:, None] * np.minimum(1.0, met.high)
    placement, bands = placed(frame, lists), Bands(met.low + inside, met.high - inside)
    polish(placement, bands, frame.problem.evened, _POLISH, rng)
    take_back(placement, bands)
    return placed(frame, np.where(_held(lists, here), placement.replicas, lists))
