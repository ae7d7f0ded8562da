"""`survive`: which losses a cluster has to survive, and how full disks and networks may be so that it does.

A *loss* is one broker, or with `survive: rack` a whole rack too. It is survived if no disk is then beyond its headroom
and no network beyond its capacity:

- The next replica in sync leads what was led there, as in `describe.worst_case`.
- A broker's replicas are copied anew to the rest of its rack, each broker by its disk. If it is alone there, or in no
  rack, all others share them. With `survive: rack` the loss of a broker that is alone is that of its rack.
- A rack's replicas are copied anew to all other racks, each broker by its disk, but only those of partitions for which
  the other racks are at least as many as the replicas. The others wait until their rack is back, because a copy would
  bring two replicas of a partition into one rack. Meanwhile their leaders send to fewer followers.

With pools, the others are those of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.settings import SURVIVE_RACK
from kafka_rebalance.planning.problem.arrays import (
    BYTES_IN,
    DISK,
    Bools,
    Floats,
    Ints,
    Problem,
    replica_loads,
    replica_weights,
    replication,
)

RACKLESS = "none"  # the name of brokers without a rack, which count as one together


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """One broker, or the brokers of a pool in one rack."""

    name: int | str  # id of the broker, or the rack
    lost: Bools  # [broker]
    takers: Bools  # [broker] who share its replicas
    rack: str | None  # of the takers; None: several
    copied: Bools | None  # [partition row] whose replicas are copied anew; None: all


def losses(problem: Problem) -> Sequence[Loss]:
    """None without the setting, or if nobody is left to take over."""
    if problem.settings.survive is None:
        return ()
    return tuple(_losses(problem))


def _losses(problem: Problem) -> Iterator[Loss]:
    racks, pool, here = np.array(problem.racks, dtype=object), problem.pools.of_broker, problem.registered
    of_racks, counts = problem.settings.survive == SURVIVE_RACK, replication(problem.replicas)
    counts = np.minimum(counts, problem.settings.replication_factor or counts)  # shorter lists find a rack sooner
    for number in np.unique(pool[here]).tolist():
        own = here & (pool == number)
        stays = own & problem.staying
        for broker in np.flatnonzero(own).tolist():
            lost, rack = np.arange(len(own)) == broker, racks[broker]
            beside = stays & ~lost & (racks == rack) & (rack is not None)
            if beside.any():
                yield Loss(int(problem.brokers[broker]), lost, beside, rack, None)
            elif (stays & ~lost).any() and not (of_racks and rack is not None):
                yield Loss(int(problem.brokers[broker]), lost, stays & ~lost, None, None)
        if of_racks:
            named = np.where(racks == None, RACKLESS, racks)  # noqa: E711  # elementwise
            for rack in sorted(set(named[own])):
                lost = own & (named == rack)
                if (others := stays & ~lost).any():
                    yield Loss(rack, lost, others, None, counts <= len(set(named[others])))


def check_losses(problem: Problem) -> None:
    """Raises PlanningError if a loss leaves nobody who could take over; with pools, in the problem of one."""
    survive, stays = problem.settings.survive, problem.staying
    racks = {rack for rack, here in zip(problem.racks, stays, strict=True) if here and rack is not None}
    if survive is not None and stays.sum() < 2:
        raise PlanningError(
            f"survive is {survive}, and {int(stays.sum())} broker stays: nobody could take over what it holds. Nothing "
            "was planned. Add a broker, or leave survive out."
        )
    if survive == SURVIVE_RACK and len(racks) < 2:
        raise PlanningError(
            f"survive is {survive}, and the brokers that stay are in {len(racks)} known racks: nobody could take over "
            "what a rack holds. Nothing was planned. Set broker.rack, add a rack, or ask for survive: broker."
        )


def without_survival(problem: Problem) -> Problem:
    """The problem in which no loss has to be survived."""
    return replace(problem, settings=replace(problem.settings, survive=None))


def taken_shares(problem: Problem, loss: Loss) -> Floats | None:
    """[broker] The part of the lost replicas that each takes, by its disk; None: the size of a disk is unknown."""
    sizes = np.where(loss.takers, problem.disk_capacity, 0.0)
    return None if np.isnan(sizes).any() or sizes.sum() <= 0 else sizes / sizes.sum()


def survival_limits(problem: Problem) -> tuple[Floats, Floats]:
    """([broker] bytes on a disk, [broker] bytes a second into a broker), up to which any loss is survived.

    inf where nothing is known or to be survived. If the brokers that share a loss are all filled to one level, the
    largest loss fills them to their limit. So the level is enough: no broker above it, no loss too many. Lower levels
    of some would let others be higher, which the search does not use.
    """
    keeps, brokers = 1 - problem.settings.disk_headroom, len(problem.brokers)
    disks, networks = np.full(brokers, np.inf), np.full(brokers, np.inf)
    weights, counts = replica_weights(problem), replication(problem.replicas)
    for loss in losses(problem):
        share = taken_shares(problem, loss)
        here = (loss.lost & problem.staying) | loss.takers
        own = loss.lost & problem.staying
        most = None
        if loss.copied is not None:  # a rack holds one replica of each at most
            most = (weights * (loss.copied & (counts > 0))[:, None]).sum(axis=0)
        if share is None:
            continue
        capacity = problem.disk_capacity
        if own.any() and not np.isnan(capacity[own]).any():
            lost, rest = float(capacity[own].sum()), float(capacity[loss.takers].sum())
            level = keeps * rest / (rest + lost)
            if most is not None:
                level = max(level, keeps - most[DISK] / rest)
            disks = np.where(here, np.minimum(disks, level * capacity), disks)
        received = problem.networks[:, 0]
        if own.any() and not np.isnan(received[here]).any():
            lost = float(received[own].sum())
            grows = float((lost * share[loss.takers] / received[loss.takers]).max(initial=0.0))
            level = 1 / (1 + grows)
            if most is not None:
                level = max(level, 1 - float((most[BYTES_IN] * share / np.maximum(received, 1e-9))[loss.takers].max()))
            networks = np.where(here, np.minimum(networks, level * received), networks)
    return disks, networks


class _SurvivesLosses:
    """A loss is survived: what a broker may hold, so that the others and it have room for each other's replicas.

    Nothing is said here of lists that break it: `describe.survival` looks at every loss itself.
    """

    metric: ClassVar[int]

    def in_the_end(self, problem: Problem) -> Floats:
        raise NotImplementedError

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        yield from ()

    def reached_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        yield from ()

    def check(self, problem: Problem, wanted: Ints) -> None:
        """Nothing: `describe.survival` tells which loss is not survived, and by how much."""


class DisksSurvive(_SurvivesLosses):
    """`survive`, for disks."""

    metric: ClassVar[int] = DISK

    def in_the_end(self, problem: Problem) -> Floats:
        if problem.settings.survive is None:
            return np.full(len(problem.brokers), np.inf)
        held = replica_loads(problem.replicas, replica_weights(problem), len(problem.brokers))[:, DISK]
        return survival_limits(problem)[0] - np.fmax(0.0, problem.disk_used - held)


class NetworksSurvive(_SurvivesLosses):
    """`survive`, for what networks receive."""

    metric: ClassVar[int] = BYTES_IN

    def in_the_end(self, problem: Problem) -> Floats:
        if problem.settings.survive is None:
            return np.full(len(problem.brokers), np.inf)
        return survival_limits(problem)[1]
