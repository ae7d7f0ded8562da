"""The rack rule, as fast masks over many moves.

Every broker is in a *domain*. This is its rack if racks are known, else a domain of its own. If only some brokers have
a rack, those without share a domain. A replica may go where the partition stays as well spread as before, and never to
a broker that already holds the partition. A list is well spread with a replica in every domain, or in as many as it has
replicas. With `more_replicas_than_racks` no domain holds more than one replica above any other. Tests compare these
masks with the rule for one list, written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, replication
from kafka_rebalance.planning.problem.pools import parts_of

_NOWHERE = -3
ELSEWHERE = -4  # in a rack that has no broker of those that count


@dataclass(frozen=True, slots=True, eq=False)
class EvenRacks:
    """As many replicas in each rack as the racks allow: `each`, or one for every broker; `more` racks hold one more.

    A rack with too few brokers holds fewer, and the others share the rest.
    """

    brokers: Ints  # [rack] that stay
    each: Ints  # [replicas of a list]
    more: Ints  # [replicas of a list]

    def kept(self, held: Ints, counts: Ints) -> Ints:
        """[row] How many replicas may stay in their racks. `held` is [row, rack]; `counts` is how many are to be."""
        each = np.minimum(self.brokers, self.each[counts][:, None])
        above = ((held > each) & (self.brokers > each)).sum(axis=1)
        kept: Ints = np.minimum(held, each).sum(axis=1) + np.minimum(above, self.more[counts])
        return kept


def _even_racks(domain: Ints, staying: Bools, racks: int) -> EvenRacks:
    """`domain` and `staying` are [broker]."""
    brokers = np.bincount(domain[staying], minlength=racks)
    room = np.array([np.minimum(brokers, each).sum() for each in range(int(brokers.max()) + 2)])  # up to each of them
    counts = np.minimum(np.arange(len(domain) + 2), brokers.sum())  # of the longest list, with one more
    each = np.searchsorted(room, counts, side="right") - 1
    return EvenRacks(brokers, each, counts - room[each])


@dataclass(frozen=True, slots=True, eq=False)
class RackRule:
    """The domain of each broker, and how many of them count as racks."""

    domain: Ints  # [broker]; negative for brokers that are not registered, which count for no rack
    racks: int
    known: bool  # False: there are no racks, so any distinct brokers satisfy the rule
    strict: bool  # no partition has more replicas than there are domains, so no two may share one
    even: EvenRacks | None  # some have more, and each domain must hold equally many; None: at least one is enough
    confined: Bools  # [partition row] whether its replicas stay in their domains
    held: Ints  # [partition row, rack] replicas in each rack now; no row if no partition is confined

    @property
    def has_rack(self) -> Bools:
        """[broker] Whether its rack is known, also if no broker that counts is in it."""
        known: Bools = (self.domain != _NOWHERE) & self.known
        return known

    def least(self, counts: Ints, rack: int) -> Ints:
        """[row] How many of so many replicas the rack must hold."""
        least: Ints = (counts >= self.racks).astype(np.int64)
        return least if self.even is None else np.minimum(self.even.brokers[rack], self.even.each[counts])

    def most(self, counts: Ints, rack: int) -> Ints:
        """[row] How many of so many replicas the rack may hold."""
        most: Ints = np.maximum(1, counts - self.racks + 1)
        return most if self.even is None else np.minimum(self.even.brokers[rack], self.even.each[counts] + 1)

    def holds(self, counts: Ints, rack: int) -> tuple[Ints, Ints]:
        """[partition row] (the least, the most) of so many replicas that the rack holds in the end.

        A confined list has as many in each rack as now. Only replicas that are in no rack now, or that a factor adds or
        drops, change that.
        """
        least, most = self.least(counts, rack), self.most(counts, rack)
        if not self.confined.any():
            return least, most
        here, more = self.held[:, rack], counts - self.held.sum(axis=1)
        fewest, greatest = np.maximum(0, here + np.minimum(0, more)), here + np.maximum(0, more)
        return np.where(self.confined, fewest, least), np.where(self.confined, greatest, most)

    def wanted(self, counts: Ints) -> Ints:
        """[row] How well spread lists with so many replicas have to be (see `spread`)."""
        wanted: Ints = np.minimum(counts, self.racks if self.even is None else self.even.brokers.sum())
        return wanted

    def spread(self, domains: Ints, counts: Ints) -> Ints:
        """[row] On how many racks a list is. If racks must be even: how many of its replicas may stay in their racks.

        `domains` is [row, position], negative in no rack; `counts` is how many replicas the list is to have.
        """
        return distinct(domains) if self.even is None else self.even.kept(in_racks(domains, self.racks), counts)

    def spread_of(self, held: Ints, counts: Ints) -> Ints:
        """[row] The same; `held` is [row, rack] replicas."""
        on_racks: Ints = (held > 0).sum(axis=1)
        return on_racks if self.even is None else self.even.kept(held, counts)


def rack_rule(problem: Problem, replication_factor: int | None = None) -> RackRule:
    """The rule for this cluster and its largest replication factor, or the one that the job asks for.

    Brokers that stay without a rack, while others have one, count as one rack together, because it is unknown whether
    they are apart. A broker that is emptied needs no rack: a dead one has none, and the remaining cluster has its own.
    """
    shares = problem.settings.more_replicas_than_racks
    here = problem.registered & ~problem.pools.foreign
    counted = problem.staying if shares else here  # only what stays can hold the other replicas
    named = sorted({rack for rack, here in zip(problem.racks, counted, strict=True) if here and rack is not None})
    has_rack = np.array([rack is not None for rack in problem.racks], dtype=bool)
    known = bool((has_rack & problem.staying).any())
    if known:
        number = {rack: index for index, rack in enumerate(named)}
        without = rackless(problem)
        numbers = [
            len(named) if alone else _NOWHERE if rack is None else number.get(rack, ELSEWHERE)
            for rack, alone in zip(problem.racks, without.tolist(), strict=True)
        ]
        racks = len(named) + bool(without.any())
    else:
        numbers, racks = list(range(len(problem.racks))), int(here.sum())
    domain = np.where(problem.registered, np.array(numbers, dtype=np.int64), _NOWHERE)
    most = max(int(replication(problem.replicas).max(initial=0)), replication_factor or 0)
    confined = problem.rack_pinned & known
    strict = most <= racks
    even = _even_racks(domain, problem.staying, racks) if shares and known and not strict else None
    counted_lists = problem.replicas if confined.any() else problem.replicas[:0]
    held = in_racks(np.where(counted_lists >= 0, domain[counted_lists], -1), racks)
    return RackRule(domain, racks, known, strict, even, confined, held)


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


def in_racks(domains: Ints, racks: int) -> Ints:
    """[row, rack] How many replicas each rack holds. `domains` is [row, position]; negative ones count for none."""
    rows = np.arange(len(domains))[:, None]
    places = np.where(domains >= 0, rows * racks + domains, -1)
    counts: Ints = np.bincount(places[places >= 0], minlength=len(domains) * racks)
    return counts.reshape(len(domains), racks)


# The rows of each pool, and the rule over its brokers alone.
RackRules: TypeAlias = tuple[tuple[Ints, RackRule], ...]


def rack_rules(problem: Problem) -> RackRules:
    return tuple((part.rows, rack_rule(part.problem)) for part in parts_of(problem))


def broken_now(problem: Problem) -> int:
    """Partitions that break the rack rule now."""
    return int(broken_lists(rack_rules(problem), problem.replicas).sum())


def broken_lists(rules: RackRules, replicas: Ints) -> Bools:
    """[partition row] Whether the list breaks the rack rule of its pool. `replicas` are the lists of all partitions."""
    broken = np.zeros(len(replicas), dtype=bool)
    for rows, rule in rules:
        broken[rows] = violations(rule, replicas[rows])
    return broken


def violations(rule: RackRule, replicas: Ints) -> Bools:
    """[partition row] Whether the list breaks the rack rule."""
    if not rule.known:
        return np.zeros(len(replicas), dtype=bool)
    counts = replication(replicas)
    broken: Bools = rule.spread(domains_of(rule, replicas), counts) < rule.wanted(counts)
    return broken


def keeps_racks(
    rule: RackRule, replicas: Ints, domains: Ints, rows: Ints, columns: Ints, targets: Ints, *, repair: bool = False
) -> Bools:
    """[move, target] Whether the replica at (row, column) may go to the target; an empty place may be filled.

    A replica from no rack (an empty place, a dead broker) should add one, if there is one that the list lacks. One that
    shares its rack with another may stay in it: the list gets no worse. `targets` is [target], or [move, 1]. With
    `repair` a move must spread the list better.
    """
    spread = np.broadcast_to(targets, (len(rows), targets.shape[-1]))
    from_domain, to_domain = domains[rows, columns], np.broadcast_to(rule.domain[targets], spread.shape)
    others = domains[rows]
    others[np.arange(len(rows)), columns] = -2
    shared = np.zeros(spread.shape, dtype=bool)
    for position in range(others.shape[1]):
        shared |= others[:, position, None] == to_domain
    legal: Bools
    if rule.even is not None:
        legal = _kept_even(rule.even, replicas[rows], domains[rows], others, columns, to_domain, repair=repair)
        for position in range(others.shape[1]):
            legal &= replicas[rows, position][:, None] != spread
    elif rule.strict:
        legal = ~shared & (replicas[rows, columns][:, None] != spread)
        if not repair:
            legal |= _kept_doubled(replicas[rows], others, from_domain, to_domain, spread)
    else:
        left = distinct(others)
        need = np.where(from_domain < 0, np.minimum(left + 1, rule.racks), distinct(domains[rows]) + repair)
        legal = left[:, None] + ~shared >= need[:, None]
        for position in range(others.shape[1]):
            legal &= replicas[rows, position][:, None] != spread
    return legal


def _kept_doubled(lists: Ints, others: Ints, from_domain: Ints, to_domain: Ints, targets: Ints) -> Bools:
    """[move, target] Whether a replica that shares its rack with another of its list stays in this rack.

    All but `from_domain` are [move, …]: the list, the domains of the replicas that stay, and those of the targets.
    """
    legal = np.zeros(targets.shape, dtype=bool)
    some = np.flatnonzero(((others == from_domain[:, None]) & (from_domain >= 0)[:, None]).any(axis=1))
    if len(some):
        elsewhere = (lists[some][:, :, None] != targets[some][:, None, :]).all(axis=1)
        legal[some] = elsewhere & (to_domain[some] == from_domain[some][:, None])
    return legal


def _kept_even(
    even: EvenRacks, lists: Ints, domains: Ints, others: Ints, columns: Ints, to_domain: Ints, *, repair: bool
) -> Bools:
    """[move, target] Whether the list keeps as even over the racks as it is, with its replica in the target's rack.

    All but `to_domain` are [move, …]: the list, its domains, and the domains of the replicas that stay.
    """
    moves, racks = np.arange(len(lists)), len(even.brokers)
    counts = replication(lists) + (lists[moves, columns] < 0)  # an empty place is filled
    held = in_racks(others, racks)
    left, now = even.kept(held, counts), even.kept(in_racks(domains, racks), counts)
    need = np.where(domains[moves, columns] < 0, left + 1, now + repair)
    each = np.minimum(even.brokers, even.each[counts][:, None])
    one_more = (((held > each) & (even.brokers > each)).sum(axis=1) < even.more[counts])[:, None]
    adds = (held < each) | ((held == each) & (even.brokers > each) & one_more)  # [move, rack]
    here = np.take_along_axis(adds, np.maximum(to_domain, 0), axis=1) & (to_domain >= 0)
    kept: Bools = left[:, None] + here >= need[:, None]
    return kept
