"""Which lists of the last proposal a plan may still have, and the order of replicas in them.

A plan near the last one is a small difference for whoever approves it again. But the cluster and the settings may have
changed since, so every list is held to the same rules as a new one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Ints,
    Problem,
    added,
    among,
    changed_lists,
    lagging,
    replication,
    widened,
)
from kafka_rebalance.planning.rules.rack_rule import RackRule, domains_of, violations
from kafka_rebalance.planning.rules.where_replicas_may_go import MoveRule


def lists_near(
    problem: Problem,
    racks: RackRule,
    others: Sequence[MoveRule],
    proposed: Ints,
    forced: Ints,
    origin: Ints,
    free: Bools,
    givers: Bools,
) -> Ints:
    """[row, column] The proposed lists that are still allowed, and the `forced` ones in all other rows.

    `forced` has the lists after the moves that the job requires, and `origin` where each replica was; a replica that
    stays keeps its column. Only `free` replicas may be elsewhere, and only `givers` lose any that need not leave.
    """
    width = max(forced.shape[1], proposed.shape[1])
    lists = widened(proposed, width)
    before = widened(problem.replicas, width)
    kept, new = among(widened(forced, width), lists), added(lists, before)
    at = np.maximum(lists, 0)
    allowed = (proposed >= 0).any(axis=1)
    allowed &= replication(lists) == replication(forced)
    allowed &= ~(problem.leaving[at] & (lists >= 0)).any(axis=1) & ~_twice(lists)
    allowed &= (~new | problem.receivers[at]).all(axis=1)
    allowed &= (kept[:, : forced.shape[1]] | free | (forced < 0)).all(axis=1)  # what may not move is in the list
    gone = (before >= 0) & ~among(before, lists)
    allowed &= (~gone | (givers | problem.leaving)[np.maximum(before, 0)]).all(axis=1)
    allowed &= ~violations(racks, lists)
    domains = [np.sort(domains_of(racks, some), axis=1) for some in (lists, before)]
    allowed &= ~racks.confined | (domains[0] == domains[1]).all(axis=1)
    arrive, column = np.nonzero(new)
    for rule in others:
        may = rule.allows(arrive, np.full(len(arrive), -1), lists[arrive, column][:, None])
        allowed[arrive[~np.broadcast_to(may, (len(arrive), 1))[:, 0]]] = False
    rows = np.flatnonzero(allowed)
    result = forced.copy()
    result[rows] = _in_columns(lists[rows], forced[rows], origin[rows])
    return result


def _twice(lists: Ints) -> Bools:
    """[row] Whether the list names a broker twice."""
    ordered = np.sort(lists, axis=1)
    twice: Bools = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    return twice


def _in_columns(lists: Ints, forced: Ints, origin: Ints) -> Ints:
    """[row, column] The same replicas, each that stays in the column of its origin, the others in the order given."""
    stays = (origin >= 0) & among(origin, lists) & (forced >= 0)
    new = added(lists, origin)
    order = np.argsort(~new, axis=1, kind="stable")
    arriving = np.take_along_axis(lists, order, axis=1)
    empty = (forced >= 0) & ~stays
    number = np.minimum(np.maximum(np.cumsum(empty, axis=1) - 1, 0), lists.shape[1] - 1)
    filled: Ints = np.where(empty, np.take_along_axis(arriving, number, axis=1), np.where(stays, origin, -1))
    return filled


def in_proposed_order(problem: Problem, lists: Ints, proposed: Ints, givers: Bools, *, all_leaders: bool) -> Ints:
    """[row, column] The lists, where those of the same brokers as the proposed ones have the proposed order.

    Not where the first replica proposed may not lead now, where today's first is none of the `givers` of leaders, or
    where the candidate changes no leader of a list that stays (unless `all_leaders`).
    """
    width = max(lists.shape[1], proposed.shape[1])
    now, wanted = widened(lists, width), widened(proposed, width)
    first, before = np.maximum(wanted[:, 0], 0), problem.replicas[:, 0]
    may_lead = (first == before) | (problem.evened[first] & ~lagging(problem, wanted)[:, 0] & ~problem.closed[before])
    may_lead &= (first == now[:, 0]) | ~(now == before[:, None]).any(axis=1) | givers[now[:, 0]]
    alike = (np.sort(now, axis=1) == np.sort(wanted, axis=1)).all(axis=1)
    movable = problem.movable & (all_leaders | changed_lists(problem.replicas, lists))
    ordered: Ints = np.where((alike & may_lead & movable)[:, None], wanted, now)[:, : lists.shape[1]]
    return ordered
