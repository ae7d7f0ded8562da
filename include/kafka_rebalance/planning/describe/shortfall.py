"""How far lists are from the request: the part of the job that is not done, and brokers outside the tolerance.

All candidates have the same measure: the job, and the tolerance of the settings. It does not count that `light`
searches with a wider band, or that other candidates promise no band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.model.settings import BALANCED, LEADERS_ALONE, LIGHT
from kafka_rebalance.planning.bounds.lp_bound import moved_bytes_bound
from kafka_rebalance.planning.bounds.targets import Bands, band, leader_targets
from kafka_rebalance.planning.evenness import outside_band
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    LEADERS,
    METRICS,
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    among,
    known_metrics,
    lagging,
    leader_weights,
    led_first,
    replica_weights,
    replication,
    shares,
)
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules.crowding import Crowding, left_by_racks
from kafka_rebalance.planning.rules.disk_limits import disk_shares, held_bytes, sized_disks
from kafka_rebalance.planning.rules.goals import Goal, goal_of
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule
from kafka_rebalance.planning.rules.topic_spread import excess_of, topic_spread
from kafka_rebalance.planning.rules.where_replicas_may_go import limits_in_the_end, move_rules
from kafka_rebalance.planning.search.excused_brokers import Led, Outside
from kafka_rebalance.planning.search.frame import Relief, relief_of, wanted_factor
from kafka_rebalance.planning.search.placement import Budget, CopyCosts, Placement

_ROUNDING = 2e-4  # of a share: the search stops slightly outside the band


@dataclass(frozen=True, slots=True)
class Shortfall:
    """If all are 0, the job is done, within the tolerance."""

    undone: int  # replicas on wrong brokers, partitions with a wrong factor or leader, disks too full
    rack_violations: int  # partitions that the job could spread over more racks
    excess: float  # squared shares by which brokers are outside the tolerance, summed over brokers and metrics
    furthest: float  # how far the worst broker is from its reachable share, as a share of it
    tolerance: float
    crowded: int = 0  # replicas beyond the ceilings of `spread_topics` that racks would let a plan spread

    @property
    def does_the_job(self) -> bool:
        return not self.undone and not self.rack_violations

    @property
    def is_met(self) -> bool:
        """Whether the job is done and every broker is within the tolerance, or one replica outside."""
        return self.does_the_job and not self.crowded and not self.excess

    @property
    def is_met_exactly(self) -> bool:
        """Whether every broker is within the tolerance itself."""
        return self.is_met and self.furthest <= self.tolerance + _ROUNDING

    def is_as_good_as(self, other: Shortfall) -> bool:
        """Whether it is as near to the request in every respect."""
        return self.distance <= other.distance and self.is_met_exactly >= other.is_met_exactly

    @property
    def distance(self) -> tuple[int, int, int, float]:
        """To compare plans: the job comes before topics, and these come before how even the brokers are."""
        return self.undone, self.rack_violations, self.crowded, self.excess


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The measure for lists: a goal, and the load that each broker should carry."""

    goal: Goal
    targets: Floats  # [broker, METRICS] each in its own unit
    relief: Relief | None  # of job `relieve`; its loads are in units of `scale`
    scale: Floats  # [REPLICA_METRICS]


def held_to_the_job(problem: Problem, targets: Floats, scale: Floats) -> Held:
    """`targets` is [broker, METRICS]; `scale` is the unit of a relief's loads."""
    goal = goal_of(problem.settings, LIGHT if problem.settings.relieve_above is not None else BALANCED)
    relief = None
    if goal.one_sided:
        raw = replica_weights(problem)
        weights = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0)
        units = np.divide(targets[:, : len(scale)], scale, out=np.zeros((len(targets), len(scale))), where=scale > 0)
        relief = relief_of(problem, goal, units, weights, scale)
    return Held(goal, targets, relief, scale)


def held_now(problem: Problem, targets: Floats, scale: Floats) -> Held:
    """The measure for the lists now. `targets` is [broker, REPLICA_METRICS] in units of `scale`."""
    led = led_first(problem.replicas, problem.leader)
    return held_to_the_job(problem, np.hstack([targets * scale, leader_targets(problem, led)]), scale)


def shortfall(problem: Problem, held: Held, replicas: Ints, leaders: Ints, loads: Floats, broken: Bools) -> Shortfall:
    """The shortfall of these lists.

    `leaders` is [partition row], broker indices; `loads` is [broker, METRICS]; `broken` is [partition row], whether the
    list breaks the rack rule.
    """
    off, relative = off_cells(problem, held, replicas, loads)
    apart = relative - 1
    beyond = np.where(off, np.maximum(0.0, np.abs(apart) - held.goal.tolerance), 0.0)
    # A load on a target of 0 has no finite share.
    beyond = np.where(np.isfinite(beyond), beyond, 1.0)
    away = (np.abs(apart) if held.relief is None else np.maximum(0.0, apart))[asked_cells(problem, held)]
    repairs = int(may_be_repaired(problem, broken).sum()) if held.goal.repairs_racks else 0
    undone = left_behind(problem, replicas) + len(disks_above(problem, loads[:, DISK]))
    if held.goal.repairs_racks:
        undone += outside_pools(problem, replicas)
    undone += leaders_that_stay(problem, leaders)
    if problem.settings.job == "elect":
        undone += int((problem.movable & (leaders != replicas[:, 0])).sum())
    if problem.settings.replication_factor is not None:
        undone += int((replication(replicas) != wanted_factor(problem)).sum())
    furthest = float(away[np.isfinite(away)].max(initial=0.0))
    excess = float((beyond * beyond).sum())
    # Rounded, so that the last bits decide nothing. Any load that is off counts for at least 1e-6.
    rounded = max(round(excess, 6), 1e-6) if off.any() else 0.0
    # With `relieve_above` the goal asks no broker for a share.
    tolerance = math.inf if held.goal.to_limit else held.goal.tolerance
    spread = excess_of(problem, replicas) if held.goal.spreads_topics else None
    crowded = 0 if spread is None else spread.now - spread.least
    return Shortfall(undone, repairs, rounded, round(furthest, 4), tolerance, crowded)


def off_cells(problem: Problem, held: Held, replicas: Ints, loads: Floats) -> tuple[Bools, Floats]:
    """[broker, METRICS] (whether the load is outside the tolerance and another plan could improve it, load over target)

    A broker within one replica of its band is excused only if no single move and no swap would help it.
    """
    parts = [_off_cells_in_pool(part.problem, held, replicas[part.rows], loads) for part in parts_of(problem)]
    relative = np.divide(loads, held.targets, out=np.ones_like(loads), where=held.targets > 0)
    return np.logical_or.reduce(parts), relative


def _off_cells_in_pool(problem: Problem, held: Held, replicas: Ints, loads: Floats) -> Bools:
    goal, targets = held.goal, held.targets
    weights = np.hstack([replica_weights(problem), leader_weights(problem, replicas)])
    own = _heaviest_of_each(replicas, weights, len(problem.brokers))
    off = outside_band(loads, targets, weights.max(axis=0, initial=0.0), own, goal.tolerance, problem.evened)
    if held.relief is not None:
        off[:, :LEADERS] &= loads[:, :LEADERS] > held.relief.high * held.scale * (1 + 1e-9)
        off[:, LEADERS:] &= loads[:, LEADERS:] > targets[:, LEADERS:]
    cells = asked_cells(problem, held)
    off &= cells
    excused = cells & ~off
    off[:, :LEADERS] |= _could_be_finer(problem, held, replicas, loads[:, :LEADERS], excused[:, :LEADERS])
    off[:, LEADERS:] |= _could_be_led_finer(problem, held, replicas, loads[:, LEADERS:], excused[:, LEADERS:])
    return off


def _heaviest_of_each(replicas: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, METRICS] The heaviest replica that each broker holds, and the heaviest partition that it leads."""
    found = np.zeros((brokers, weights.shape[1]))
    rows, columns = np.nonzero(replicas >= 0)
    for k in range(weights.shape[1]):
        some = slice(None) if k < LEADERS else columns == 0
        np.maximum.at(found[:, k], replicas[rows, columns][some], weights[rows, k][some])
    return found


def _could_be_finer(problem: Problem, held: Held, replicas: Ints, loads: Floats, excused: Bools) -> Bools:
    """[broker, REPLICA_METRICS] Which of the excused loads another plan could improve."""
    targets, counts = held.targets[:, : loads.shape[1]], loads.shape[1]
    asked = asked_cells(problem, held)[:, :counts]
    bands = band(targets, held.goal.tolerance)
    if held.relief is not None:
        bands = Bands(np.zeros_like(targets), np.maximum(held.relief.high * held.scale, bands.high))
    outside = excused & _outside(bands, targets, loads)
    if not outside.any():
        return outside
    rule = rack_rule(problem, problem.settings.replication_factor)
    placement = free_placement(problem, rule, replicas, targets[:, REPLICAS])
    placement.loads = loads  # with pools, replicas of other topics count as well
    looked_at = Outside(placement, bands, asked)
    found = np.zeros_like(outside)
    for broker, resource in np.argwhere(outside).tolist():
        found[broker, resource] = looked_at.is_helped(broker, resource)
    return found


def _could_be_led_finer(problem: Problem, held: Held, replicas: Ints, loads: Floats, excused: Bools) -> Bools:
    """[broker, LEADER_METRICS] The same for leaders. Lists may change their order, except for replicas that lag."""
    targets = held.targets[:, -loads.shape[1] :]
    bands = band(targets, held.goal.tolerance)
    if held.relief is not None:
        bands = Bands(np.zeros_like(targets), bands.high)
    outside = excused & _outside(bands, targets, loads)
    if not outside.any():
        return outside
    listed = np.maximum(replicas, 0)
    before = problem.replicas[:, :1]
    led = Led(
        replicas,
        loads,
        leader_weights(problem, replicas),
        bands,
        (replicas >= 0) & problem.evened[listed] & (~lagging(problem, replicas) | (replicas == before)),
        problem.movable & (problem.evened | problem.leaving)[replicas[:, 0]],
    )
    return led.helped(outside)


def _outside(bands: Bands, targets: Floats, loads: Floats) -> Bools:
    outside: Bools = (loads < bands.low - _ROUNDING * targets) | (loads > bands.high + _ROUNDING * targets)
    return outside


def free_placement(problem: Problem, rule: RackRule, replicas: Ints, targets: Floats) -> Placement:
    """These lists without limits: every replica may move that the settings let move.

    `targets` is [broker], how many replicas each should hold.
    """
    held, sizes = np.maximum(replicas, 0), problem.size_bytes
    counts = replication(replicas)
    crowding = Crowding(
        replicas, problem.topic, shares(problem)[:, REPLICAS], left_by_racks(problem, rule, counts, targets)
    )
    crowding.spread = topic_spread(problem, rule, replicas, counts)
    return Placement(
        replicas,
        replicas,
        replica_weights(problem),
        sizes,
        CopyCosts(sizes.astype(np.float64)[:, None]),
        rule,
        move_rules(problem, rule),
        problem.relocatable[:, None] & (replicas >= 0) & ~problem.closed[held],
        problem.evened,
        problem.receivers,
        limits_in_the_end(problem),
        crowding,
        Budget(),
    )


def asked_cells(problem: Problem, held: Held) -> Bools:
    """[broker, METRICS] Which loads the goal makes even: known metrics of the evened brokers."""
    known = known_metrics(problem)
    asked = np.array(
        [
            metric in known and (held.goal.balances if k < LEADERS else held.goal.all_leaders)
            for k, metric in enumerate(METRICS)
        ]
    )
    cells: Bools = problem.evened[:, None] & asked & (held.targets > 0)  # a load near 0 has no shares
    return cells


def may_be_repaired(problem: Problem, broken: Bools) -> Bools:
    """[partition row] Which of the lists that break the rack rule a plan may bring into other racks."""
    may_be: Bools = broken & problem.relocatable & ~problem.rack_pinned
    return may_be


def left_behind(problem: Problem, replicas: Ints) -> int:
    """Replicas that stay on brokers to be emptied, or on log dirs that are offline."""
    if problem.settings.job in LEADERS_ALONE:
        return 0
    stay = np.isin(replicas, np.flatnonzero(problem.leaving)) | among(replicas, problem.failed)
    return int(stay.sum())


def leaders_that_stay(problem: Problem, leaders: Ints) -> int:
    """Of job `leaders`, the leaders on brokers that are to lead nothing. `leaders` is [partition row]."""
    return int((problem.movable & problem.leaving[leaders]).sum()) if problem.settings.job == "leaders" else 0


def outside_pools(problem: Problem, replicas: Ints) -> int:
    """Replicas outside the pools of their topics that a plan may move."""
    free = problem.relocatable[:, None] & ~problem.closed[np.maximum(replicas, 0)]
    return int((strays(problem, replicas) & free).sum())


def disks_above(problem: Problem, after: Floats) -> Ints:
    """Brokers whose disk stays above `relieve_above`, the fullest first. `after` is [broker] bytes of replicas."""
    limit, full = problem.settings.relieve_above, disk_fullness(problem, after)
    if limit is None:
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(-full, kind="stable")
    return order[full[order] > limit + 1e-9]


def disk_fullness(problem: Problem, after: Floats) -> Floats:
    """[broker] The used share of its disk with `after` bytes of replicas; 0 if its size is unknown."""
    known = sized_disks(problem)
    moved = (after - held_bytes(problem)) / np.where(known, problem.disk_capacity, np.inf)
    return np.where(known, disk_shares(problem) + moved, 0.0)


def bytes_left(problem: Problem, held: Held, after: Floats) -> int:
    """The bound on bytes of plans that bring disks from `after` ([broker] bytes) within the tolerance."""
    target, tolerance = held.targets[:, DISK], held.goal.tolerance
    here = problem.evened & (target > 0)
    bands = target * (1 - tolerance), target * (1 + tolerance)
    if held.relief is not None:
        bands = np.zeros(len(target)), held.relief.high[:, DISK] * held.scale[DISK]
        here &= held.relief.givers
    return moved_bytes_bound(after, bands, here, 0.0, same_factor=True)
