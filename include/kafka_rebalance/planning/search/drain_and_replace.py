"""Jobs `drain` and `replace`: replicas leave the brokers that are to be emptied, or go to their replacements.

A replica that leaves goes to the place that helps balance most, largest first, while there is most room.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem
from kafka_rebalance.planning.problem.loads import DISK
from kafka_rebalance.planning.rules.rack_rule import allowed
from kafka_rebalance.planning.search.placement import Placement

_REPACKS = 50  # times that what must go is placed anew where disks are tight
_REPACKED = 20_000  # replicas in all of these, about
_ROOMY = 1e300  # left on a disk of unknown size: more than on any other, and a number
_ASIDE = 100  # replicas of one broker that may be pushed aside, the smallest that would do


def empty_brokers(placement: Placement, leaving: Bools, bands: Bands) -> Ints:
    """Moves every movable replica off the brokers that leave; returns the slots that found no legal place.

    Where disks are so full that some find none, all are placed again, those first, each on the disk that it fills
    most (Joslin and Clements, "Squeaky wheel" optimization, 1999); what is left may push one other replica aside. That
    some find no place even so proves nothing.
    """
    held = (placement.replicas >= 0) & leaving[np.maximum(placement.replicas, 0)] & placement.free
    slots = np.flatnonzero(held.ravel())
    slots = slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]
    homes = placement.replicas.ravel()[slots]
    stranded = [slot for slot in slots if not _place(placement, int(slot), bands)]
    if not np.isfinite(placement.disk_limit[placement.receivers]).any():
        return np.array(stranded, dtype=np.int64)
    for _ in range(min(_REPACKS, 1 + _REPACKED // max(1, len(slots)))):
        if not stranded:
            break
        for slot, home in zip(slots, homes, strict=True):
            if placement.replicas.flat[slot] != home:
                placement.move(np.array([slot]), np.array([home]))
        late = np.isin(slots, stranded, invert=True)
        order = np.argsort(late, kind="stable")
        slots, homes = slots[order], homes[order]
        stranded = [slot for slot in slots if not _place(placement, int(slot), bands, tightly=True)]
    stranded = [slot for slot in stranded if not _make_room(placement, int(slot), bands)]
    return np.array(stranded, dtype=np.int64)


def _place(placement: Placement, slot: int, bands: Bands, *, tightly: bool = False) -> bool:
    """Gives one replica to the receiver that is helped most, whatever the limits; whether there is a legal one.

    With `tightly` to the one with the least room that is left then.
    """
    receivers = np.flatnonzero(placement.receivers)
    if not len(receivers):
        return False
    one = np.array([slot])
    for crowd in (False, True):
        change = placement.changes(one, receivers, bands, crowd=crowd)[0]
        if tightly:
            room = np.minimum(placement.disk_limit - placement.loads[:, DISK], _ROOMY)[receivers]
            change = np.where(np.isfinite(change), room, np.inf)
        best = int(change.argmin())
        if np.isfinite(change[best]):
            placement.move(one, receivers[best : best + 1])
            return True
    return False


def _make_room(placement: Placement, slot: int, bands: Bands) -> bool:
    """Places one replica where the smallest other that is in its way has room elsewhere; whether that is possible."""
    row, weight = slot // placement.width, placement.weights[slot // placement.width, DISK]
    receivers = np.flatnonzero(placement.receivers)
    room = placement.disk_limit - placement.loads[:, DISK]
    here = allowed(
        placement.rule,
        placement.replicas,
        placement.domains,
        np.array([row]),
        np.array([slot % placement.width]),
        receivers,
    )[0]
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
    """The lists with every movable replica of an old broker on exactly its new one, in the same position.

    Raises PlanningError where the new broker cannot take one: it already has a copy, or its rack has.
    """
    result = replicas.copy()
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    for old, new in replacements.items():
        at = (replicas == index[old]) & problem.relocatable[:, None]
        result[at] = index[new]
        twice = at.any(axis=1) & (replicas == index[new]).any(axis=1)
        if twice.any():
            row = int(np.flatnonzero(twice)[0])
            raise PlanningError(
                f"Broker {new} cannot replace broker {old}: {int(twice.sum())} of the {int(at.any(axis=1).sum())} "
                f"partitions of broker {old} have a replica on broker {new} already, first "
                f"{problem.name_of(row)}. Nothing was planned. Choose another broker, or job 'drain' for {old}."
            )
        racks = problem.racks[index[old]], problem.racks[index[new]]
        confined = np.flatnonzero(at.any(axis=1) & problem.rack_pinned)
        if racks[0] is not None and racks[0] != racks[1] and len(confined):
            raise PlanningError(
                f"Broker {new} (rack {racks[1]}) cannot replace broker {old} (rack {racks[0]}): {len(confined)} of its "
                f"partitions are of rack_pinned_topics, first {problem.name_of(confined[0])}. Nothing was planned. "
                f"Choose a broker in rack {racks[0]}."
            )
    return result


def check_replacement_racks(problem: Problem, before: Bools, after: Bools) -> None:
    """Raises PlanningError if the replacement would break the rack rule: [partition row] whether it does."""
    broken = ~before & after
    if broken.any():
        first = problem.name_of(np.flatnonzero(broken)[0])
        pairs = ", ".join(f"{old} by {new}" for old, new in problem.settings.replace.items())
        raise PlanningError(
            f"Replacing broker {pairs} would break the rack rule for {int(broken.sum())} partitions, first {first}. "
            "Nothing was planned. Choose a new broker in the same rack, or job 'drain'."
        )
