"""Candidates: which moves each job asks for, searched, scored and described.

`propose` is a pure function of the problem and the candidate's name; Spark calls it once for each candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning import forced
from kafka_rebalance.planning.arrays import (
    DISK,
    Bools,
    Floats,
    Ints,
    Problem,
    leader_loads,
    leader_weights,
    replica_loads,
    replica_weights,
    replication,
    shares,
)
from kafka_rebalance.planning.bounds import Bands, band, filled_bands, reachable_targets
from kafka_rebalance.planning.constraints import RackRule, rack_rule, violations
from kafka_rebalance.planning.jobs import Goal, goal_of
from kafka_rebalance.planning.leaders import balance_leaders
from kafka_rebalance.planning.outcome import Plan, Searched, infeasible, outcome
from kafka_rebalance.planning.placement import Budget, Placement, distance
from kafka_rebalance.planning.search import Effort, greedy, polish, take_back

_NAMES = ("leaders_only", "light", "balanced")
# A small cluster is searched with several trade-offs and the best kept: there one replica too many is a per cent.
_SMALL_REPLICAS = 6_000
_SMALL_EFFORTS = tuple(
    Effort(weight_power=power, slack=slack, moves_per_step=1, polish_width=256, polish_patience=25)
    for power in (1.0, 0.8, 0.7, 0.9, 1.15)
    for slack in (0.03, 0.01, 0.06)
)
_TINY_REPLICAS, _TINY_EFFORTS = 300, 4  # where there is less to choose from, fewer trials find it


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """What all stages of one candidate share. Loads are in units of the mean staying broker."""

    problem: Problem
    goal: Goal
    rule: RackRule
    wanted: Ints  # [partition row] replicas in the end
    weights: Floats
    scale: Floats  # [resource] unit of the weights, in the resource's own unit
    targets: Floats
    disk_limit: Floats


def propose(problem: Problem, name: str) -> Plan:
    """The candidate of that name. Raises PlanningError where the job itself is impossible."""
    goal = goal_of(problem.settings, name)
    frame = _frame(problem, goal)
    budget = _budget(problem)
    replicas = problem.replicas
    if goal.moves_replicas:
        placement, stranded = _forced(frame)
        budget = placement.budget
        if stranded:
            return infeasible(problem, name, _stranded(frame, stranded))
        if budget.exceeded():
            return infeasible(problem, name, _beyond(budget))
        if goal.repairs_racks or goal.balances:
            placement = _best(frame, placement, name)
        replicas, budget = placement.replicas, placement.budget
    unordered = replicas
    replicas, leader_targets = _with_leaders(frame, replicas, budget, name)
    return outcome(
        problem,
        name,
        Searched(
            replicas, unordered, goal, frame.rule, frame.wanted, frame.targets, leader_targets, frame.scale, budget
        ),
    )


def _budget(problem: Problem) -> Budget:
    settings = problem.settings
    return Budget(settings.max_bytes, settings.max_replicas, settings.max_leader_changes)


def _stranded(frame: _Frame, replicas: int) -> str:
    """That a replica which has to go somewhere can go nowhere, and what is in the way."""
    problem = frame.problem
    open_brokers = int(problem.receivers.sum())
    text = f"{replicas:,} replicas find no place on the {open_brokers} brokers that may receive: "
    if problem.disk_capacity is None:
        return text + "all others of their racks hold a replica of the partition, or may receive nothing."
    kept = problem.settings.disk_headroom
    return text + (
        "the rack rule leaves few brokers for them, and with them those disks would be more than "
        f"{1 - kept:.0%} full (disk_headroom {kept:g}). Add brokers in those racks, or empty fewer."
    )


def _beyond(budget: Budget) -> str:
    """That even the moves the job cannot do without are more than the limits allow."""
    figures = ", ".join(f"{spent:,} against {name} {limit:,}" for name, spent, limit in budget.exceeded())
    return f"What the job cannot do without is beyond the limits: {figures}. Raise the limit, or ask for less."


def _frame(problem: Problem, goal: Goal) -> _Frame:
    rule = rack_rule(problem, problem.settings.replication_factor)
    wanted = forced.wanted_factor(problem) if goal.moves_replicas else replication(problem.replicas)
    raw = replica_weights(problem)
    staying = int(problem.staying.sum())
    scale = (raw * wanted[:, None]).sum(axis=0) / staying
    weights = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0)
    brokers = len(problem.brokers)
    pinned = ~problem.movable
    fixed = replica_loads(problem.replicas, weights, brokers)
    fixed[problem.leaving] = replica_loads(problem.replicas[pinned], weights[pinned], brokers)[problem.leaving]
    share = shares(problem)[:, : raw.shape[1]]
    targets = reachable_targets(rule, wanted, weights, share, problem.receivers, fixed)
    limit = np.full(brokers, np.inf)
    if problem.disk_capacity is not None and scale[DISK] > 0:
        held = replica_loads(problem.replicas, raw, brokers)[:, DISK]
        other = np.maximum(0, problem.disk_used - held) if problem.disk_used is not None else np.zeros(brokers)
        limit = (problem.disk_capacity * (1 - problem.settings.disk_headroom) - other) / scale[DISK]
        limit[~problem.staying] = 0.0
    return _Frame(problem, goal, rule, wanted, weights, scale, targets, limit)


def _placement(frame: _Frame, replicas: Ints, origin: Ints, pinned: Bools, budget: Budget) -> Placement:
    problem = frame.problem
    held = np.maximum(replicas, 0)
    free = problem.movable[:, None] & (replicas >= 0) & ~problem.closed[held] & ~pinned
    return Placement(
        replicas,
        origin,
        frame.weights,
        problem.size_bytes,
        frame.rule,
        free,
        problem.receivers,
        frame.disk_limit,
        budget,
    )


def _forced(frame: _Frame) -> tuple[Placement, int]:
    """The assignment after what the job asks for whatever the balance, and how many replicas found no place.

    Limits are not heeded here: whether this much fits them is asked afterwards.
    """
    problem = frame.problem
    before, settings = problem.replicas, problem.settings
    replaced = before
    if settings.replace:
        replaced = forced.replaced(problem, before, settings.replace)
        forced.check_replacement_racks(problem, violations(frame.rule, before), violations(frame.rule, replaced))
    replicas, short = replaced, 0
    if (frame.wanted != replication(before)).any():
        plain = band(frame.targets, frame.goal.tolerance)
        nothing = np.zeros(before.shape, dtype=bool)
        start = _placement(frame, replaced, before, nothing, Budget())
        replicas = forced.shrunk(start, frame.wanted, problem.leaving, plain)
        start = _placement(frame, replicas, before, nothing, Budget())
        replicas, short = forced.grown(start, frame.wanted, plain)
        replicas = forced.led_by_open_brokers(problem, replicas)
    # A slot's origin is the same broker if the partition had a replica there, else nowhere.
    kept = _among(replicas, before)
    if replicas.shape == before.shape and settings.replication_factor is None:
        origin = before
    else:
        origin = np.where(kept, replicas, -1)
    placement = _placement(frame, replicas, origin, _among(replicas, replaced) & ~kept, Budget())
    stranded = forced.empty_brokers(placement, problem.leaving, _filled(frame, placement, 0.04))
    placement.budget = _spent(problem, before, placement.replicas)
    return placement, len(stranded) + short


def _among(replicas: Ints, before: Ints) -> Bools:
    """[row, column] Whether the replica was in the partition's list before."""
    known: Bools = (replicas >= 0) & (replicas[:, :, None] == before[:, None, :]).any(axis=2)
    return known


def _spent(problem: Problem, before: Ints, now: Ints) -> Budget:
    """The limits, with what the lists cost so far."""
    budget = _budget(problem)
    new = ((now >= 0) & ~_among(now, before)).sum(axis=1)
    budget.replicas = int(new.sum())
    budget.bytes = int((new * problem.size_bytes).sum())
    budget.leader_changes = int((now[:, 0] != before[:, 0]).sum())
    return budget


def _filled(frame: _Frame, placement: Placement, slack: float) -> Bands:
    """The bands to drive the search to, from where the placement is now."""
    problem, goal, loads = frame.problem, frame.goal, placement.loads
    if goal.one_sided:
        return Bands(np.zeros_like(frame.targets), band(frame.targets, goal.tolerance).high)
    receivers = problem.receivers
    leaving = problem.leaving
    on_leaving = np.where(leaving[:, None], loads - frame.targets, 0.0)
    if placement.tight:
        racks = np.unique(frame.rule.domain[receivers])
        groups = [receivers & (frame.rule.domain == rack) for rack in racks]
        sums = [on_leaving[frame.rule.domain == rack].sum(axis=0) for rack in racks]
        extra = np.array(sums).reshape(len(racks), loads.shape[1])
    else:
        groups = [receivers]
        extra = on_leaving.sum(axis=0)[None]
    return filled_bands(frame.targets, loads, groups, goal.tolerance, np.maximum(0, extra), slack)


def _efforts(problem: Problem, placement: Placement) -> Sequence[Effort]:
    replicas = int(placement.free.sum())
    if replicas <= _SMALL_REPLICAS:
        return _SMALL_EFFORTS[:_TINY_EFFORTS] if replicas <= _TINY_REPLICAS else _SMALL_EFFORTS
    if problem.leaving.any() or problem.settings.replication_factor is not None:
        # What is emptied lands anywhere: then single steps and a wider slack waste less.
        return (Effort(slack=0.04, moves_per_step=1),)
    return (Effort(),)


def _best(frame: _Frame, start: Placement, name: str) -> Placement:
    """Rack repairs and balance, tried with each effort; the one nearest to balance, then with fewest bytes."""
    problem, goal = frame.problem, frame.goal
    full = _filled(frame, start, 0.0) if goal.one_sided else band(frame.targets, goal.tolerance)
    chosen: Placement | None = None
    best: tuple[float, int] | None = None
    start_off = distance(start.loads, full.low, full.high)[problem.receivers].sum()
    start_key = (round(float(start_off), 6), start.budget.bytes)  # already balanced: no effort betters this
    if start_off > 1e-6:
        start_key = (-1.0, 0)
    givers = problem.receivers.copy()
    if goal.one_sided:
        givers &= (start.loads > full.high).any(axis=1)
    pinned = (start.replicas >= 0) & ~start.free
    for number, effort in enumerate(_efforts(problem, start)):
        rng = np.random.default_rng([problem.settings.seed, _NAMES.index(name), number])
        budget = _spent(problem, problem.replicas, start.replicas)
        placement = _placement(frame, start.replicas, start.origin, pinned, budget)
        bands = _filled(frame, placement, effort.slack)
        if goal.repairs_racks:
            forced.repair_racks(placement, bands)
        if goal.balances:
            greedy(placement, bands, givers, effort, rng)
            polish(placement, full, givers, effort, rng)
            take_back(placement, full)
        off = distance(placement.loads, full.low, full.high)[problem.receivers].sum()
        key = (round(float(off), 6), placement.budget.bytes)
        if best is None or key < best:
            chosen, best = placement, key
        if not goal.balances or key == start_key:
            break
    assert chosen is not None
    return chosen


def _with_leaders(frame: _Frame, replicas: Ints, budget: Budget, name: str) -> tuple[Ints, Floats]:
    """The lists re-ordered for leaders, and [broker, LEADER_METRICS] each broker's share in its own unit."""
    problem, goal = frame.problem, frame.goal
    before = _widened(problem.replicas, replicas.shape[1])
    raw = leader_weights(problem, replicas)
    receivers, share = problem.receivers, shares(problem)[:, 3:]
    fixed = leader_loads(replicas, raw, len(receivers))
    fixed[problem.leaving] = 0.0
    rest = raw.sum(axis=0) - fixed[~receivers].sum(axis=0)
    given = share * receivers[:, None]
    targets = np.where(receivers[:, None], given / np.maximum(given.sum(axis=0), 1e-300) * rest, fixed)
    scale = raw.sum(axis=0) / max(1, int(problem.staying.sum()))
    unit = np.where(scale > 0, scale, 1.0)
    touched = _changed(before, replicas)
    givers = receivers.copy()
    if goal.one_sided:
        givers &= (fixed > targets * (1 + goal.tolerance)).any(axis=1)
    result = balance_leaders(
        replicas,
        before,
        raw / unit,
        targets / unit,
        goal.tolerance,
        movable=problem.movable & (goal.all_leaders | touched),
        receivers=receivers,
        givers=givers,
        leaving=problem.leaving,
        one_sided=goal.one_sided,
        budget=budget,
        rng=np.random.default_rng([problem.settings.seed, _NAMES.index(name), 1_000]),
    )
    return result, targets


def _widened(replicas: Ints, width: int) -> Ints:
    more = width - replicas.shape[1]
    return np.pad(replicas, ((0, 0), (0, more)), constant_values=-1) if more > 0 else replicas


def _changed(before: Ints, now: Ints) -> Bools:
    width = max(before.shape[1], now.shape[1])
    changed: Bools = (_widened(before, width) != _widened(now, width)).any(axis=1)
    return changed
