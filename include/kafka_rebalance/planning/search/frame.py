"""What every search of a candidate shares, and the lists that each job begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note
from kafka_rebalance.documents.proposals import MoveReason
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.bounds.targets import (
    Bands,
    band,
    distance,
    filled_bands,
    reachable_targets,
    within_limits,
)
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    among,
    left_aligned,
    replica_loads,
    replica_weights,
    replication,
    shares,
    widened,
)
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.crowding import Crowding, left_by_racks
from kafka_rebalance.planning.rules.disk_limits import disk_limits_in_the_end, disk_shares
from kafka_rebalance.planning.rules.goals import Goal
from kafka_rebalance.planning.rules.rack_rule import RackRule, RackRules, distinct, domains_of, rack_rule, violations
from kafka_rebalance.planning.rules.topic_spread import topic_spread
from kafka_rebalance.planning.rules.where_replicas_may_go import MoveRule, allowed, limits_in_the_end, move_rules
from kafka_rebalance.planning.search.placement import Budget, CopyCosts, Placement, total

# What every search of a candidate shares: units, targets and limits. And the lists that a search finds.


BETWEEN_RACKS, PREFERRED = 2.0, 1.3  # what a byte counts that is copied between racks: where asked, and else
_SMALLER = 1 / 3  # of all bytes are in replicas smaller than the one that is worth a leader change


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What all steps of one candidate share. Loads are in units of the mean staying broker."""

    problem: Problem
    goal: Goal
    rule: RackRule
    others: tuple[MoveRule, ...]  # what else keeps replicas off some brokers
    wanted: Ints  # [partition row] replicas in the end
    weights: Floats
    scale: Floats  # [resource] unit of the weights, in the resource's own unit
    targets: Floats
    limits: Floats  # [broker, resource] what a broker may carry in the end, if it receives anything
    topic_shares: Floats  # [broker] the share of each topic that the broker should hold
    left_by_racks: Floats | None  # [topic, broker] replicas of each topic, if racks do not leave them even
    emptied: Bools  # [broker] brokers that should hold nothing of this: they leave, or are of another pool
    relief: Relief | None  # of job `relieve`

    def band(self, tolerance: float) -> Bands:
        """The tolerance about the targets."""
        return self.within_limits(band(self.targets, tolerance))

    def within_limits(self, bands: Bands) -> Bands:
        """With `survive`, the part of the bands that a broker may carry, because brokers beyond it have to give."""
        if self.problem.settings.survive is None:
            return bands
        return Bands(np.minimum(bands.low, self.limits), np.minimum(bands.high, self.limits))


def frame_of(problem: Problem, goal: Goal, wanted: Ints) -> Frame:
    """The frame of a candidate whose partitions end with `wanted` replicas."""
    shares_racks = problem.settings.more_replicas_than_racks
    rule = rack_rule(problem, int(wanted.max(initial=0)) if shares_racks else problem.settings.replication_factor)
    raw = replica_weights(problem)
    staying = int(problem.staying.sum())
    scale = (raw * wanted[:, None]).sum(axis=0) / staying
    weights = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0)
    brokers = len(problem.brokers)
    pinned, emptied = ~problem.relocatable, problem.leaving
    if goal.repairs_racks:
        emptied = emptied | (problem.pools.foreign & ~problem.closed)
    fixed = replica_loads(problem.replicas, weights, brokers)
    fixed[emptied] = replica_loads(problem.replicas[pinned], weights[pinned], brokers)[emptied]
    share = shares(problem)[:, : raw.shape[1]]
    limits = np.where(scale > 0, limits_in_the_end(problem) / np.where(scale > 0, scale, 1.0), np.inf)

    def reachable(shares: Floats) -> Floats:
        return reachable_targets(rule, wanted, weights, shares, problem.evened, problem.receivers, fixed)

    targets = within_limits(reachable, share, problem.evened, limits)
    relief = relief_of(problem, goal, targets, weights, scale) if goal.one_sided else None
    return Frame(
        problem=problem,
        goal=goal,
        rule=rule,
        others=move_rules(problem, rule, wanted),
        wanted=wanted,
        weights=weights,
        scale=scale,
        targets=targets,
        limits=limits,
        topic_shares=share[:, REPLICAS],
        left_by_racks=left_by_racks(problem, rule, wanted, targets[:, REPLICAS]),
        emptied=emptied,
        relief=relief,
    )


@dataclass(frozen=True, slots=True, eq=False)
class FoundLists:
    """Lists that the search found, or that somebody gave."""

    replicas: Ints
    unordered: Ints  # the same replicas before leaders were balanced
    goal: Goal
    rules: RackRules  # one, or with pools that of each
    wanted: Ints
    targets: Floats  # [broker, REPLICA_METRICS] in units of `scale`
    leader_targets: Floats  # [broker, LEADER_METRICS] in their own unit
    scale: Floats
    budget: Budget
    relief: Relief | None = None  # of job `relieve`
    reasons: tuple[MoveReason, ...] = ()  # of every move, if the lists were not searched
    notes: tuple[Note, ...] = ()  # on the origin of the lists
    is_proven: bool = False  # no lists do the same with fewer bytes, to a thousandth
    beyond: bool = False  # the same is: as near to the tolerance as anybody can be, where nobody can be within it
    least_bytes: int | None = None  # no lists within the tolerance copy fewer; None: nothing is proven
    least_leader_changes: int | None = None  # no order of these lists within the tolerance changes fewer leaders
    spreads_topics: int = 0  # leader changes that only spread the leaders of topics
    bytes_without_spread: int | None = None  # that the same search copies without `spread_topics`; None: not searched
    no_room: int = 0  # lists that were left out, because no order of the moves has room for both copies of theirs
    off: float = 0.0  # squared distance of the replica metrics to their bands
    parts: tuple[FoundLists, ...] = ()  # with pools: the lists of each, in the order of `parts_of`


def joined(problem: Problem, found: Sequence[FoundLists]) -> FoundLists:
    """The lists of all pools together, with what they cost in all. `found` is in the order of `parts_of`."""
    parts, rows = parts_of(problem), len(problem.partition)
    width = max(max(one.replicas.shape[1], one.unordered.shape[1]) for one in found)
    replicas, unordered = np.full((rows, width), -1), np.full((rows, width), -1)
    wanted = np.zeros(rows, dtype=np.int64)
    for part, one in zip(parts, found, strict=True):
        replicas[part.rows], unordered[part.rows] = widened(one.replicas, width), widened(one.unordered, width)
        wanted[part.rows] = one.wanted
    raw, goal = replica_weights(problem), found[0].goal
    scale = (raw * wanted[:, None]).sum(axis=0) / int(problem.staying.sum())
    weights, targets = (
        np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
        for values in (raw, np.sum([one.targets * one.scale for one in found], axis=0))
    )
    least, changes, plain = (
        [getattr(one, name) for one in found]
        for name in ("least_bytes", "least_leader_changes", "bytes_without_spread")
    )
    return FoundLists(
        replicas,
        unordered,
        goal,
        tuple((part.rows, rule) for part, one in zip(parts, found, strict=True) for _, rule in one.rules),
        wanted,
        targets,
        np.sum([one.leader_targets for one in found], axis=0),
        scale,
        total(problem, [one.budget for one in found]),
        relief_of(problem, goal, targets, weights, scale) if goal.one_sided else None,
        reasons=found[0].reasons,
        notes=tuple(
            replace(note, pool=part.name) for part, one in zip(parts, found, strict=True) for note in one.notes
        ),
        # Plans are measured as a whole. Nearest in each pool is not what is as near in all, unless all are within.
        is_proven=all(one.is_proven and (len(found) == 1 or not one.beyond) for one in found),
        least_bytes=None if None in least else sum(filter(None, least)),
        spreads_topics=sum(one.spreads_topics for one in found),
        bytes_without_spread=None if None in plain else sum(filter(None, plain)),
        least_leader_changes=None if None in changes else sum(filter(None, changes)),
        off=sum(one.off for one in found),
        parts=tuple(found),
    )


def placement_of(frame: Frame, replicas: Ints, origin: Ints, pinned: Bools, budget: Budget) -> Placement:
    """A placement of the lists. `origin` is where each replica was, `pinned` which replicas may not move again."""
    problem = frame.problem
    held = np.maximum(replicas, 0)
    free = problem.relocatable[:, None] & (replicas >= 0) & ~problem.closed[held] & ~pinned
    if problem.failed.size:
        free &= among(replicas, problem.failed)
    crowding = Crowding(replicas, problem.topic, frame.topic_shares, frame.left_by_racks)
    if frame.goal.spreads_topics:
        crowding.spread = topic_spread(problem, frame.rule, replicas, frame.wanted)
    return Placement(
        replicas,
        origin,
        frame.weights,
        problem.size_bytes,
        _copy_costs(frame, origin),
        frame.rule,
        frame.others,
        free,
        problem.evened,
        problem.receivers,
        frame.limits,
        crowding,
        budget,
    )


def _copy_costs(frame: Frame, origin: Ints) -> CopyCosts:
    """A copy comes from the leader. Where a rack has one replica of a list at most, it stays within a rack only if the
    leader's own replica moves, and then another broker leads. So bytes between racks cost more, and so does the replica
    of today's leader: copies stay within racks if the bytes are worth a leader change. If they are to stay there at any
    price, leaders cost nothing. `origin` is [row, column].
    """
    problem, unit = frame.problem, frame.scale[DISK]
    copied = (problem.size_bytes / unit if unit > 0 else np.zeros(len(origin)))[:, None]
    if len({*problem.racks} - {None}) < 2:
        return CopyCosts(copied)
    names = [number if rack is None else rack for number, rack in enumerate(problem.racks)]
    numbers = {name: number for number, name in enumerate(names)}
    rack = np.array([numbers[name] for name in names])
    if problem.settings.copies_within_racks:
        weight, price = BETWEEN_RACKS, np.zeros(origin.shape)
    else:
        leads = origin == problem.leader[:, None]
        weight, price = PREFERRED, np.where(leads, (PREFERRED - 1) * _worth_a_leader(copied[:, 0], frame.wanted), 0.0)
    return CopyCosts(weight * copied + price, copied + price, rack[problem.leader], rack)


def _worth_a_leader(copied: Floats, wanted: Ints) -> float:
    """The size of the replica that is worth a leader change: smaller ones hold `_SMALLER` of all bytes.

    If all are alike, it is theirs. If few hold most bytes, it is large, so few leaders change for most bytes.
    """
    order = np.argsort(copied, kind="stable")
    held = np.cumsum(copied[order] * wanted[order])
    return float(copied[order[int(np.searchsorted(held, _SMALLER * held[-1]))]]) if len(held) else 0.0


def search_bands(frame: Frame, placement: Placement, slack: float, tolerance: float | None = None) -> Bands:
    """The bands that the search aims at from this placement. The default tolerance is the goal's."""
    problem, goal, loads = frame.problem, frame.goal, placement.loads
    if frame.relief is not None:
        return Bands(np.zeros_like(frame.targets), frame.relief.high)
    on_leaving = np.where(frame.emptied[:, None], loads - frame.targets, 0.0)
    groups = [problem.evened & mask for mask, _ in placement.groups]
    extra = np.array([on_leaving[mask].sum(axis=0) for mask, _ in placement.groups]).reshape(-1, loads.shape[1])
    tolerance = goal.tolerance if tolerance is None else tolerance
    extra = np.maximum(0, extra)
    return frame.within_limits(filled_bands(frame.targets, loads, groups, problem.receivers, tolerance, extra, slack))


# Jobs `drain` and `replace`: replicas leave the brokers that are to be emptied, or go to their replacements.
#
# The largest replicas leave first, while there is most room. Each goes to the place that helps balance most.


_REPACKS = 50  # times that all replicas that must go are placed anew, if disks are tight
_REPACKED = 20_000  # replicas placed in all of these times, about
_ROOMY = 1e300  # room on a disk of unknown size: more than on any other, but finite
_ASIDE = 100  # replicas of one broker to try to push aside, the smallest that suffice


def empty_brokers(placement: Placement, leaving: Bools, failed: Ints, bands: Bands) -> Ints:
    """Moves every movable replica off the brokers that leave. Returns the slots that found no legal place.

    `failed` is of the problem: so do the replicas on log dirs that are offline.

    If disks are so full that some slots find none, it places all again, those first, each on the disk that it fills
    most (Joslin and Clements, "Squeaky wheel" optimization, 1999). A slot that is still left may push one other replica
    aside. Slots without a place even then prove nothing.
    """
    held = (placement.replicas >= 0) & leaving[np.maximum(placement.replicas, 0)]
    held = (held | among(placement.replicas, failed)) & placement.free
    slots = np.flatnonzero(held.ravel())
    slots = slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]
    homes = placement.replicas.ravel()[slots]
    stranded = [slot for slot in slots if not _place(placement, int(slot), bands)]
    has_sizes = np.isfinite(placement.limits[placement.receivers, DISK]).any()
    if not (has_sizes or placement.is_any_at_its_most):
        return np.array(stranded, dtype=np.int64)
    for _ in range(min(_REPACKS, 1 + _REPACKED // max(1, len(slots)))):
        if not stranded:
            break
        for slot, home in zip(slots, homes, strict=True):
            if placement.replicas.flat[slot] != home:
                placement.move(np.array([slot]), np.array([home]))
        order = np.argsort(np.isin(slots, stranded, invert=True), kind="stable")
        slots, homes = slots[order], homes[order]
        stranded = [slot for slot in slots if not _place(placement, int(slot), bands, tightly=True)]
    stranded = [slot for slot in stranded if not _make_room(placement, int(slot), bands)]
    return np.array(stranded, dtype=np.int64)


def _place(placement: Placement, slot: int, bands: Bands, *, tightly: bool = False) -> bool:
    """Gives one replica to the legal receiver that it helps most, or with `tightly` to the one with the least room.

    Returns whether there is a legal receiver.
    """
    receivers, one = np.flatnonzero(placement.receivers), np.array([slot])
    room = np.minimum(placement.limits[:, DISK] - placement.loads[:, DISK], _ROOMY)[receivers]
    best = partial(placement.move_best, one, receivers, bands, instead=room if tightly else None)
    rule, (row, column) = placement.rule, divmod(one, placement.width)
    if rule.strict and violations(rule, placement.replicas[row]).any():
        # It has to move anyway, so it mends the rack rule if it can.
        mends = placement.allowed(row, column, receivers, repair=True)
        return (bool(mends.any()) and best(only=mends)) or best()
    return best()


def _make_room(placement: Placement, slot: int, bands: Bands) -> bool:
    """Places one replica where the smallest other in its way has room elsewhere. Returns whether that is possible."""
    row, weight = slot // placement.width, placement.weights[slot // placement.width, DISK]
    receivers = np.flatnonzero(placement.receivers)
    room = placement.limits[:, DISK] - placement.loads[:, DISK]
    one, column = np.array([row]), np.array([slot % placement.width])
    here = placement.allowed(one, column, receivers)[0]
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


def replaced(problem: Problem, replicas: Ints, replacements: Mapping[int, int]) -> Ints:
    """The lists with every movable replica of an old broker on its new one, in the same position.

    Replicas of another pool than the new broker's stay on the old one: these find a place in their own pool.
    Raises PlanningError if the new broker already holds one of the partitions, or a confined one would leave its rack.
    """
    result = replicas.copy()
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    for old, new in replacements.items():
        if problem.pools.foreign[index[new]]:
            continue
        at = (replicas == index[old]) & problem.relocatable[:, None]
        result[at] = index[new]
        twice = at.any(axis=1) & (replicas == index[new]).any(axis=1)
        if twice.any():
            row = int(np.flatnonzero(twice)[0])
            raise PlanningError(
                f"Broker {new} cannot replace broker {old}: {int(twice.sum())} of the {int(at.any(axis=1).sum())} "
                f"partitions of broker {old} already have a replica on broker {new}, first "
                f"{problem.name_of(row)}. Nothing was planned. Choose another broker, or job 'drain' for {old}."
            )
        racks = problem.racks[index[old]], problem.racks[index[new]]
        confined = np.flatnonzero(at.any(axis=1) & problem.rack_pinned)
        if racks[0] is not None and racks[0] != racks[1] and len(confined):
            raise PlanningError(
                f"Broker {new} (rack {racks[1]}) cannot replace broker {old} (rack {racks[0]}): {len(confined)} of its "
                f"partitions belong to rack_pinned_topics, first {problem.name_of(confined[0])}. Nothing was planned. "
                f"Choose a broker in rack {racks[0]}."
            )
    return result


def check_replacement_racks(problem: Problem, before: Bools, after: Bools) -> None:
    """Raises PlanningError if a partition that keeps the rack rule `before` the replacement breaks it `after`."""
    broken = ~before & after
    if broken.any():
        first = problem.name_of(np.flatnonzero(broken)[0])
        pairs = ", ".join(f"{old} by {new}" for old, new in problem.settings.replace.items())
        raise PlanningError(
            f"Replacing broker {pairs} would break the rack rule for {int(broken.sum())} partitions, first {first}. "
            "Nothing was planned. Choose a new broker in the same rack, or job 'drain'."
        )


# Job `replication_factor`: how many replicas each partition gets, and lists that gain or lose some.


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
            counts = np.full(len(columns), (replicas[row] >= 0).sum() - 1)
            spread = placement.rule.spread(without, counts)
            first, second = ~leaving[holders], -spread
            if placement.rule.confined[row]:
                first, second = second, first
            order = np.lexsort((columns, relief, columns == 0, second, first, ~lags))
            column = int(columns[order[0]])
            loads[replicas[row, column]] -= weight
            replicas[row, column] = -1
    return left_aligned(replicas)


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
    racks, others = placement.rule, placement.others
    domains, short = domains_of(racks, replicas), 0
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        weight = placement.weights[row]
        for _ in range(int(missing[row])):
            column = int((replicas[row] < 0).argmax())
            legal = allowed(racks, others, replicas, domains, np.array([row]), np.array([column]), receivers)[0]
            legal &= (loads[receivers] + weight <= placement.limits[receivers]).all(axis=1)
            low, high = bands.low[receivers], bands.high[receivers]
            change = distance(loads[receivers] + weight, low, high) - distance(loads[receivers], low, high)
            # Inside every band all places are equal, so the emptiest wins.
            order = np.lexsort((loads[receivers].sum(axis=1), change, ~legal))
            if not len(order) or not legal[order[0]]:
                short += 1
                break
            replicas[row, column] = receivers[order[0]]
            domains[row, column] = racks.domain[receivers[order[0]]]
            loads[receivers[order[0]]] += weight
    return replicas, short


# Job `relieve`: which brokers give, and down to which loads.


@dataclass(frozen=True, slots=True, eq=False)
class Relief:
    givers: Bools  # [broker]
    high: Floats  # [broker, REPLICA_METRICS] the load they come down to, in the unit of the targets


def relief_of(problem: Problem, goal: Goal, targets: Floats, weights: Floats, scale: Floats) -> Relief:
    """Without `relieve_above`, every broker above the band gives, down to the band.

    With it, the brokers whose disk is fuller than that share give. `light` only brings their disks below it, `balanced`
    brings these brokers into the band as well. Other brokers above the band stay there, and no broker comes above it.
    """
    high, limit = band(targets, goal.tolerance).high, problem.settings.relieve_above
    if limit is None:
        return Relief(problem.evened, high)
    givers = problem.evened & (disk_shares(problem) > limit)
    loads = replica_loads(problem.replicas, weights, len(givers))
    kept = np.maximum(high, loads)
    disk = disk_limits_in_the_end(problem) / scale[DISK] if scale[DISK] > 0 else kept[:, DISK]
    down = kept if goal.to_limit else high
    high = np.where(givers[:, None], down, kept)
    high[givers, DISK] = disk[givers] if goal.to_limit else np.minimum(high[:, DISK], disk)[givers]
    return Relief(givers, high)
