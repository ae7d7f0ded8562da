"""The rack rule, and what else forbids a single move, as fast masks over many moves.

Tests hold it to the rule of one list, as they write it out.

Every broker lies in a *domain*: its rack where racks are known, else a domain of its own; brokers without a rack
beside others with one share a domain. A replica may go where it
leaves the partition on no fewer domains than before, and never beside another replica of the same partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, replication

_NOWHERE = -3


@dataclass(frozen=True, slots=True, eq=False)
class RackRule:
    """Domains of the brokers, and how many of them the rule counts."""

    domain: Ints  # [broker]; negative for brokers that are not registered: they count for no rack
    racks: int
    known: bool  # False: no racks, so any distinct brokers will do
    strict: bool  # no partition has more replicas than there are domains: no two may ever share one
    sizes: Ints  # [partition row] bytes of a replica
    largest: Floats | None  # [broker] bytes of the largest replica that it takes; None: any broker takes any
    confined: Bools | None  # [partition row] whether replicas that move stay in their domain; None: no partition's do


def rack_rule(problem: Problem, replication_factor: int | None = None) -> RackRule:
    """The rule for this cluster and the largest replication factor in it (or asked for).

    Brokers that stay and have no rack while others have one count as one rack together: nobody knows that they lie
    apart. A broker that is emptied need not have a rack: one that is dead has none, and the cluster that remains has
    its own.
    """
    named = sorted(
        {rack for rack, here in zip(problem.racks, problem.registered, strict=True) if here and rack is not None}
    )
    known = any(stays and rack is not None for rack, stays in zip(problem.racks, problem.staying, strict=True))
    known = known or (bool(named) and not problem.staying.any())
    if known:
        number = {rack: index for index, rack in enumerate(named)}
        without = rackless(problem)
        numbers = [
            len(named) if alone else _NOWHERE if rack is None else number.get(rack, _NOWHERE)
            for rack, alone in zip(problem.racks, without.tolist(), strict=True)
        ]
        racks = len(named) + bool(without.any())
    else:
        numbers, racks = list(range(len(problem.racks))), int(problem.registered.sum())
    domain = np.where(problem.registered, np.array(numbers, dtype=np.int64), _NOWHERE)
    most = max(int(replication(problem.replicas).max(initial=0)), replication_factor or 0)
    confined = problem.rack_pinned if known and problem.rack_pinned.any() else None
    rooms = problem.log_dirs.room
    return RackRule(
        domain,
        racks,
        known,
        most <= racks,
        problem.size_bytes,
        rooms if np.isfinite(rooms).any() else None,
        confined,
    )


def rackless(problem: Problem) -> Bools:
    """[broker] Brokers that stay and have no rack, in a cluster of which others that stay have one."""
    without: Bools = problem.staying & np.array([rack is None for rack in problem.racks], dtype=bool)
    return without if without.sum() < problem.staying.sum() else np.zeros_like(without)


def domains_of(rule: RackRule, replicas: Ints) -> Ints:
    """[partition row, position] The domain of each replica, -1 past the end of a list."""
    return np.where(replicas >= 0, rule.domain[replicas], -1)


def distinct(domains: Ints) -> Ints:
    """[row] How many different domains a row holds; -1 and less count for nothing."""
    ordered = np.sort(domains, axis=1)
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    counts: Ints = (first & (ordered >= 0)).sum(axis=1)
    return counts


def broken_now(problem: Problem) -> int:
    """Partitions that break the rack rule as they are."""
    return int(violations(rack_rule(problem), problem.replicas).sum())


def violations(rule: RackRule, replicas: Ints) -> Bools:
    """[partition row] Whether the list breaks the rack rule."""
    if not rule.known:
        return np.zeros(len(replicas), dtype=bool)
    return distinct(domains_of(rule, replicas)) < np.minimum(replication(replicas), rule.racks)


def allowed(
    rule: RackRule, replicas: Ints, domains: Ints, rows: Ints, columns: Ints, targets: Ints, *, repair: bool = False
) -> Bools:
    """[move, target] Whether the replica at (row, column) may go to the target; an empty place may be filled.

    What comes from no rack (an empty place, a dead broker) should add one, where there is one that the list lacks.
    `targets` is [target], or [move, 1] for one target a move. With `repair` only what adds a domain is allowed.
    """
    spread = np.broadcast_to(targets, (len(rows), targets.shape[-1]))
    to_domain = np.broadcast_to(rule.domain[targets], spread.shape)
    index = np.arange(len(rows))
    others = domains[rows]
    others[index, columns] = -2
    shared = np.zeros(spread.shape, dtype=bool)
    if rule.strict:
        for position in range(others.shape[1]):
            shared |= others[:, position, None] == to_domain
        free: Bools = ~shared & (replicas[rows, columns][:, None] != spread)
        return _and_other_rules(free, rule, domains[rows, columns], rows, spread)
    same_broker = np.zeros(spread.shape, dtype=bool)
    for position in range(others.shape[1]):
        shared |= others[:, position, None] == to_domain
        same_broker |= replicas[rows, position][:, None] == spread
    left = distinct(others)
    nowhere = domains[rows, columns] < 0
    need = np.where(nowhere, np.minimum(left + 1, rule.racks), distinct(domains[rows]) + (1 if repair else 0))
    legal: Bools = ~same_broker & (left[:, None] + ~shared >= need[:, None])
    return _and_other_rules(legal, rule, domains[rows, columns], rows, spread)


def _and_other_rules(legal: Bools, rule: RackRule, from_domain: Ints, rows: Ints, targets: Ints) -> Bools:
    """[move, target] What is legal where a confined replica stays in its domain and the target's log dirs have room."""
    if rule.confined is not None:
        free = ~rule.confined[rows] | (from_domain < 0)
        legal = legal & (free[:, None] | (rule.domain[targets] == from_domain[:, None]))
    if rule.largest is not None:
        legal = legal & (rule.sizes[rows][:, None] <= rule.largest[targets])
    return legal
