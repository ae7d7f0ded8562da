"""Candidate `optimal`: the fewest bytes within the tolerance, or as near to it as lists can be, and what is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from kafka_rebalance.documents.candidate_notes import Within
from kafka_rebalance.model.settings import BALANCED
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.lp_bound import relaxed_bound
from kafka_rebalance.planning.bounds.solver import Solution
from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.problem.arrays import BYTES_IN, DISK, Bools, Floats, Ints, Problem, replica_loads
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.excused_brokers import Outside, settle
from kafka_rebalance.planning.search.frame import FoundLists, Frame
from kafka_rebalance.planning.search.greedy import Effort, polish
from kafka_rebalance.planning.search.optimal import (
    BREACH,
    CLOSE,
    GAP,
    NOTHING,
    RELAXED,
    WHOLE,
    Besides,
    ListProgram,
    cheaper_by_steps,
    dived,
    is_covered,
    keeps_rules,
    placed,
    reduced,
    solved_step,
    worth_of_load,
)
from kafka_rebalance.planning.search.placement import Placement, spent
from kafka_rebalance.planning.search.trials import nearness, take_back

# Candidate `optimal`: the fewest bytes within the tolerance, or as near to it as lists can be, and what is proven.


class Proof(Enum):
    """What is proven of the bytes of the lists."""

    PROVEN = "proven"  # to the gap that the solver was asked for
    BEST_FOUND = "best_found"
    UNDERCUT = "undercut"  # proven, but another candidate copies fewer and is within one replica of the tolerance
    NONE_EXISTS = "none_exists"  # no lists are within one replica of the tolerance
    NONE_FOUND = "none_found"


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The cheapest lists found, if any, and what is proven of them."""

    replicas: Ints | None  # [partition row, position]; replicas that stay keep their positions
    proof: Proof
    within: Within | None = None  # None: there are no lists
    not_ruled_out: float | None = 0.0  # the share of their bytes that other lists may save; None: it is not known
    keeps_headroom: bool = False  # among lists that bring nothing to disks beyond disk_headroom
    besides: Besides = NOTHING  # among lists that keep it
    least_bytes: int | None = None  # no lists within the tolerance and the rules copy fewer; None: nothing is proven
    undercut_by: str = BALANCED  # the candidate


def fewest_bytes(frame: Frame, known: Ints | None = None, besides: Besides = NOTHING) -> Optimum:
    """The lists within the tolerance that copy the fewest bytes. `known` are lists to begin with, of another search.

    If there are none, of the lists that are least beyond it in all, and each broker by one replica at most, those with
    the fewest bytes. If bytes in rule these out as well, only disks and replicas count, because disks outrank bytes in.
    """
    program = ListProgram(frame)
    program.add_limits()
    if besides.spreads_topics:
        program.spread_no_worse_than(frame.problem.replicas if known is None else known)
    if besides.crowds_no_more:
        program.crowd_no_more_than(frame.problem.replicas)
    if besides.spreads_leaders:
        program.add_leaders()
    tolerance = frame.goal.tolerance
    asked = frame.band(tolerance)
    heaviest = np.minimum(frame.weights.max(axis=0), frame.targets.max(axis=0))
    slack = np.maximum(frame.targets * tolerance, heaviest)
    widest = frame.within_limits(Bands(frame.targets - slack, frame.targets + slack))
    no_bytes_in = Bands(widest.low.copy(), widest.high.copy())
    no_bytes_in.low[:, BYTES_IN], no_bytes_in.high[:, BYTES_IN] = 0.0, np.inf
    full = bool(program.full.any())
    found = program.solved(asked, known)
    if found.x is not None:
        least = None if full or any(besides) else program.least_bytes(found)
        return _optimum(program, found, found.x, Within.TOLERANCE, full, besides, least, proven=found.optimal)
    impossible = found.infeasible
    for most, within in ((widest, Within.ONE_REPLICA), (no_bytes_in, Within.ONE_REPLICA_BUT_BYTES_IN)):
        near = program.nearest(asked, most, known)
        if near.found.x is not None:
            proven = impossible and near.is_nearest and near.found.optimal
            return _optimum(program, near.found, near.found.x, within, full, besides, None, proven=proven)
        impossible = impossible and near.found.infeasible
    return Optimum(None, Proof.NONE_EXISTS if impossible else Proof.NONE_FOUND, besides=besides)


def _optimum(
    program: ListProgram,
    found: Solution,
    values: Floats,
    within: Within,
    full: bool,
    besides: Besides,
    least: int | None,
    *,
    proven: bool,
) -> Optimum:
    lists = program.lists(values > 0.5)
    if proven:
        return Optimum(lists, Proof.PROVEN, within, GAP, full, besides, least)
    rest = min(1.0, max(0.0, 1 - found.bound / max(found.cost, 1e-12)))
    return Optimum(lists, Proof.BEST_FOUND, within, rest, besides=besides, least_bytes=least)


# Fewer bytes for the same balance: exact searches of a part of the lists at a time, by HiGHS.
#
# The programs are those of candidate `optimal`. A small cluster is searched in steps over all its brokers, a larger
# one rack by rack. Lists count if they cost clearly less and end as near to the bands.


_VARIABLES = 50_000  # at most, of steps over the cluster; the relaxation of so large a program takes about two seconds
_MOST = 5_000_000  # partitions times brokers; beyond it, the largest replicas are too few to matter
_WORTH = 0.995  # times the bytes: for less than that, the lists are not worth other moves, leaders and batches


def can_be_cheaper(problem: Problem, found: FoundLists) -> bool:
    """Whether a search applies: the program covers the job, the cluster is small enough, and no limit was reached."""
    return found.goal.balances and not found.budget.reached and is_covered(problem, _MOST)


def cheaper_lists(frame: Frame, lists: Ints, seed: Sequence[int]) -> Ints | None:
    """[partition row, position] Lists that bring the brokers as near to their bands with fewer bytes; None: none found.

    No broker ends further outside its band, topics crowd brokers no more in total, and every rule of the program holds.
    A limit on bytes is none here, so that a limit that is enough changes no plan.
    """
    asked = frame.band(frame.goal.tolerance)
    loads = replica_loads(lists, frame.weights, len(frame.targets))
    met = Bands(np.minimum(asked.low, loads), np.maximum(asked.high, loads))
    small = is_covered(frame.problem, _VARIABLES)
    found = cheaper_by_steps(frame, lists, met, seed) if small else _cheaper_by_racks(frame, lists, met, seed)
    if found is lists:
        return None
    old, new = placed(frame, lists), placed(frame, found)
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
    return better and keeps_rules(frame, new, old) and _helped(frame, new, asked) <= _helped(frame, old, asked)


def _asked(frame: Frame) -> Bools:
    """[broker, resource] Which loads count."""
    return frame.problem.evened[:, None] & (frame.targets > 0)


def _helped(frame: Frame, placement: Placement, asked: Bands) -> int:
    """How many loads outside their bands a single move or swap would help: these are not excused."""
    outside = Outside(placement, asked, _asked(frame))
    return sum(outside.is_helped(broker, k) for broker, k in np.argwhere(outside.excess() > 0).tolist())


# Fewer bytes rack by rack, for clusters too large for steps over all brokers.
#
# With a replica of each partition in each rack, racks exchange nothing. So each rack is searched by itself, if the
# plan is clearly above the linear program's bound. The relaxation of the rack's largest replicas is rounded and
# polished. One step then frees all in which it and the lists differ (relaxation induced neighbourhood search: Danna,
# Rothberg and Le Pape, 2005). Then giants stay, and a dive finds other brokers for lighter replicas.


_OF_A_RACK = 35_000  # variables of one rack's program, which takes about a second
_PRICED = 55_000  # of the program of a dive, which looks at few of its columns
_NEAR = 1.03  # times the bound; of a plan that is nearer, no rack is searched
_SPARE = 5  # crowded replicas fewer than may be, in a dive: rounding may add some
_CHEAPEST = 400  # variables that the step frees beside those where lists and relaxation differ
_DRAWS = 4_000  # roundings of the relaxation: giant replicas decide, and most roundings are dear to mend
_POLISH = Effort()
_INSIDE = 3e-5  # of a mean broker's load: where the polish aims, because it ends up to 1e-5 outside its bands


def _cheaper_by_racks(frame: Frame, lists: Ints, met: Bands, seed: Sequence[int]) -> Ints:
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
    return _after_dive(frame, lists, here, met, worth, rng)


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

    First each is where most of it is. Then the cheapest of many draws, by what it copies and at least copies to mend.
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
    best = plain.copy()
    best[split] = drawn[(copied + mended).argmin()]
    return lists_of(plain), lists_of(best)


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
    program.spread_no_worse_than(lists)
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
