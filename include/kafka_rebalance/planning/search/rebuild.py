"""Fewer bytes for the same balance: taking back what gained nothing, and searching a part anew."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, distance
from kafka_rebalance.planning.problem.arrays import Bools, Ints, firsts
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.greedy import Effort, greedy
from kafka_rebalance.planning.search.placement import GAIN, Placement
from kafka_rebalance.planning.search.polish import polish


def take_back(placement: Placement, bands: Bands) -> None:
    """Returns every replica whose move gains nothing: going home leaves no broker further from its band."""
    while _return_idle(placement, bands):
        pass


def _return_idle(placement: Placement, bands: Bands) -> int:
    """One pass over the moved replicas; how many went home."""
    slots = np.flatnonzero((placement.replicas != placement.origin).ravel() & placement.free.ravel())
    homes = placement.origin.ravel()[slots]
    slots = slots[placement.receivers[np.maximum(homes, 0)] & (homes >= 0)]
    # The largest first: each return uses room in the bands that the next may need.
    slots = slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]
    returned = 0
    while len(slots):
        homes = placement.origin.ravel()[slots]
        idle = placement.changes(slots, homes[:, None], bands, home=True)[:, 0] <= -GAIN
        slots, homes = slots[idle], homes[idle]
        now = firsts(placement.replicas.ravel()[slots], homes, slots // placement.width)
        placement.move(slots[now], homes[now])
        returned += int(now.sum())
        slots = slots[~now]
    return returned


def rebuilt(
    placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator, enough: int
) -> Placement:
    """The placement, or one with fewer bytes: the moves of some brokers are taken back and searched anew, repeatedly.

    Large neighbourhood search (Shaw, 1998): a search that starts near its goal chooses better than one from afar.
    It ends when no more than `enough` bytes are copied.
    """
    best, best_keys = placement, _nearness_by_group(placement, bands)
    origin = np.maximum(placement.origin, 0)
    # What has to move cannot go home, nor can its partition.
    bound = violations(placement.rule, placement.origin)
    homeless = (placement.origin < 0) | ~placement.free | ~placement.receivers[origin]
    bound |= ((placement.replicas != placement.origin) & homeless).any(axis=1)
    for _ in range(effort.rebuilds):
        if best.budget.bytes <= enough:
            break
        trial = best.copy()
        trial.crowding.in_total = effort.givers * effort.several
        some = rng.random(len(givers)) < effort.rebuilt
        away = trial.replicas != trial.origin
        touched = (away & (some[trial.replicas] | some[origin])).any(axis=1) & ~bound
        _place(trial, np.flatnonzero((away & touched[:, None]).ravel()), trial.origin)
        greedy(trial, bands, givers, effort, rng)
        polish(trial, bands, givers, effort, rng)
        take_back(trial, bands)
        # Racks that exchange nothing are judged each for itself.
        keys = _nearness_by_group(trial, bands)
        for (mask, _), key, least in zip(trial.groups, keys, best_keys, strict=True):
            if key >= least:
                differs = (trial.replicas != best.replicas) & mask[best.replicas]
                _place(trial, np.flatnonzero(differs.ravel()), best.replicas)
        fits = trial.crowding.spare >= min(0, best.crowding.spare) and not trial.budget.exceeded()
        # What went home in a lump may have found its room taken, and need not have gained enough to leave again.
        fits &= best.too_full or not trial.too_full
        if fits and any(key < least for key, least in zip(keys, best_keys, strict=True)):
            best, best_keys = trial, list(map(min, keys, best_keys))
    return best


def _place(placement: Placement, slots: Ints, lists: Ints) -> None:
    """Puts these replicas on the brokers that `lists` names for them."""
    while len(slots):
        targets = lists.ravel()[slots]
        now = firsts(placement.replicas.ravel()[slots], targets, slots // placement.width)
        placement.move(slots[now], targets[now])
        slots = slots[~now]


def _nearness_by_group(placement: Placement, bands: Bands) -> list[tuple[float, int]]:
    """(squared distance of its receivers to their bands, bytes to copy) of each group of brokers."""
    off = np.where(placement.receivers, distance(placement.loads, bands.low, bands.high), 0.0)
    slots = np.flatnonzero((placement.replicas != placement.origin).ravel())
    holders, sizes = placement.replicas.ravel()[slots], placement.sizes[slots // placement.width]
    return [(round(float(off[mask].sum()), 8), int(sizes[mask[holders]].sum())) for mask, _ in placement.groups]


def nearness(placement: Placement, bands: Bands) -> tuple[float, int]:
    """(squared distance of all receivers to their bands, bytes to copy): the smaller, the better."""
    off = distance(placement.loads, bands.low, bands.high)[placement.receivers].sum()
    return round(float(off), 8), placement.budget.bytes
