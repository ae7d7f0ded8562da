"""Fewer bytes for the same balance: taking back what gained nothing, and searching a part anew."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.arrays import Bools, Ints
from kafka_rebalance.planning.bounds import Bands
from kafka_rebalance.planning.constraints import violations
from kafka_rebalance.planning.exchange import polish
from kafka_rebalance.planning.placement import GAIN, Placement, distance
from kafka_rebalance.planning.search import Effort, greedy


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
        now = _alone(placement.replicas.ravel()[slots], homes, slots // placement.width)
        placement.move(slots[now], homes[now])
        returned += int(now.sum())
        slots = slots[~now]
    return returned


def _alone(*keys: Ints) -> Bools:
    """Which entries are the first with each of their keys: no two of them share one."""
    first = np.ones(len(keys[0]), dtype=bool)
    for key in keys:
        unseen = np.zeros(len(key), dtype=bool)
        unseen[np.unique(key, return_index=True)[1]] = True
        first &= unseen
    return first


def rebuilt(
    placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator, enough: int
) -> Placement:
    """The placement, or one with fewer bytes: the moves of some brokers are taken back and searched anew, repeatedly.

    Large neighbourhood search (Shaw, 1998): a search that starts near its goal chooses better than one from afar.
    It ends when no more than `enough` bytes are copied.
    """
    best, best_key = placement, nearness(placement, bands)
    origin = np.maximum(placement.origin, 0)
    # What has to move cannot go home, nor can its partition.
    bound = violations(placement.rule, placement.origin)
    homeless = (placement.origin < 0) | ~placement.free | ~placement.receivers[origin]
    bound |= ((placement.replicas != placement.origin) & homeless).any(axis=1)
    for _ in range(effort.rebuilds):
        if best_key[1] <= enough:
            break
        trial = best.copy()
        trial.crowding.in_total = effort.givers * effort.several
        some = rng.random(len(givers)) < effort.rebuilt
        away = trial.replicas != trial.origin
        touched = (away & (some[trial.replicas] | some[origin])).any(axis=1) & ~bound
        _send_home(trial, np.flatnonzero((away & touched[:, None]).ravel()))
        greedy(trial, bands, givers, effort, rng)
        polish(trial, bands, givers, effort, rng)
        take_back(trial, bands)
        key = nearness(trial, bands)
        if key < best_key and trial.crowding.spare >= min(0, best.crowding.spare):
            best, best_key = trial, key
    return best


def _send_home(placement: Placement, slots: Ints) -> None:
    """Gives these replicas back to the brokers they came from."""
    while len(slots):
        homes = placement.origin.ravel()[slots]
        now = _alone(placement.replicas.ravel()[slots], homes, slots // placement.width)
        placement.move(slots[now], homes[now])
        slots = slots[~now]


def nearness(placement: Placement, bands: Bands) -> tuple[float, int]:
    """(squared distance of all receivers to their bands, bytes to copy): the smaller, the better."""
    off = distance(placement.loads, bands.low, bands.high)[placement.receivers].sum()
    return round(float(off), 6), placement.budget.bytes
