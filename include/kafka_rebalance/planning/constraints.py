"""The rack rule as fast masks over many moves.

The rule itself is `model.rules.rack_rule_problem`, and tests hold the two together.

Every broker lies in a *domain*: its rack where racks are known, else a domain of its own. A replica may go where it
leaves the partition on no fewer domains than before, and never beside another replica of the same partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.arrays import Bools, Ints, Problem, replication

_NOWHERE = -3


@dataclass(frozen=True, slots=True, eq=False)
class RackRule:
    """Domains of the brokers, and how many of them the rule counts."""

    domain: Ints  # [broker]; negative for brokers that are not registered: they count for no rack
    racks: int
    known: bool  # False: no racks, so any distinct brokers will do
    strict: bool  # no partition has more replicas than there are domains: no two may ever share one


def rack_rule(problem: Problem, replication_factor: int | None = None) -> RackRule:
    """The rule for this cluster and the largest replication factor in it (or asked for)."""
    registered = [rack for rack, here in zip(problem.racks, problem.registered, strict=True) if here]
    known = bool(registered) and None not in registered
    if known:
        number = {rack: index for index, rack in enumerate(sorted({rack for rack in registered if rack is not None}))}
        numbers = [number.get(rack or "", 0) for rack in problem.racks]
        racks = len(number)
    else:
        numbers, racks = list(range(len(problem.racks))), len(registered)
    domain = np.where(problem.registered, np.array(numbers, dtype=np.int64), _NOWHERE)
    largest = max(int(replication(problem.replicas).max(initial=0)), replication_factor or 0)
    return RackRule(domain, racks, known, largest <= racks)


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

    `targets` is [target], or [move, 1] for one target a move. With `repair` only what adds a domain is allowed.
    """
    spread = np.broadcast_to(targets, (len(rows), targets.shape[-1]))
    to_domain = rule.domain[spread]
    index = np.arange(len(rows))
    others = domains[rows]
    others[index, columns] = -2
    shared = np.zeros(spread.shape, dtype=bool)
    if rule.strict:
        for position in range(others.shape[1]):
            shared |= others[:, position, None] == to_domain
        free: Bools = ~shared & (replicas[rows, columns][:, None] != spread)
        return free
    same_broker = np.zeros(spread.shape, dtype=bool)
    for position in range(others.shape[1]):
        shared |= others[:, position, None] == to_domain
        same_broker |= replicas[rows, position][:, None] == spread
    left = distinct(others)
    empty = replicas[rows, columns] < 0
    need = np.where(empty, np.minimum(left + 1, rule.racks), distinct(domains[rows]) + (1 if repair else 0))
    legal: Bools = ~same_broker & (left[:, None] + ~shared >= need[:, None])
    return legal
