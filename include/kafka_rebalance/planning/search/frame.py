"""What every search of a candidate shares: units, targets and limits. And the lists that a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.documents.move_reason import MoveReason
from kafka_rebalance.planning.bounds.bands import Bands, filled_bands
from kafka_rebalance.planning.bounds.targets import reachable_targets, within_limits
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, widened
from kafka_rebalance.planning.problem.loads import DISK, REPLICAS, replica_loads, replica_weights, shares
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.crowding import Crowding, left_by_racks
from kafka_rebalance.planning.rules.goals import Goal
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule
from kafka_rebalance.planning.rules.replica_limits import limits_in_the_end
from kafka_rebalance.planning.search.placement import Budget, Placement, total
from kafka_rebalance.planning.search.relieve import Relief, relief_of
from kafka_rebalance.planning.search.replication_factor import dropped_behind

BETWEEN_RACKS = 2.0  # what a byte counts that is copied between racks, where copies are to stay within racks


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What all steps of one candidate share. Loads are in units of the mean staying broker."""

    problem: Problem
    goal: Goal
    rule: RackRule
    wanted: Ints  # [partition row] replicas in the end
    weights: Floats
    scale: Floats  # [resource] unit of the weights, in the resource's own unit
    targets: Floats
    limits: Floats  # [broker, resource] what a broker may carry in the end, if it receives anything
    topic_shares: Floats  # [broker] the share of each topic that the broker should hold
    left_by_racks: Floats | None  # [topic, broker] replicas of each topic, if racks do not leave them even
    emptied: Bools  # [broker] brokers that should hold nothing of this: they leave, or are of another pool
    relief: Relief | None  # of job `relieve`


def frame_of(problem: Problem, goal: Goal, wanted: Ints) -> Frame:
    """The frame of a candidate whose partitions end with `wanted` replicas."""
    shares_racks = problem.settings.more_replicas_than_racks
    rule = rack_rule(problem, int(wanted.max(initial=0)) if shares_racks else problem.settings.replication_factor)
    if problem.settings.replication_factor is not None:
        rule = replace(rule, left=dropped_behind(problem, wanted))
    raw = replica_weights(problem)
    staying = int(problem.staying.sum())
    scale = (raw * wanted[:, None]).sum(axis=0) / staying
    weights = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0)
    brokers = len(problem.brokers)
    pinned, emptied = ~problem.relocatable, problem.leaving
    if problem.foreign is not None and goal.repairs_racks:
        emptied = emptied | (problem.foreign & ~problem.closed)
    fixed = replica_loads(problem.replicas, weights, brokers)
    fixed[emptied] = replica_loads(problem.replicas[pinned], weights[pinned], brokers)[emptied]
    share = shares(problem)[:, : raw.shape[1]]
    limits = np.where(scale > 0, limits_in_the_end(problem) / np.where(scale > 0, scale, 1.0), np.inf)

    def reachable(shares: Floats) -> Floats:
        return reachable_targets(rule, wanted, weights, shares, problem.evened, problem.receivers, fixed)

    targets = within_limits(reachable, share, problem.evened, limits)
    relief = relief_of(problem, goal, targets, weights, scale) if goal.one_sided else None
    left = left_by_racks(problem, rule, wanted, targets[:, REPLICAS])
    return Frame(
        problem, goal, rule, wanted, weights, scale, targets, limits, share[:, REPLICAS], left, emptied, relief
    )


@dataclass(frozen=True, slots=True, eq=False)
class FoundLists:
    """Lists that the search found, or that somebody gave."""

    replicas: Ints
    unordered: Ints  # the same replicas before leaders were balanced
    goal: Goal
    rule: RackRule
    wanted: Ints
    targets: Floats  # [broker, REPLICA_METRICS] in units of `scale`
    leader_targets: Floats  # [broker, LEADER_METRICS] in their own unit
    scale: Floats
    budget: Budget
    relief: Relief | None = None  # of job `relieve`
    reasons: tuple[MoveReason, ...] = ()  # of every move, if the lists were not searched
    notes: tuple[str, ...] = ()  # on the origin of the lists
    is_proven: bool = False  # no lists do the same with fewer bytes, to a thousandth
    beyond: bool = False  # the same is: as near to the tolerance as anybody can be, where nobody can be within it
    least_bytes: int | None = None  # no lists within the tolerance copy fewer; None: nothing is proven
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
    least = [one.least_bytes for one in found]
    of_pools = tuple((part.rows, one.rule) for part, one in zip(parts, found, strict=True))
    return FoundLists(
        replicas,
        unordered,
        goal,
        replace(rack_rule(problem), pools=of_pools),
        wanted,
        targets,
        np.sum([one.leader_targets for one in found], axis=0),
        scale,
        total(problem, [one.budget for one in found]),
        relief_of(problem, goal, targets, weights, scale) if goal.one_sided else None,
        reasons=found[0].reasons,
        notes=tuple(
            f"in the pool of {part.name}: {note}" for part, one in zip(parts, found, strict=True) for note in one.notes
        ),
        # Plans are measured as a whole. Nearest in each pool is not what is as near in all, unless all are within.
        is_proven=all(one.is_proven and (len(found) == 1 or not one.beyond) for one in found),
        least_bytes=None if None in least else sum(filter(None, least)),
        off=sum(one.off for one in found),
        parts=tuple(found),
    )


def placement_of(frame: Frame, replicas: Ints, origin: Ints, pinned: Bools, budget: Budget) -> Placement:
    """A placement of the lists. `origin` is where each replica was, `pinned` which replicas may not move again."""
    problem = frame.problem
    held = np.maximum(replicas, 0)
    copied = problem.size_bytes / frame.scale[DISK] if frame.scale[DISK] > 0 else np.zeros(len(replicas))
    free = problem.relocatable[:, None] & (replicas >= 0) & ~problem.closed[held] & ~pinned
    return Placement(
        replicas,
        origin,
        frame.weights,
        problem.size_bytes,
        copied[:, None] * _weight_of_copies(problem, origin),
        frame.rule,
        free,
        problem.evened,
        problem.receivers,
        frame.limits,
        Crowding(replicas, problem.topic, frame.topic_shares, frame.left_by_racks),
        budget,
    )


def _weight_of_copies(problem: Problem, origin: Ints) -> Floats:
    """[row, column] How much each byte of a copy counts, or [1, 1] if all count alike.

    A copy comes from the leader, and most replicas only move within their rack. So where copies are to stay within
    racks, those replicas count more whose leader is in another one. An unknown rack is another one.
    """
    if not problem.settings.copies_within_racks or not any(problem.racks):
        return np.ones((1, 1))
    number = {rack: index for index, rack in enumerate(dict.fromkeys(problem.racks))}
    racks = np.array([-1 if rack is None else number[rack] for rack in problem.racks], dtype=np.int64)
    here, leads = np.where(origin >= 0, racks[np.maximum(origin, 0)], -1), racks[problem.leader][:, None]
    return np.where((here == leads) & (here >= 0), 1.0, BETWEEN_RACKS)


def search_bands(frame: Frame, placement: Placement, slack: float, tolerance: float | None = None) -> Bands:
    """The bands that the search aims at from this placement. The default tolerance is the goal's."""
    problem, goal, loads = frame.problem, frame.goal, placement.loads
    if frame.relief is not None:
        return Bands(np.zeros_like(frame.targets), frame.relief.high)
    on_leaving = np.where(frame.emptied[:, None], loads - frame.targets, 0.0)
    groups = [problem.evened & mask for mask, _ in placement.groups]
    extra = np.array([on_leaving[mask].sum(axis=0) for mask, _ in placement.groups]).reshape(-1, loads.shape[1])
    tolerance = goal.tolerance if tolerance is None else tolerance
    return filled_bands(frame.targets, loads, groups, problem.receivers, tolerance, np.maximum(0, extra), slack)
