"""Fewer leader changes where leaders stay outside the tolerance, by HiGHS.

A search for a tolerance that it cannot reach goes on until nothing gains. On its way it changes leaders between brokers
that are within the tolerance. An integer program finds the fewest changes whose end is as good: no broker leads further
outside the tolerance, and topics spread their leaders as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_rebalance.planning.as_good_as_fresh import leaders_off
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.bands import band
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Floats,
    Ints,
    Problem,
    changed_lists,
    led_first,
    widened,
)
from kafka_rebalance.planning.problem.loads import leader_loads, leader_weights
from kafka_rebalance.planning.rules.topic_leaders import TopicLeaders
from kafka_rebalance.planning.rules.who_may_lead import may_be_elected
from kafka_rebalance.planning.search.by_solver.optimal import EFFORT
from kafka_rebalance.planning.search.frame import FoundLists

_VARIABLES = 50_000  # at most; the relaxation of a program of this size takes a second or more
_RELAXED: solver.Options = {"simplex_iteration_limit": 100_000}
_STEP: solver.Options = {**EFFORT, "mip_rel_gap": 0.05, "mip_max_nodes": 1}
_STEPS = 12
_FREE, _DIFFER = 400, 0.7  # lists of one step, and the share of them in which the relaxation differs, at most
_CLOSE = 1.05  # times the relaxation's cost: a search for less is in vain
_WORTH, _IDLE = 0.98, 3  # times the changes: after three steps in a row that save less, the search ends
_SAVED = 10  # changes at least: for fewer, other lists than those found are not worth it
_TIE = 0.01  # of a change: what another leader than the one proposed last costs
_WHOLE, _BREACH, _FINE = 1e-6, 1e-6, 1e-9


def fewer_leader_changes(problem: Problem, name: str, found: FoundLists) -> FoundLists:
    """The lists with fewer changes of today's leaders; those found if that is not possible, or not needed."""
    if found.goal.one_sided or not solver.available() or leaders_off(problem, found) == 0:
        return found
    lists = found.replicas
    before = widened(problem.replicas, lists.shape[1])
    free = _free(problem, found, before)
    rows, positions = np.nonzero(free)
    if not 0 < len(rows) <= _VARIABLES:
        return found
    cost = (lists[rows, positions] != problem.leader[rows]).astype(np.float64)
    if name in problem.proposed:
        cost += _TIE * (lists[rows, positions] != problem.proposed[name][rows, 0])
    program, first = _program(problem, found, rows, positions, cost)
    x = _searched(program, first, rows)
    led = np.flatnonzero(x[: len(rows)] > 0.5)
    leaders = lists[:, 0].copy()
    leaders[rows[led]] = lists[rows[led], positions[led]]
    saved = int((lists[:, 0] != problem.leader).sum() - (leaders != problem.leader).sum())
    budget = replace(found.budget, leader_changes=found.budget.leader_changes - saved)
    fewer = replace(found, replicas=led_first(lists, leaders), budget=budget)
    return fewer if saved >= _SAVED and leaders_off(problem, fewer) <= leaders_off(problem, found) + _FINE else found


def _free(problem: Problem, found: FoundLists, before: Ints) -> Bools:
    """[row, position] Which replicas may lead, of the lists whose leader may be another one than in the lists found.

    They are those of `search.leader_balance`.
    """
    lists = found.replicas
    may_be = may_be_elected(problem, lists)
    may_lead = problem.evened[lists] & may_be
    may_lead[:, 0] = True
    movable = problem.movable & (found.goal.all_leaders | changed_lists(before, lists)) & may_be[:, 0]
    movable &= (problem.evened | problem.leaving)[lists[:, 0]] & (may_lead.sum(axis=1) > 1)
    free: Bools = may_lead & movable[:, None]
    return free


def _searched(program: solver.Program, first: Floats, rows: Ints) -> Floats:
    """The best solution that some steps find, or `first`. `rows` is [column] the list of each replica.

    Each step frees lists whose leader differs between the best solution and the relaxation, and some others, drawn anew
    (as relaxation induced neighbourhoods: Danna, Rothberg and Le Pape, 2005). All others stay.
    """
    relaxed, count, best = solver.solve(solver.relaxed(program), _RELAXED), len(rows), first
    if relaxed.x is None:
        return first
    rng, idle = np.random.default_rng(count), 0
    for _ in range(_STEPS):
        if program.cost @ best <= _CLOSE * relaxed.cost:
            break
        differs = np.unique(rows[np.abs(relaxed.x[:count] - best[:count]) > _WHOLE])
        differs = rng.permutation(differs)[: int(_DIFFER * _FREE)]
        others = rng.permutation(np.setdiff1d(rows, differs))[: _FREE - len(differs)]
        free = np.ones(len(best), dtype=bool)
        free[:count] = np.isin(rows, np.concatenate([differs, others]))
        before = program.cost @ best
        found = solver.solve(program.part(free, best), _STEP, best[free])
        if found.x is not None:
            after = best.copy()
            after[free] = found.x
            after[:count] = np.round(after[:count])
            if program.cost @ after < before - _WHOLE and program.breach(after) <= _BREACH:
                best = after
        idle = idle + 1 if program.cost @ best > _WORTH * before else 0
        if free.all() or idle == _IDLE:
            break
    return best


def _program(
    problem: Problem, found: FoundLists, rows: Ints, positions: Ints, cost: Floats
) -> tuple[solver.Program, Floats]:
    """(the program, the lists found as a solution of it)

    Its columns are the replicas that may lead, and by how much each topic's leaders are too many on a broker.
    """
    lists, brokers = found.replicas, len(problem.brokers)
    here, count = lists[rows, positions], len(rows)
    leaders = np.where(problem.movable, lists[:, 0], problem.leader)
    fixed = np.ones(len(lists), dtype=bool)
    fixed[rows] = False

    raw = leader_weights(problem, lists)
    weights = raw / np.maximum(raw.sum(axis=0), _FINE)
    targets = band(found.leader_targets / np.maximum(raw.sum(axis=0), _FINE), found.goal.tolerance)
    reached, rest = (leader_loads(leaders[some], weights[some], brokers) for some in (slice(None), fixed))
    low, high = np.minimum(targets.low, reached) - _FINE, np.maximum(targets.high, reached) + _FINE

    topics = TopicLeaders(problem, leaders)
    led = np.bincount(topics.topic * brokers + leaders, minlength=topics.room.size)
    stays = np.bincount(topics.topic[fixed] * brokers + leaders[fixed], minlength=topics.room.size)
    most = topics.room.ravel() + led
    cells, cell = np.unique(topics.topic[rows] * brokers + here, return_inverse=True)
    outside = np.delete(np.maximum(0, stays - most), cells).sum()

    partitions, partition = np.unique(rows, return_inverse=True)
    evened = np.flatnonzero(problem.evened)
    number = np.full(brokers, -1)
    number[evened] = np.arange(len(evened))
    at = np.cumsum([0, len(partitions), *[len(evened)] * weights.shape[1], len(cells)])
    own = np.arange(count)
    mine = problem.evened[here]
    one, each = np.ones(len(cells)), np.arange(len(cells))
    entries = [
        (partition, own, np.ones(count)),
        *((at[1 + k] + number[here[mine]], own[mine], weights[rows[mine], k]) for k in range(weights.shape[1])),
        (at[-2] + cell, own, np.ones(count)),
        (at[-2] + each, count + each, -one),
        (np.full(len(cells), at[-1]), count + each, one),
    ]
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))

    least, highest = ((bound - rest)[evened].T.ravel() for bound in (low, high))
    lower = [np.ones(len(partitions)), least, np.full(len(cells) + 1, -np.inf)]
    too_many = np.append(most - stays, topics.excess - outside)[[*cells, -1]]
    upper = [np.ones(len(partitions)), highest, too_many]
    first = np.concatenate([positions == 0, np.maximum(0, led - most)[cells]]).astype(np.float64)
    program = solver.Program(
        np.concatenate([cost, np.zeros(len(cells))]),
        np.concatenate([np.ones(count), np.full(len(cells), np.inf)]),
        np.concatenate(lower),
        np.concatenate(upper),
        row,
        column,
        value,
        np.concatenate([np.ones(count, dtype=bool), np.zeros(len(cells), dtype=bool)]),
    )
    return program, first
