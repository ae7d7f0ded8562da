"""Fewer bytes for the same balance: exact searches of a few partitions and brokers at a time, by HiGHS.

Large neighbourhood search (Shaw, 1998), guided by the linear relaxation of candidate `optimal`'s program. Each step
frees the partitions in which the lists and the relaxation differ, and those that cost least to move by its prices. All
others stay. The step solves this small program to its end, or for a few nodes, and keeps lists that cost less.

On a larger cluster with a replica of each partition in each rack, racks exchange nothing. So each rack is searched by
itself, if the plan is well above the linear program's bound. The relaxation of the rack's largest replicas is rounded
and polished. One step then frees all in which it and the lists differ (relaxation induced neighbourhood search: Danna,
Rothberg and Le Pape, 2005). Then giants stay, and dives find other brokers for lighter replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.bands import Bands, band
from kafka_rebalance.planning.bounds.lp_bound import relaxed_bound
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem
from kafka_rebalance.planning.problem.loads import DISK, replica_loads
from kafka_rebalance.planning.rules.crowding import Crowding
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.by_solver.dive import dived, worth_of_load
from kafka_rebalance.planning.search.by_solver.optimal import EFFORT, ListProgram, is_covered
from kafka_rebalance.planning.search.excused_brokers import Outside, settle
from kafka_rebalance.planning.search.frame import FoundLists, Frame, placement_of
from kafka_rebalance.planning.search.greedy import Effort
from kafka_rebalance.planning.search.placement import Placement, spent
from kafka_rebalance.planning.search.polish import polish
from kafka_rebalance.planning.search.rebuild import nearness, take_back

_VARIABLES = 50_000  # at most; the relaxation of a program of this size takes about two seconds
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
_CLOSE = 1.003  # times the relaxation's cost: a search for less is in vain
_WORTH = 0.995  # times the bytes: for less than that, the lists are not worth other moves, leaders and batches
_NOISE = (0.5, 2.0)  # factors of the prices, so that steps differ
_WHOLE = 1e-6  # closer to a whole number than this is whole
_RELAXED: solver.Options = {"simplex_iteration_limit": 100_000}
_BREACH = 1e-9
# Of a larger cluster, rack by rack:
_MOST = 5_000_000  # partitions times brokers; beyond it, the largest replicas are too few to matter
_OF_A_RACK = 35_000  # variables of one rack's program, which takes about a second
_PRICED = 55_000  # of the program of a dive, which looks at few of its columns
_DIVES = 2
_NEAR = 1.02  # times the bound; of a plan that is nearer, no rack is searched
_SPARE = 5  # crowded replicas fewer than may be, in a dive: rounding may add some
_CHEAPEST = 400  # variables that the step frees beside those where lists and relaxation differ
_DRAWS, _DRAWN = 4_000, 3  # roundings of the relaxation: giant replicas decide, and most roundings are dear to mend
_POLISH = Effort()
_INSIDE = 3e-5  # of a mean broker's load: where the polish aims, because it ends up to 1e-5 outside its bands


def can_be_cheaper(problem: Problem, found: FoundLists) -> bool:
    """Whether a search applies: the program covers the job, the cluster is small enough, and no limit was reached."""
    return found.goal.balances and not found.budget.reached and is_covered(problem, _MOST)


def cheaper_lists(frame: Frame, lists: Ints, seed: Sequence[int]) -> Ints | None:
    """[partition row, position] Lists that bring the brokers as near to their bands with fewer bytes; None: none found.

    No broker ends further outside its band, topics crowd brokers no more in total, and every rule of the program holds.
    A limit on bytes is none here, so that a limit that is enough changes no plan.
    """
    asked = band(frame.targets, frame.goal.tolerance)
    loads = replica_loads(lists, frame.weights, len(frame.targets))
    met = Bands(np.minimum(asked.low, loads), np.maximum(asked.high, loads))
    small = is_covered(frame.problem, _VARIABLES)
    found = _in_the_cluster(frame, lists, met, seed) if small else _in_each_rack(frame, lists, met, seed)
    if found is lists:
        return None
    old, new = _placement(frame, lists), _placement(frame, found)
    take_back(new, asked)
    ends = [new]
    if nearness(new, asked)[0]:
        # Single moves help single brokers, but may bring others further away together.
        settled = new.copy()
        settle(settled, asked, _asked(frame))
        ends = [settled, new]
    return next((end.replicas for end in ends if _is_better(frame, end, old, asked)), None)


def _in_the_cluster(frame: Frame, lists: Ints, met: Bands, seed: Sequence[int]) -> Ints:
    """The cheapest lists within the bands that steps over the whole cluster find; `lists` itself if there are none."""
    program = ListProgram(frame)
    program.crowd_no_more_than(lists)
    whole = program.program(met)
    first = program.values(lists)
    if whole.breach(first) > _BREACH:
        return lists  # a replica that found no better place breaks a rule
    best = _searched(frame, program, whole, first, np.random.default_rng([*seed, 2_000]))
    return lists if best is first else program.lists(best[: program.has.size] > 0.5)


def _in_each_rack(frame: Frame, lists: Ints, met: Bands, seed: Sequence[int]) -> Ints:
    """The same for a larger cluster whose partitions have a replica in each rack: these do not leave their rack."""
    found = _placement(frame, lists)
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
    relaxed = solver.solve(solver.relaxed(whole), _RELAXED)
    if relaxed.x is None or not relaxed.optimal or whole.breach(now) > _BREACH:
        return lists
    if whole.cost @ now <= _CLOSE * relaxed.cost:
        return lists
    near = relaxed.x[: program.has.size].reshape(program.has.shape)
    worth = worth_of_load(program, frame.weights[program.partitions], relaxed.prices, len(frame.targets))
    old, rng = _placement(frame, lists), np.random.default_rng(seed)
    polished = [_polished(frame, those, here, met, rng) for those in _roundings(frame, program, near, met, rng)]
    polished = [one for one in polished if nearness(one, met)[0] == 0 and _keeps_rules(frame, one, old)]
    best = min([old, *polished], key=lambda one: one.budget.bytes)
    prices = _reduced(whole, relaxed.prices)[: near.size]
    program, whole, now = _rack_program(frame, best.replicas, rows, here, met)
    free = np.ones(len(now), dtype=bool)  # and all columns of crowded replicas
    free[: near.size] = (now[: near.size] > 0.5) | (near.ravel() > _WHOLE)
    fixed = np.flatnonzero(~free & (whole.upper > 0.5))
    free[fixed[np.argsort(prices[fixed], kind="stable")[:_CHEAPEST]]] = True
    after = _step(program, whole, now, free, 1)
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
    old = _placement(frame, lists)
    rounded = program.lists((np.arange(near.shape[1]) == near.argmax(axis=1)[:, None]).ravel())
    new = _polished(frame, rounded, here, met, rng)
    better = new.budget.bytes < old.budget.bytes and nearness(new, met)[0] == 0 and _keeps_rules(frame, new, old)
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

    split = np.flatnonzero(near.max(axis=1) < 1 - _WHOLE)
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
    placement, bands = _placement(frame, lists), Bands(met.low + inside, met.high - inside)
    polish(placement, bands, frame.problem.evened, _POLISH, rng)
    take_back(placement, bands)
    return _placement(frame, np.where(_held(lists, here), placement.replicas, lists))


def _is_better(frame: Frame, new: Placement, old: Placement, asked: Bands) -> bool:
    """Whether the lists copy clearly fewer bytes, end as near, and leave no more brokers that a move would help."""
    better = nearness(new, asked)[0] <= nearness(old, asked)[0] and new.budget.bytes <= _WORTH * old.budget.bytes
    return better and _keeps_rules(frame, new, old) and _helped(frame, new, asked) <= _helped(frame, old, asked)


def _keeps_rules(frame: Frame, new: Placement, old: Placement) -> bool:
    """Whether limits and disks hold, and topics crowd brokers no more in total than before, or in the old lists."""
    problem = frame.problem
    before = Crowding(problem.replicas, problem.topic, frame.topic_shares, frame.left_by_racks)
    keeps = new.crowding.replicas <= max(before.replicas, old.crowding.replicas)
    return keeps and not new.budget.exceeded() and (old.too_full or not new.too_full)


def _searched(
    frame: Frame, program: ListProgram, whole: solver.Program, first: Floats, rng: np.random.Generator
) -> Floats:
    """The values of the cheapest lists found; `first` itself if nothing is cheaper."""
    relaxed = solver.solve(solver.relaxed(whole), _RELAXED)
    if relaxed.x is None or not len(relaxed.prices):
        return first
    shape, size, idle = program.has.shape, program.has.size, 0
    best, bound, guide = first, relaxed.cost, relaxed.x
    if _FREE < size <= _SMALL and whole.cost @ best > _CLOSE * bound:
        best, bound, guide = _around_giants(frame, program, whole, first, bound, guide)
    near, upper = guide[:size].reshape(shape), whole.upper[:size].reshape(shape)
    prices = _reduced(whole, relaxed.prices)[:size].reshape(shape)
    topic = frame.problem.topic[program.partitions]
    by_rack = np.lexsort((program.brokers, frame.rule.domain[program.brokers]))
    narrow = _narrow_steps(_differs(near, first[:size].reshape(shape), program.has), by_rack)
    for step in range(_STEPS):
        if whole.cost @ best <= _CLOSE * bound or idle >= _IDLE:
            break
        now = best[:size].reshape(shape)
        brokers = narrow[step] if step < len(narrow) else _brokers_of(step - len(narrow), by_rack)
        rows = _rows_of(now, near, prices, upper, program.has, brokers, _FREE >> idle, rng)
        free = np.zeros(shape, dtype=bool)
        free[np.ix_(rows, brokers)] = True
        crowds = np.isin(program.crowd_topic, topic[rows]) & np.isin(program.crowd_broker, brokers)
        unfixed = np.concatenate([free.ravel(), crowds])
        nodes = max(_NODES, _WORK // int(free.sum()) ** 2)
        after = _step(program, whole, best, unfixed, nodes)
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


def _reduced(program: solver.Program, prices: Floats) -> Floats:
    """[column] The reduced costs, by the prices of the rows."""
    prices = program.values * prices[program.rows]
    return program.cost - np.bincount(program.columns, prices, minlength=len(program.cost))


def _step(program: ListProgram, whole: solver.Program, best: Floats, unfixed: Bools, nodes: int) -> Floats:
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
    cheaper = whole.cost @ after < whole.cost @ best - _BREACH and whole.breach(after) <= _BREACH
    return after if cheaper else best


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
