"""The rack rule, and what else forbids a single move, as fast masks over many moves.

Every broker is in a *domain*. This is its rack if racks are known, else a domain of its own. If only some brokers have
a rack, those without share a domain. A replica may go where the partition stays on no fewer domains than before, and
never to a broker that already holds the partition. Tests compare these masks with the rule for one list, written out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, replication

_NOWHERE = -3


@dataclass(frozen=True, slots=True, eq=False)
class RackRule:
    """The domain of each broker, and how many of them count as racks."""

    domain: Ints  # [broker]; negative for brokers that are not registered, which count for no rack
    racks: int
    known: bool  # False: there are no racks, so any distinct brokers satisfy the rule
    strict: bool  # no partition has more replicas than there are domains, so no two may share one
    sizes: Ints  # [partition row] bytes of a replica
    largest: Floats | None  # [broker] bytes of the largest replica that it takes; None: no limit
    confined: Bools | None  # [partition row] whether its replicas stay in their domains; None: in no partition
    receives: Bools | None  # [broker] whether it may receive replicas, if only some of the `evened` may; None: all may


def rack_rule(problem: Problem, replication_factor: int | None = None) -> RackRule:
    """The rule for this cluster and its largest replication factor, or the one that the job asks for.

    Brokers that stay without a rack, while others have one, count as one rack together, because it is unknown whether
    they are apart. A broker that is emptied needs no rack: a dead one has none, and the remaining cluster has its own.
    """
    named = sorted(
        {rack for rack, here in zip(problem.racks, problem.registered, strict=True) if here and rack is not None}
    )
    has_rack = np.array([rack is not None for rack in problem.racks], dtype=bool)
    known = bool((has_rack & problem.staying).any() or (named and not problem.staying.any()))
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
    largest = problem.log_dirs.room if np.isfinite(problem.log_dirs.room).any() else None
    receives = None if problem.only_receivers is None else problem.receivers
    return RackRule(domain, racks, known, most <= racks, problem.size_bytes, largest, confined, receives)


def rackless(problem: Problem) -> Bools:
    """[broker] Brokers that stay without a rack, in a cluster where others that stay have one."""
    without: Bools = problem.staying & np.array([rack is None for rack in problem.racks], dtype=bool)
    return without if without.sum() < problem.staying.sum() else np.zeros_like(without)


def domains_of(rule: RackRule, replicas: Ints) -> Ints:
    """[partition row, position] The domain of each replica, -1 past the end of a list."""
    return np.where(replicas >= 0, rule.domain[replicas], -1)


def distinct(domains: Ints) -> Ints:
    """[row] How many different domains a row holds; negative ones do not count."""
    ordered = np.sort(domains, axis=1)
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    counts: Ints = (first & (ordered >= 0)).sum(axis=1)
    return counts


def broken_now(problem: Problem) -> int:
    """Partitions that break the rack rule now."""
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

    A replica from no rack (an empty place, a dead broker) should add one, if there is one that the list lacks. A
    confined replica stays in its domain. The target must be one that receives, and its log dirs must have room.
    `targets` is [target], or [move, 1]. With `repair` a move must add a domain.
    """
    spread = np.broadcast_to(targets, (len(rows), targets.shape[-1]))
    from_domain, to_domain = domains[rows, columns], np.broadcast_to(rule.domain[targets], spread.shape)
    others = domains[rows]
    others[np.arange(len(rows)), columns] = -2
    shared = np.zeros(spread.shape, dtype=bool)
    for position in range(others.shape[1]):
        shared |= others[:, position, None] == to_domain
    legal: Bools
    if rule.strict:
        legal = ~shared & (replicas[rows, columns][:, None] != spread)
    else:
        left = distinct(others)
        need = np.where(from_domain < 0, np.minimum(left + 1, rule.racks), distinct(domains[rows]) + repair)
        legal = left[:, None] + ~shared >= need[:, None]
        for position in range(others.shape[1]):
            legal &= replicas[rows, position][:, None] != spread
    if rule.confined is not None:
        free = ~rule.confined[rows] | (from_domain < 0)
        legal &= free[:, None] | (to_domain == from_domain[:, None])
    if rule.receives is not None:
        legal &= rule.receives[targets]
    if rule.largest is not None:
        legal &= rule.sizes[rows][:, None] <= rule.largest[targets]
    return legal
