"""Candidates: which moves each job asks for, searched, scored and described.

`propose` is a pure function of the problem and the candidate's name; Spark calls it once for each candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.model.settings import OPTIMAL, SEARCHED
from kafka_rebalance.planning import forced, given
from kafka_rebalance.planning.arrays import (
    DISK,
    Bools,
    Floats,
    Ints,
    Problem,
    leader_loads,
    leader_weights,
    replication,
    widened,
)
from kafka_rebalance.planning.bounds import Bands, band, filled_bands
from kafka_rebalance.planning.constraints import violations
from kafka_rebalance.planning.exact import NOT_SOLVED, applies, fewest_bytes
from kafka_rebalance.planning.frame import Frame, among, budget_of, frame_of, leader_targets, spent
from kafka_rebalance.planning.jobs import goal_of
from kafka_rebalance.planning.leaders import balance_leaders
from kafka_rebalance.planning.outcome import Placed, Plan, infeasible, outcome
from kafka_rebalance.planning.placement import Budget, Placement, distance
from kafka_rebalance.planning.search import Effort, greedy, polish, take_back

# A small cluster is searched with several trade-offs and the best kept: there one replica too many is a per cent.
_SMALL_REPLICAS = 6_000
_SMALL_EFFORTS = tuple(
    Effort(weight_power=power, slack=slack, moves_per_step=1, polish_width=256, polish_patience=25)
    for power in (1.0, 0.8, 0.7, 0.9, 1.15)
    for slack in (0.03, 0.01, 0.06)
)
_TINY_REPLICAS, _TINY_EFFORTS = 300, 4  # where there is less to choose from, fewer trials find it


def propose(problem: Problem, name: str) -> Plan:
    """The candidate of that name. Raises PlanningError where the job itself is impossible."""
    if name not in SEARCHED:
        return given.propose(problem, name)
    goal = goal_of(problem.settings, name)
    wanted = forced.wanted_factor(problem) if goal.moves_replicas else replication(problem.replicas)
    frame = frame_of(problem, goal, wanted)
    if name == OPTIMAL:
        return _optimal(frame)
    budget = budget_of(problem)
    replicas = problem.replicas
    if goal.moves_replicas:
        placement, stranded = _forced(frame)
        budget = placement.budget
        if stranded:
            return infeasible(problem, name, _stranded(frame, placement, stranded))
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
        Placed(
            replicas,
            unordered,
            goal,
            frame.rule,
            frame.wanted,
            frame.targets,
            leader_targets,
            frame.scale,
            budget,
            relief=frame.relief,
        ),
    )


def _optimal(frame: Frame) -> Plan:
    """The candidate that is solved exactly."""
    problem, goal = frame.problem, frame.goal
    if not applies(problem):
        return infeasible(problem, OPTIMAL, NOT_SOLVED)
    found = fewest_bytes(frame)
    if found.replicas is None:
        return infeasible(problem, OPTIMAL, found.note)
    budget = spent(problem, found.replicas)
    if budget.exceeded():
        return infeasible(problem, OPTIMAL, _beyond(budget))
    lists, leaders = _with_leaders(frame, found.replicas, budget, OPTIMAL)
    return outcome(
        problem,
        OPTIMAL,
        Placed(
            lists,
            found.replicas,
            goal,
            frame.rule,
            frame.wanted,
            frame.targets,
            leaders,
            frame.scale,
            budget,
            notes=(found.note,),
        ),
    )


def _stranded(frame: Frame, placement: Placement, replicas: int) -> str:
    """That a replica which has to go somewhere can go nowhere, and what is in the way."""
    problem = frame.problem
    open_brokers = int(problem.receivers.sum())
    text = f"{replicas:,} replicas find no place on the {open_brokers} brokers that may receive: "
    left = (placement.disk_limit - placement.loads[:, DISK])[problem.receivers] * frame.scale[DISK]
    if not len(left) or not np.isfinite(left).all():
        return text + "all others of their racks hold a replica of the partition, or may receive nothing."
    kept, most = problem.settings.disk_headroom, max(0, int(left.max()))
    return text + (
        "the rack rule leaves few brokers for them, and with them those disks would be more than "
        f"{1 - kept:.0%} full (disk_headroom {kept:g}): the most that one has left is {most:,} bytes. Add brokers in "
        "those racks, or empty fewer."
    )


def _beyond(budget: Budget) -> str:
    """That even the moves the job cannot do without are more than the limits allow."""
    figures = ", ".join(f"{spent:,} against {name} {limit:,}" for name, spent, limit in budget.exceeded())
    return f"What the job cannot do without is beyond the limits: {figures}. Raise the limit, or ask for less."


def _placement(frame: Frame, replicas: Ints, origin: Ints, pinned: Bools, budget: Budget) -> Placement:
    problem = frame.problem
    held = np.maximum(replicas, 0)
    free = problem.relocatable[:, None] & (replicas >= 0) & ~problem.closed[held] & ~pinned
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


def _forced(frame: Frame) -> tuple[Placement, int]:
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
        replicas = forced.shrunk(start, frame.wanted, problem.leaving, problem.in_sync, plain)
        start = _placement(frame, replicas, before, nothing, Budget())
        replicas, short = forced.grown(start, frame.wanted, plain)
        replicas = forced.led_by_open_brokers(problem, replicas)
    # A slot's origin is the same broker if the partition had a replica there, else nowhere.
    kept = among(replicas, before)
    if replicas.shape == before.shape and settings.replication_factor is None:
        origin = before
    else:
        origin = np.where(kept, replicas, -1)
    placement = _placement(frame, replicas, origin, among(replicas, replaced) & ~kept, Budget())
    stranded = forced.empty_brokers(placement, problem.leaving, _filled(frame, placement, 0.04))
    placement.budget = spent(problem, placement.replicas)
    return placement, len(stranded) + short


def _filled(frame: Frame, placement: Placement, slack: float) -> Bands:
    """The bands to drive the search to, from where the placement is now."""
    problem, goal, loads = frame.problem, frame.goal, placement.loads
    if frame.relief is not None:
        return Bands(np.zeros_like(frame.targets), frame.relief.high)
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


def _best(frame: Frame, start: Placement, name: str) -> Placement:
    """Rack repairs and balance, tried with each effort; the one nearest to balance, then with fewest bytes."""
    problem, goal = frame.problem, frame.goal
    full = _filled(frame, start, 0.0) if frame.relief is not None else band(frame.targets, goal.tolerance)
    chosen: Placement | None = None
    best: tuple[float, int] | None = None
    start_off = distance(start.loads, full.low, full.high)[problem.receivers].sum()
    start_key = (round(float(start_off), 6), start.budget.bytes)  # already balanced: no effort betters this
    if start_off > 1e-6:
        start_key = (-1.0, 0)
    givers = problem.receivers.copy()
    if frame.relief is not None:
        givers &= frame.relief.givers & (start.loads > full.high).any(axis=1)
    pinned = (start.replicas >= 0) & ~start.free
    for number, effort in enumerate(_efforts(problem, start)):
        rng = np.random.default_rng([problem.settings.seed, SEARCHED.index(name), number])
        budget = spent(problem, start.replicas)
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


def _with_leaders(frame: Frame, replicas: Ints, budget: Budget, name: str) -> tuple[Ints, Floats]:
    """The lists re-ordered for leaders, and [broker, LEADER_METRICS] each broker's share in its own unit."""
    problem, goal = frame.problem, frame.goal
    before = widened(problem.replicas, replicas.shape[1])
    raw, targets, receivers = leader_weights(problem, replicas), leader_targets(problem, replicas), problem.receivers
    scale = raw.sum(axis=0) / max(1, int(problem.staying.sum()))
    unit = np.where(scale > 0, scale, 1.0)
    touched = _changed(before, replicas)
    givers = receivers.copy()
    if goal.one_sided:
        held = leader_loads(replicas, raw, len(receivers))
        givers &= (held > targets * (1 + goal.tolerance)).any(axis=1)
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
        rng=np.random.default_rng([problem.settings.seed, SEARCHED.index(name), 1_000]),
    )
    return result, targets


def _changed(before: Ints, now: Ints) -> Bools:
    width = max(before.shape[1], now.shape[1])
    changed: Bools = (widened(before, width) != widened(now, width)).any(axis=1)
    return changed
