"""Jobs `drain` and `replace`: replicas leave the brokers that are to be emptied, or go to their replacements.

The largest replicas leave first, while there is most room. Each goes to the place that helps balance most.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem
from kafka_rebalance.planning.problem.loads import DISK
from kafka_rebalance.planning.rules.rack_rule import allowed, violations
from kafka_rebalance.planning.search.placement import Placement

_REPACKS = 50  # times that all replicas that must go are placed anew, if disks are tight
_REPACKED = 20_000  # replicas placed in all of these times, about
_ROOMY = 1e300  # room on a disk of unknown size: more than on any other, but finite
_ASIDE = 100  # replicas of one broker to try to push aside, the smallest that suffice


def empty_brokers(placement: Placement, leaving: Bools, bands: Bands) -> Ints:
    """Moves every movable replica off the brokers that leave. Returns the slots that found no legal place.

    If disks are so full that some slots find none, it places all again, those first, each on the disk that it fills
    most (Joslin and Clements, "Squeaky wheel" optimization, 1999). A slot that is still left may push one other replica
    aside. Slots without a place even then prove nothing.
    """
    held = (placement.replicas >= 0) & leaving[np.maximum(placement.replicas, 0)] & placement.free
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
        mends = allowed(rule, placement.replicas, placement.domains, row, column, receivers, repair=True)
        return (bool(mends.any()) and best(only=mends)) or best()
    return best()


def _make_room(placement: Placement, slot: int, bands: Bands) -> bool:
    """Places one replica where the smallest other in its way has room elsewhere. Returns whether that is possible."""
    row, weight = slot // placement.width, placement.weights[slot // placement.width, DISK]
    receivers = np.flatnonzero(placement.receivers)
    room = placement.limits[:, DISK] - placement.loads[:, DISK]
    one, column = np.array([row]), np.array([slot % placement.width])
    here = allowed(placement.rule, placement.replicas, placement.domains, one, column, receivers)[0]
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
        if problem.foreign is not None and problem.foreign[index[new]]:
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
