"""Trials: one candidate searched with one or several efforts, and the best of them.

Every trial starts from the moves that the job asks for anyway, and draws from a seed of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, band, filled_bands
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.loads import DISK
from kafka_rebalance.planning.rules.crowding import Crowding
from kafka_rebalance.planning.search.excused_brokers import settle
from kafka_rebalance.planning.search.frame import Frame
from kafka_rebalance.planning.search.greedy import Effort, greedy
from kafka_rebalance.planning.search.placement import Budget, Placement, spent
from kafka_rebalance.planning.search.polish import polish
from kafka_rebalance.planning.search.rebuild import nearness, rebuilt, take_back
from kafka_rebalance.planning.search.repair_racks import repair_racks

# A small cluster is searched with several trade-offs and the best kept: there one replica too many is a per cent.
_SMALL_REPLICAS = 6_000
_SMALL = Effort(replicas=120, several=1, polish_width=256, polish_patience=25, crowds=True)
_SMALL_EFFORTS = (
    replace(_SMALL, costs=(0.25, 0.25)),
    replace(_SMALL, costs=(0.25, 0.25), cost_power=0.8),
    replace(_SMALL, costs=(1.0, 1.0), cost_power=0.8, slack=0.04),
)
# On a larger one the best of several searches is not much better than one that goes over its moves again.
_MIDDLE_REPLICAS = 200_000
_MIDDLE_EFFORTS = (Effort(replicas=400, rebuilds=6),)
_LARGE_EFFORTS = (Effort(),)
# Brokers that are empty need something of everything, and nothing is gained by going over that again.
_FILLING_EFFORTS = (Effort(costs=(1.0, 1.0)),)
_LARGE_FILLING_EFFORTS = (Effort(costs=(1.0, 1.0), replicas=64),)  # as good as 200 there, in half the time
_SPENDINGS = 4  # rounds, each of what the one before has left of the bytes
_ENOUGH = 1.01  # of the bytes that disks alone ask for: nothing is to be had below
_HALVINGS = 40
_KEPT_BACK = 0.95  # of the bytes that are left: replicas come in lumps, and what is over is spent in the next round


def placement_of(frame: Frame, replicas: Ints, origin: Ints, pinned: Bools, budget: Budget) -> Placement:
    """The lists as something to search. `origin` is where each replica was, `pinned` which may not be moved again."""
    problem = frame.problem
    held = np.maximum(replicas, 0)
    free = problem.relocatable[:, None] & (replicas >= 0) & ~problem.closed[held] & ~pinned
    return Placement(
        replicas,
        origin,
        frame.weights,
        problem.size_bytes,
        problem.size_bytes / frame.scale[DISK] if frame.scale[DISK] > 0 else np.zeros(len(replicas)),
        frame.rule,
        free,
        problem.receivers,
        frame.disk_limit,
        Crowding(replicas, problem.topic, frame.topic_shares),
        budget,
    )


def filled(frame: Frame, placement: Placement, slack: float, tolerance: float | None = None) -> Bands:
    """The bands to drive the search to, from where the placement is now; by default those of the goal's tolerance."""
    problem, goal, loads = frame.problem, frame.goal, placement.loads
    if frame.relief is not None:
        return Bands(np.zeros_like(frame.targets), frame.relief.high)
    receivers = problem.receivers
    on_leaving = np.where(problem.leaving[:, None], loads - frame.targets, 0.0)
    groups = [receivers & mask for mask, _ in placement.groups]
    extra = np.array([on_leaving[mask].sum(axis=0) for mask, _ in placement.groups])
    return filled_bands(
        frame.targets,
        loads,
        groups,
        goal.tolerance if tolerance is None else tolerance,
        np.maximum(0, extra.reshape(-1, loads.shape[1])),
        slack,
    )


def best_of_trials(frame: Frame, start: Placement, seed: tuple[int, int, int]) -> tuple[Placement, float]:
    """Rack repairs and balance, tried with each effort: the one nearest to balance, then with fewest bytes.

    Returns its squared distance to the bands as well.
    """
    full = filled(frame, start, 0.0) if frame.relief is not None else band(frame.targets, frame.goal.tolerance)
    at_first = nearness(start, full)
    chosen: tuple[tuple[float, int], Placement] | None = None
    for number, effort in enumerate(_efforts(start)):
        rng = np.random.default_rng([*seed, number])
        found = _trial(frame, start, full, effort, rng)
        key = nearness(found, full)
        if chosen is None or key < chosen[0]:
            chosen = key, found
        if not frame.goal.balances or (at_first[0] == 0 and key == at_first):
            break  # nothing to search, or nothing to better
    assert chosen is not None
    (off, _), best = chosen
    return best, off


def _efforts(start: Placement) -> Sequence[Effort]:
    replicas = int(start.free.sum())
    if replicas <= _SMALL_REPLICAS:
        return _SMALL_EFFORTS
    large = replicas > _MIDDLE_REPLICAS
    if (start.receivers & (start.count == 0)).any():
        return _LARGE_FILLING_EFFORTS if large else _FILLING_EFFORTS
    return _LARGE_EFFORTS if large else _MIDDLE_EFFORTS


def _trial(frame: Frame, start: Placement, full: Bands, effort: Effort, rng: np.random.Generator) -> Placement:
    problem, goal = frame.problem, frame.goal
    pinned = (start.replicas >= 0) & ~start.free
    placement = placement_of(frame, start.replicas, start.origin, pinned, spent(problem, start.replicas))
    placement.crowding.spare = start.crowding.spare
    if effort.crowds:
        placement.crowding.in_total = effort.givers * effort.several
    bands = filled(frame, placement, effort.slack)
    if goal.repairs_racks:
        repair_racks(placement, bands)
    if not goal.balances:
        return placement
    givers = problem.receivers.copy()
    if frame.relief is not None:
        givers &= frame.relief.givers & (start.loads > full.high).any(axis=1)
    is_short = _spend_on_the_worst(frame, placement, givers, effort, rng)
    if is_short:
        bands = filled(frame, placement, effort.slack)
    enough = placement.budget.bytes + int(_ENOUGH * _asked_of_disks(placement, full) * frame.scale[DISK])
    greedy(placement, bands, givers, effort, rng)
    polish(placement, full, givers, effort, rng)
    take_back(placement, full)
    if is_short:
        return placement  # what is searched anew may end nearer in all, with one broker further off
    found = rebuilt(placement, full, givers, effort, rng, enough)
    if frame.relief is None and int(placement.free.sum()) <= _SMALL_REPLICAS:
        settle(found, full, problem.receivers[:, None] & (frame.targets > 0))
    return found


def _spend_on_the_worst(
    frame: Frame, placement: Placement, givers: Bools, effort: Effort, rng: np.random.Generator
) -> bool:
    """Brings all as near to their shares as `max_bytes` affords, where that is not the tolerance; whether it is not."""
    is_short, budget, limit = False, placement.budget, placement.budget.max_bytes
    for _ in range(_SPENDINGS):
        found = affordable(frame, placement)
        if found is None:
            break
        is_short, bytes_before = True, budget.bytes
        bands = found.bands
        if frame.relief is None:
            bands = filled(frame, placement, effort.slack, found.tolerance)
        for (group, _), share in zip(placement.groups, found.bytes_by_group, strict=True):
            # Each group its own share: the first of them would take all.
            budget.max_bytes = min(budget.bytes + share, limit or 0)
            greedy(placement, bands, givers & group, effort, rng)
        budget.max_bytes = limit
        polish(placement, found.bands, givers, effort, rng)
        if budget.bytes == bytes_before:
            break
    return is_short


@dataclass(frozen=True, slots=True, eq=False)
class Affordable:
    """The bands of a tolerance, and the bytes that they take in each group of brokers between which replicas move."""

    tolerance: float
    bands: Bands
    bytes_by_group: tuple[int, ...]


def affordable(frame: Frame, placement: Placement) -> Affordable | None:
    """The smallest tolerance for which `max_bytes` has bytes enough from here; None where all that is asked fits.

    Job `relieve` takes from brokers down to what it asks of them, or to this tolerance above their share.
    """
    limit, unit, relief = placement.budget.max_bytes, frame.scale[DISK], frame.relief
    if limit is None or unit <= 0:
        return None
    left = _KEPT_BACK * max(0, limit - placement.budget.bytes) / unit
    loads, targets = placement.loads[:, DISK], frame.targets[:, DISK]

    def bands_of(tolerance: float) -> Bands:
        bands = band(frame.targets, tolerance)
        if relief is None:
            return bands
        return Bands(np.zeros_like(bands.low), np.maximum(bands.high, relief.high))

    def needed(tolerance: float) -> list[float]:
        """[group] What has to leave the brokers above, or come to those below, whichever is more."""
        bands = bands_of(tolerance)
        over = np.maximum(0.0, loads - bands.high[:, DISK])
        under = np.maximum(0.0, bands.low[:, DISK] - loads)
        if relief is not None:
            over[~relief.givers] = 0.0
        return [max(float(over[some].sum()), float(under[some].sum())) for _, some in placement.groups]

    asked = frame.goal.tolerance if relief is None else -1.0
    if sum(needed(asked)) <= left:
        return None
    here = placement.receivers & (targets > 0)
    low, high = asked, max(1.0, float((loads[here] / targets[here]).max(initial=0.0)))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(needed(middle)) <= left else (middle, high)
    return Affordable(high, bands_of(high), tuple(int(share * unit) for share in needed(high)))


def _asked_of_disks(placement: Placement, bands: Bands) -> float:
    """What the disks of the brokers have to give or take, whichever is more, to come into their bands."""
    held: Floats = placement.loads[placement.receivers, DISK]
    low, high = (values[placement.receivers, DISK] for values in (bands.low, bands.high))
    return float(max(np.maximum(0, held - high).sum(), np.maximum(0, low - held).sum()))
