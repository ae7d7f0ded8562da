"""Moves that are asked for whatever the balance: emptied brokers, replacements, replication factors, rack repairs.

Each goes to the place that helps balance most, largest first, while there is most room.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.problem.arrays import DISK, Bools, Ints, Problem, replication
from kafka_rebalance.planning.rules.rack_rule import allowed, distinct, domains_of, rack_rule, violations
from kafka_rebalance.planning.search.placement import Placement, distance

_REPACKS = 50  # times that what must go is placed anew where disks are tight
_REPACKED = 20_000  # replicas in all of these, about
_ROOMY = 1e300  # left on a disk of unknown size: more than on any other, and a number
_ASIDE = 100  # replicas of one broker that may be pushed aside, the smallest that would do


def empty_brokers(placement: Placement, leaving: Bools, bands: Bands) -> Ints:
    """Moves every movable replica off the brokers that leave; returns the slots that found no legal place.

    Where disks are so full that some find none, all are placed again, those first, each on the disk that it fills
    most (Joslin and Clements, "Squeaky wheel" optimization, 1999); what is left may push one other replica aside. That
    some find no place even so proves nothing.
    """
    held = (placement.replicas >= 0) & leaving[np.maximum(placement.replicas, 0)] & placement.free
    slots = np.flatnonzero(held.ravel())
    slots = slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]
    homes = placement.replicas.ravel()[slots]
    stranded = [slot for slot in slots if not _place(placement, int(slot), bands)]
    if not np.isfinite(placement.disk_limit[placement.receivers]).any():
        return np.array(stranded, dtype=np.int64)
    for _ in range(min(_REPACKS, 1 + _REPACKED // max(1, len(slots)))):
        if not stranded:
            break
        for slot, home in zip(slots, homes, strict=True):
            if placement.replicas.flat[slot] != home:
                placement.move(np.array([slot]), np.array([home]))
        late = np.isin(slots, stranded, invert=True)
        order = np.argsort(late, kind="stable")
        slots, homes = slots[order], homes[order]
        stranded = [slot for slot in slots if not _place(placement, int(slot), bands, tightly=True)]
    stranded = [slot for slot in stranded if not _make_room(placement, int(slot), bands)]
    return np.array(stranded, dtype=np.int64)


def _place(placement: Placement, slot: int, bands: Bands, *, tightly: bool = False) -> bool:
    """Gives one replica to the receiver that is helped most, whatever the limits; whether there is a legal one.

    With `tightly` to the one with the least room that is left then.
    """
    receivers = np.flatnonzero(placement.receivers)
    if not len(receivers):
        return False
    one = np.array([slot])
    for crowd in (False, True):
        change = placement.changes(one, receivers, bands, crowd=crowd)[0]
        if tightly:
            room = np.minimum(placement.disk_limit - placement.loads[:, DISK], _ROOMY)[receivers]
            change = np.where(np.isfinite(change), room, np.inf)
        best = int(change.argmin())
        if np.isfinite(change[best]):
            placement.move(one, receivers[best : best + 1])
            return True
    return False


def _make_room(placement: Placement, slot: int, bands: Bands) -> bool:
    """Places one replica where the smallest other that is in its way has room elsewhere; whether that is possible."""
    row, weight = slot // placement.width, placement.weights[slot // placement.width, DISK]
    receivers = np.flatnonzero(placement.receivers)
    room = placement.disk_limit - placement.loads[:, DISK]
    here = allowed(
        placement.rule,
        placement.replicas,
        placement.domains,
        np.array([row]),
        np.array([slot % placement.width]),
        receivers,
    )[0]
    for broker in receivers[here][np.argsort(-room[receivers[here]], kind="stable")]:
        others = placement.held[broker, : placement.count[broker]]
        sizes = placement.weights[others // placement.width, DISK]
        order = np.argsort(sizes, kind="stable")
        aside = others[order][sizes[order] >= weight - room[broker]][:_ASIDE]
        legal = placement.legal(aside, receivers, crowd=True) & (receivers != broker)
        for other, free in zip(aside, legal, strict=True):
            if free.any():
                target = receivers[np.where(free, room[receivers], -np.inf).argmax()]
                placement.move(np.array([other]), np.array([target]))
                return _place(placement, slot, bands, tightly=True)
    return False


def repair_racks(placement: Placement, bands: Bands) -> int:
    """Spreads movable partitions that break the rack rule over more racks; returns how many still break it.

    A limit that is reached stops the repairs, and shows in the budget.
    """
    rows = np.flatnonzero(violations(placement.rule, placement.replicas))
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        while _repair(placement, int(row), bands):
            pass
    return int(violations(placement.rule, placement.replicas).sum())


def _repair(placement: Placement, row: int, bands: Bands) -> bool:
    """One replica of the partition to a rack that has none, if the partition needs it; whether one moved."""
    one = slice(row, row + 1)
    if not violations(placement.rule, placement.replicas[one])[0]:
        return False
    receivers = np.flatnonzero(placement.receivers)
    here = placement.domains[row]
    shared = np.array([(here == domain).sum() > 1 for domain in here]) & (here >= 0)
    columns = np.flatnonzero(shared & placement.free[row])
    if not len(columns) or not len(receivers):
        return False
    slots = row * placement.width + columns
    rows = np.full(len(columns), row)
    adds = allowed(
        placement.rule,
        placement.replicas,
        placement.domains,
        rows,
        columns,
        receivers,
        repair=not placement.rule.strict,
    )
    for crowd in (False, True):
        change = np.where(adds, placement.changes(slots, receivers, bands, crowd=crowd), np.inf)
        index, target = np.unravel_index(int(change.argmin()), change.shape)
        if np.isfinite(change[index, target]):
            placement.move(slots[index : index + 1], receivers[target : target + 1])
            return True
    return False


def replaced(problem: Problem, replicas: Ints, replacements: Mapping[int, int]) -> Ints:
    """The lists with every movable replica of an old broker on exactly its new one, in the same position.

    Raises PlanningError where the new broker cannot take one: it already has a copy, or its rack has.
    """
    result = replicas.copy()
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    for old, new in replacements.items():
        at = (replicas == index[old]) & problem.relocatable[:, None]
        result[at] = index[new]
        twice = at.any(axis=1) & (replicas == index[new]).any(axis=1)
        if twice.any():
            row = int(np.flatnonzero(twice)[0])
            raise PlanningError(
                f"Broker {new} cannot replace broker {old}: {int(twice.sum())} of the {int(at.any(axis=1).sum())} "
                f"partitions of broker {old} have a replica on broker {new} already, first "
                f"{_name(problem, row)}. Nothing was planned. Choose another broker, or job 'drain' for {old}."
            )
        racks = problem.racks[index[old]], problem.racks[index[new]]
        confined = np.flatnonzero(at.any(axis=1) & problem.rack_pinned)
        if racks[0] is not None and racks[0] != racks[1] and len(confined):
            raise PlanningError(
                f"Broker {new} (rack {racks[1]}) cannot replace broker {old} (rack {racks[0]}): {len(confined)} of its "
                f"partitions are of rack_pinned_topics, first {_name(problem, int(confined[0]))}. Nothing was planned. "
                f"Choose a broker in rack {racks[0]}."
            )
    return result


def check_replacement_racks(problem: Problem, before: Bools, after: Bools) -> None:
    """Raises PlanningError if the replacement would break the rack rule: [partition row] whether it does."""
    broken = ~before & after
    if broken.any():
        first = _name(problem, int(np.flatnonzero(broken)[0]))
        pairs = ", ".join(f"{old} by {new}" for old, new in problem.settings.replace.items())
        raise PlanningError(
            f"Replacing broker {pairs} would break the rack rule for {int(broken.sum())} partitions, first {first}. "
            "Nothing was planned. Choose a new broker in the same rack, or job 'drain'."
        )


def _name(problem: Problem, row: int) -> str:
    return str(TopicPartition(problem.topics[problem.topic[row]], int(problem.partition[row])))


def wanted_factor(problem: Problem) -> Ints:
    """[partition row] The number of replicas each partition is to have; that of `pinned_topics` stays as it is.

    Those on `brokers_out` are kept in any case, and where they lie on too few racks, so are others that mend that.
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
    """The lists with replicas dropped where there are too many.

    Dropped first: what lies on brokers that leave, then what keeps the most racks, then what is not `in_sync` [row,
    column], then followers before the leader, then what relieves balance most.
    """
    replicas = placement.replicas.copy()
    loads = placement.loads.copy()
    surplus = replication(replicas) - wanted
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
            order = np.lexsort((columns, relief, columns == 0, ~lags, -distinct(without), ~leaving[holders]))
            column = int(columns[order[0]])
            loads[replicas[row, column]] -= weight
            replicas[row, column] = -1
    return left_aligned(replicas)


def led_by_those_who_may(problem: Problem, replicas: Ints, behind: Bools) -> Ints:
    """The lists with another first where dropping the leader left one of `brokers_out` first, or one out of sync.

    Where there is no other, it stays. `behind` is [row, column], replicas that are out of sync.
    """
    result, held = replicas.copy(), np.maximum(replicas, 0)
    closed = problem.closed[held]
    wrong = (closed | behind)[:, 0] & (replicas[:, 0] != problem.replicas[:, 0])
    may_lead = (replicas >= 0) & problem.receivers[held]
    for row in np.flatnonzero(wrong & may_lead.any(axis=1)):
        rank = np.where(may_lead[row], behind[row].astype(np.int64), 2)
        rank[0] = 2 if closed[row, 0] else min(int(rank[0]), 1)
        column = int(rank.argmin())
        result[row, [0, column]] = result[row, [column, 0]]
    return result


def left_aligned(replicas: Ints) -> Ints:
    """The lists with their gaps closed, order kept."""
    order = np.argsort(replicas < 0, axis=1, kind="stable")
    return np.take_along_axis(replicas, order, axis=1)


def grown(placement: Placement, wanted: Ints, bands: Bands) -> tuple[Ints, int]:
    """The lists with replicas added where there are too few, and how many found no legal place."""
    replicas = placement.replicas.copy()
    loads = placement.loads.copy()
    missing = wanted - replication(replicas)
    rows = np.flatnonzero(missing > 0)
    receivers = np.flatnonzero(placement.receivers)
    width = int(wanted.max())
    if width > replicas.shape[1]:
        replicas = np.pad(replicas, ((0, 0), (0, width - replicas.shape[1])), constant_values=-1)
    domains, short = domains_of(placement.rule, replicas), 0
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        weight = placement.weights[row]
        for _ in range(int(missing[row])):
            column = int((replicas[row] < 0).argmax())
            legal = allowed(placement.rule, replicas, domains, np.array([row]), np.array([column]), receivers)[0]
            legal &= loads[receivers, DISK] + weight[DISK] <= placement.disk_limit[receivers]
            low, high = bands.low[receivers], bands.high[receivers]
            change = distance(loads[receivers] + weight, low, high) - distance(loads[receivers], low, high)
            # Inside every band all places are equal: then the emptiest.
            order = np.lexsort((loads[receivers].sum(axis=1), change, ~legal))
            if not len(order) or not legal[order[0]]:
                short += 1
                break
            replicas[row, column] = receivers[order[0]]
            domains[row, column] = placement.rule.domain[receivers[order[0]]]
            loads[receivers[order[0]]] += weight
    return replicas, short
