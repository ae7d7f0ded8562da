"""The rack rule, and what else forbids a single move, as fast masks over many moves.

The rule itself is `model.rules.rack_rule_problem`, and tests hold the two together.

Every broker lies in a *domain*: its rack where racks are known, else a domain of its own. A replica may go where it
leaves the partition on no fewer domains than before, and never beside another replica of the same partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.arrays import Bools, Floats, Ints, Problem, replication

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

    A broker that is emptied need not have a rack: one that is dead has none, and the cluster that remains has its own.
    """
    registered = [
        rack
        for rack, here, stays in zip(problem.racks, problem.registered, problem.staying, strict=True)
        if here and (stays or rack is not None)
    ]
    known = bool(registered) and None not in registered
    if known:
        number = {rack: index for index, rack in enumerate(sorted({rack for rack in registered if rack is not None}))}
        numbers = [_NOWHERE if rack is None else number.get(rack, _NOWHERE) for rack in problem.racks]
        racks = len(number)
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
