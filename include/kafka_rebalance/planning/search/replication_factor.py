"""Job `replication_factor`: how many replicas each partition gets, and lists that gain or lose some."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, distance
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, left_aligned, replication, widened
from kafka_rebalance.planning.rules.rack_rule import allowed, distinct, domains_of, rack_rule, violations
from kafka_rebalance.planning.search.placement import Placement


def wanted_factor(problem: Problem) -> Ints:
    """[partition row] The number of replicas each partition gets; that of `pinned_topics` stays as it is.

    Replicas on `brokers_out` stay in any case. If these are on too few racks, others that mend that stay as well.
    """
    counts, factor = replication(problem.replicas), problem.settings.replication_factor
    if factor is None:
        return counts
    rule = rack_rule(problem, factor)
    stays = (problem.replicas >= 0) & problem.closed[np.maximum(problem.replicas, 0)]
    kept = stays.sum(axis=1)
    least = np.maximum(factor, kept)
    if rule.known:
        spread = distinct(np.where(stays, domains_of(rule, problem.replicas), -1))
        crowded = (spread < kept) & ~violations(rule, problem.replicas)
        least = np.where(crowded, np.maximum(least, kept + rule.racks - spread), least)
    return np.where(problem.relocatable, least, counts)


def shrunk(placement: Placement, wanted: Ints, leaving: Bools, in_sync: Bools, bands: Bands) -> Ints:
    """The lists without surplus replicas. `in_sync` is [row, column].

    It drops replicas in this order: those out of sync; on brokers that leave; those whose loss keeps the list best
    spread; followers before the leader; those whose loss helps balance most. A copy can mend the spread afterwards, but
    nothing is a source for a copy except a replica in sync.

    A replica that leaves costs nothing, but one that may not change its rack cannot mend the spread afterwards. There
    the spread comes before that.
    """
    replicas = placement.replicas.copy()
    loads = placement.loads.copy()
    surplus, confined = replication(replicas) - wanted, placement.rule.confined
    rows = np.flatnonzero(surplus > 0)
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        weight = placement.weights[row]
        for _ in range(int(surplus[row])):
            columns = np.flatnonzero((replicas[row] >= 0) & placement.free[row])
            if not len(columns):
                break
            holders = replicas[row, columns]
            without = np.repeat(placement.rule.domain[np.maximum(replicas[row], 0)][None], len(columns), axis=0)
            without[:, replicas[row] < 0] = -1
            without[np.arange(len(columns)), columns] = -1
            relief = distance(loads[holders] - weight, bands.low[holders], bands.high[holders])
            relief -= distance(loads[holders], bands.low[holders], bands.high[holders])
            lags = ~in_sync[row, columns]
            counts = np.full(len(columns), (replicas[row] >= 0).sum() - 1)
            spread = placement.rule.spread(without, counts)
            first, second = ~leaving[holders], -spread
            if confined is not None and confined[row]:
                first, second = second, first
            order = np.lexsort((columns, relief, columns == 0, second, first, ~lags))
            column = int(columns[order[0]])
            loads[replicas[row, column]] -= weight
            replicas[row, column] = -1
    return left_aligned(replicas)


def dropped_behind(problem: Problem, wanted: Ints) -> Ints | None:
    """[partition row, n] Brokers whose replica is out of sync, of lists that get shorter; -1 past the end. None: none.

    A replica that the shorter list has dropped there must not come back to mend racks or balance: it is no free copy.
    """
    behind = (problem.replicas >= 0) & ~problem.in_sync & (replication(problem.replicas) > wanted)[:, None]
    return np.where(behind, problem.replicas, -1) if behind.any() else None


def led_by_those_who_may(problem: Problem, replicas: Ints, behind: Bools) -> Ints:
    """Puts another replica first where the loss of the leader left one first that is on `brokers_out` or out of sync.

    If there is no other, it stays. `behind` is [row, column], replicas that are out of sync.
    """
    result, held = replicas.copy(), np.maximum(replicas, 0)
    closed = problem.closed[held]
    wrong = (closed | behind)[:, 0] & (replicas[:, 0] != problem.replicas[:, 0])
    may_lead = (replicas >= 0) & problem.evened[held]
    for row in np.flatnonzero(wrong & may_lead.any(axis=1)):
        rank = np.where(may_lead[row], behind[row].astype(np.int64), 2)
        rank[0] = 2 if closed[row, 0] else min(int(rank[0]), 1)
        column = int(rank.argmin())
        result[row, [0, column]] = result[row, [column, 0]]
    return result


def grown(placement: Placement, wanted: Ints, bands: Bands) -> tuple[Ints, int]:
    """The lists with the missing replicas, and how many of these found no legal place."""
    replicas = widened(placement.replicas, int(wanted.max())).copy()
    loads = placement.loads.copy()
    missing = wanted - replication(replicas)
    rows = np.flatnonzero(missing > 0)
    receivers = np.flatnonzero(placement.receivers)
    domains, short = domains_of(placement.rule, replicas), 0
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        weight = placement.weights[row]
        for _ in range(int(missing[row])):
            column = int((replicas[row] < 0).argmax())
            legal = allowed(placement.rule, replicas, domains, np.array([row]), np.array([column]), receivers)[0]
            legal &= (loads[receivers] + weight <= placement.limits[receivers]).all(axis=1)
            low, high = bands.low[receivers], bands.high[receivers]
            change = distance(loads[receivers] + weight, low, high) - distance(loads[receivers], low, high)
            # Inside every band all places are equal, so the emptiest wins.
            order = np.lexsort((loads[receivers].sum(axis=1), change, ~legal))
            if not len(order) or not legal[order[0]]:
                short += 1
                break
            replicas[row, column] = receivers[order[0]]
            domains[row, column] = placement.rule.domain[receivers[order[0]]]
            loads[receivers[order[0]]] += weight
    return replicas, short
