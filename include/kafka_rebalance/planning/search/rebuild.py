"""Fewer bytes for the same balance: take back moves that gained nothing, and search a part anew."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, distance
from kafka_rebalance.planning.problem.arrays import Bools, Ints, firsts
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.greedy import Effort, greedy
from kafka_rebalance.planning.search.placement import GAIN, Limit, Placement
from kafka_rebalance.planning.search.polish import polish


def take_back(placement: Placement, bands: Bands) -> None:
    """Returns every replica whose move gains nothing: without it, no broker is further from its band."""
    returned = True
    while returned:
        returned = False
        slots = np.flatnonzero((placement.replicas != placement.origin).ravel() & placement.free.ravel())
        homes = placement.origin.ravel()[slots]
        slots = slots[placement.evened[np.maximum(homes, 0)] & (homes >= 0)]
        # The largest first, because each return uses room in the bands that the next may need.
        slots = slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]
        while len(slots):
            homes = placement.origin.ravel()[slots]
            idle = placement.changes(slots, homes[:, None], bands, home=True)[:, 0] <= -GAIN
            slots = _move_firsts(placement, slots[idle], placement.origin)
            returned |= bool(idle.any())


def give_back(placement: Placement, bands: Bands) -> None:
    """Returns replicas until the limits hold, those first that the balance misses least for their bytes.

    It ends with a limit exceeded if no replica may go home.
    """
    while over := placement.budget.exceeded():
        placement.budget.reached |= {name for name, _, _ in over}
        slots = np.flatnonzero((placement.replicas != placement.origin).ravel() & placement.free.ravel())
        homes = placement.origin.ravel()[slots]
        slots = slots[placement.evened[np.maximum(homes, 0)] & (homes >= 0)]
        missed = placement.changes(slots, placement.origin.ravel()[slots][:, None], bands, home=True)[:, 0]
        slots, missed = slots[np.isfinite(missed)], missed[np.isfinite(missed)]
        if not len(slots):
            return
        price = missed / np.maximum(1, placement.sizes[slots // placement.width])
        slots = slots[np.argsort(price, kind="stable")]
        excess = next((spent - limit for name, spent, limit in over if name is Limit.BYTES), 0)
        enough = int(np.searchsorted(np.cumsum(placement.sizes[slots // placement.width]), excess)) + 1
        _move_firsts(placement, slots[:enough], placement.origin)


def return_arrivals(placement: Placement, bands: Bands, givers: Bools) -> None:
    """Returns arrivals from disks and brokers beyond their limits, and from those above their band that give nothing.

    Each time the smallest replica that suffices goes home.
    """
    high = np.where(givers[:, None], np.inf, bands.high)
    high = np.minimum(high, placement.home_limits)
    for broker in np.flatnonzero(placement.receivers & (placement.loads > high).any(axis=1)):
        while (placement.loads[broker] > high[broker]).any():
            slots = np.sort(placement.held[broker, : placement.count[broker]])
            homes = placement.origin.ravel()[slots]  # none goes back to a broker that is to be emptied
            slots = slots[placement.away(slots) & (homes >= 0) & placement.evened[np.maximum(homes, 0)]]
            slots = slots[placement.legal(slots, placement.origin.ravel()[slots][:, None], home=True)[:, 0]]
            if not len(slots):
                break
            left = placement.loads[broker] - placement.weights[slots // placement.width] - high[broker]
            excess = np.maximum(0, left).sum(axis=1)
            one = slots[np.lexsort((placement.sizes[slots // placement.width], excess))[:1]]
            placement.move(one, placement.origin.ravel()[one])


def rebuilt(
    placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator, enough: int
) -> Placement:
    """Takes the moves of some brokers back and searches them anew, repeatedly. Returns the best placement.

    Large neighbourhood search (Shaw, 1998): a search that starts near its goal chooses better than one from afar.
    It ends once the plan copies no more than `enough` bytes.
    """
    best, best_keys = placement, _nearness_by_group(placement, bands)
    origin = np.maximum(placement.origin, 0)
    # Replicas that have to move cannot go home, and their partitions stay as they are.
    bound = violations(placement.rule, placement.origin)
    homeless = (placement.origin < 0) | ~placement.free | ~placement.evened[origin]
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
        # If racks exchange nothing, each is judged on its own.
        keys = _nearness_by_group(trial, bands)
        for (mask, _), key, least in zip(trial.groups, keys, best_keys, strict=True):
            if key >= least:
                differs = (trial.replicas != best.replicas) & mask[best.replicas]
                _place(trial, np.flatnonzero(differs.ravel()), best.replicas)
        fits = trial.crowding.spare >= min(0, best.crowding.spare) and not trial.budget.exceeded()
        fits &= trial.crowding.excess_leaders <= best.crowding.excess_leaders
        # Replicas that went home together may have found their room taken, and gain too little to leave again.
        fits &= best.too_full or not trial.too_full
        if fits and any(key < least for key, least in zip(keys, best_keys, strict=True)):
            best, best_keys = trial, list(map(min, keys, best_keys))
    return best


def _place(placement: Placement, slots: Ints, lists: Ints) -> None:
    """Puts these replicas on the brokers that `lists` names for them."""
    while len(slots):
        slots = _move_firsts(placement, slots, lists)


def _move_firsts(placement: Placement, slots: Ints, lists: Ints) -> Ints:
    """Makes as many of the moves as share no broker and no row. Returns the slots that are left."""
    targets = lists.ravel()[slots]
    now = firsts(placement.replicas.ravel()[slots], targets, slots // placement.width)
    placement.move(slots[now], targets[now])
    return slots[~now]


def _nearness_by_group(placement: Placement, bands: Bands) -> list[tuple[float, int]]:
    """(squared distance of its brokers to their bands, bytes to copy) of each group of brokers."""
    off = np.where(placement.evened, distance(placement.loads, bands.low, bands.high), 0.0)
    slots = np.flatnonzero((placement.replicas != placement.origin).ravel())
    holders, sizes = placement.replicas.ravel()[slots], placement.sizes[slots // placement.width]
    return [(round(float(off[mask].sum()), 8), int(sizes[mask[holders]].sum())) for mask, _ in placement.groups]


def nearness(placement: Placement, bands: Bands) -> tuple[float, int]:
    """(squared distance of all evened brokers to their bands, bytes to copy): the smaller, the better."""
    off = distance(placement.loads, bands.low, bands.high)[placement.evened].sum()
    return round(float(off), 8), placement.budget.bytes
